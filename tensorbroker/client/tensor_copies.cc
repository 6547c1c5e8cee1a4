// What moves a Tensor's bytes.
#include <fmt/format.h>

#include <utility>

#include "tensorbroker/client/held_storage.h"
#include "tensorbroker/client/session.h"
#include "tensorbroker/client/tensor.h"
#include "tensorbroker/tensor/copy.h"
#include "tensorbroker/tensor/fill.h"
#include "tensorbroker/tensor/views.h"

namespace tensorbroker {

using internal::HeldStorage;

namespace {

Status CheckWritable(std::string_view call, const Tensor& tensor) {
  if (!tensor.storage()) return FailedPreconditionError(fmt::format("{}: the Tensor is undefined", call));
  if (tensor.writable()) return OkStatus();
  return FailedPreconditionError(fmt::format(
      "{}: the Tensor was opened read-only; open it with writable = true, or write to a Clone()", call));
}

}  // namespace

StatusOr<Tensor> Tensor::CopyTo(Dims shape) const {
  if (!storage_) return FailedPreconditionError("Clone: the Tensor is undefined");
  TB_ASSIGN_OR_RETURN(Header target, Header::Contiguous(std::move(shape), dtype(), device()));
  TB_ASSIGN_OR_RETURN(target, views::WithRequiresGrad(target, header_.requires_grad()));
  TB_RETURN_IF_ERROR(Map());
  internal::Session& session = *HeldStorage::Of(storage_)->session();
  TB_ASSIGN_OR_RETURN(internal::CreatedStorage created,
                      session.Create(target.nbytes(), target, device(), true, session.DefaultDeadline()));
  Tensor copy(HeldStorage::Handle(std::move(created.storage)), std::move(target));
  // In the source's shape: the target may be another reading of the same order.
  TB_ASSIGN_OR_RETURN(const Header same_shape, Header::Contiguous(header_.shape(), dtype(), device()));
  TB_RETURN_IF_ERROR(CopyStrided(same_shape, copy.storage_.mutable_bytes(), header_, storage_.bytes()));
  return copy;
}

StatusOr<Tensor> Tensor::Clone() const { return CopyTo(header_.shape()); }

StatusOr<Tensor> Tensor::Contiguous() const {
  if (is_contiguous()) return *this;
  return Clone();
}

StatusOr<Tensor> Tensor::Reshape(Dims shape, bool* copied) const {
  TB_ASSIGN_OR_RETURN(const bool is_view, views::ReshapeIsView(header_, shape));
  if (copied != nullptr) *copied = !is_view;
  if (is_view) return WithHeader(views::Reshape(header_, shape));
  TB_ASSIGN_OR_RETURN(Dims inferred, views::InferShape(header_, shape));
  return CopyTo(std::move(inferred));
}

Status Tensor::CopyFrom(const Tensor& source) const {
  TB_RETURN_IF_ERROR(CheckWritable("copy_", *this));
  if (!source.storage()) return FailedPreconditionError("copy_: the source is undefined");
  TB_RETURN_IF_ERROR(Map());
  TB_RETURN_IF_ERROR(source.Map());
  // One Storage may be mapped twice here, read-only and read-write: read through the same mapping, so that an overlap
  // shows.
  const std::span<const std::byte> from =
      source.storage().id() == storage_.id() ? storage_.bytes() : source.storage().bytes();
  return CopyStrided(header_, storage_.mutable_bytes(), source.header(), from);
}

Status Tensor::Fill(double value) const {
  TB_RETURN_IF_ERROR(CheckWritable("fill_", *this));
  TB_RETURN_IF_ERROR(Map());
  return FillStrided(header_, storage_.mutable_bytes(), Scalar(value));
}

}  // namespace tensorbroker
