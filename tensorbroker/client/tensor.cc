// Headers over a Storage: views and sharing. No byte is moved here; tensor_copies.cc moves them.
#include "tensorbroker/client/tensor.h"

#include <fmt/format.h>

#include <utility>

#include "tensorbroker/base/name.h"
#include "tensorbroker/client/handle.h"
#include "tensorbroker/client/held_storage.h"
#include "tensorbroker/client/session.h"
#include "tensorbroker/tensor/format.h"
#include "tensorbroker/tensor/views.h"

namespace tensorbroker {

using internal::HeldStorage;

Tensor::Tensor() : header_(*Header::Contiguous({0}, DType::kFloat32)) {}

StatusOr<Tensor> Tensor::Over(Storage storage, Header header) {
  if (!storage) return FailedPreconditionError("Tensor::Over: there is no Storage");
  if (header.device() != storage.device()) {
    return FailedPreconditionError(fmt::format("Tensor::Over: the header is of {}, the Storage is on {}",
                                               tensorbroker::ToString(header.device()),
                                               tensorbroker::ToString(storage.device())));
  }
  TB_RETURN_IF_ERROR(Annotate(CheckFits(header, storage.nbytes()), "Tensor::Over"));
  return Tensor(std::move(storage), std::move(header));
}

const void* Tensor::data_ptr() const {
  const std::span<const std::byte> bytes = storage_.bytes();
  return bytes.empty() ? nullptr : bytes.data() + header_.offset_bytes();
}

void* Tensor::mutable_data_ptr() const {
  const std::span<std::byte> bytes = storage_.mutable_bytes();
  return bytes.empty() ? nullptr : bytes.data() + header_.offset_bytes();
}

StatusOr<Tensor> Tensor::WithHeader(StatusOr<Header> header) const {
  if (!header.ok()) return std::move(header).status();
  return Tensor(storage_, *std::move(header));
}

// ---- views

StatusOr<Tensor> Tensor::View(Dims shape) const { return WithHeader(views::View(header_, shape)); }
StatusOr<Tensor> Tensor::View(DType dtype) const { return WithHeader(views::ViewDType(header_, dtype)); }
StatusOr<Tensor> Tensor::T() const { return WithHeader(views::T(header_)); }
StatusOr<Tensor> Tensor::Transpose(int64_t dim0, int64_t dim1) const {
  return WithHeader(views::Transpose(header_, dim0, dim1));
}
StatusOr<Tensor> Tensor::SwapAxes(int64_t dim0, int64_t dim1) const {
  return WithHeader(views::SwapAxes(header_, dim0, dim1));
}
StatusOr<Tensor> Tensor::Permute(Dims dims) const { return WithHeader(views::Permute(header_, dims)); }
StatusOr<Tensor> Tensor::MoveDim(int64_t source, int64_t destination) const {
  return WithHeader(views::MoveDim(header_, source, destination));
}
StatusOr<Tensor> Tensor::Narrow(int64_t dim, int64_t start, int64_t length) const {
  return WithHeader(views::Narrow(header_, dim, start, length));
}
StatusOr<Tensor> Tensor::Select(int64_t dim, int64_t index) const {
  return WithHeader(views::Select(header_, dim, index));
}
StatusOr<Tensor> Tensor::Slice(int64_t dim, int64_t start, int64_t end, int64_t step) const {
  return WithHeader(views::Slice(header_, dim, start, end, step));
}
StatusOr<Tensor> Tensor::Unsqueeze(int64_t dim) const { return WithHeader(views::Unsqueeze(header_, dim)); }
StatusOr<Tensor> Tensor::Squeeze() const { return WithHeader(views::Squeeze(header_)); }
StatusOr<Tensor> Tensor::Squeeze(int64_t dim) const { return WithHeader(views::Squeeze(header_, dim)); }
StatusOr<Tensor> Tensor::Expand(Dims shape) const { return WithHeader(views::Expand(header_, shape)); }
StatusOr<Tensor> Tensor::Flatten(int64_t start_dim, int64_t end_dim) const {
  return WithHeader(views::Flatten(header_, start_dim, end_dim));
}
StatusOr<Tensor> Tensor::Unfold(int64_t dim, int64_t size, int64_t step) const {
  return WithHeader(views::Unfold(header_, dim, size, step));
}
StatusOr<Tensor> Tensor::Flip(Dims dims) const { return WithHeader(views::Flip(header_, dims)); }
StatusOr<Tensor> Tensor::Diagonal(int64_t offset, int64_t dim0, int64_t dim1) const {
  return WithHeader(views::Diagonal(header_, offset, dim0, dim1));
}
StatusOr<Tensor> Tensor::ViewAsReal() const { return WithHeader(views::ViewAsReal(header_)); }
StatusOr<Tensor> Tensor::ViewAsComplex() const { return WithHeader(views::ViewAsComplex(header_)); }
Tensor Tensor::Detach() const { return Tensor(storage_, views::Detach(header_)); }

StatusOr<Tensor> Tensor::AsStrided(Dims shape, Dims strides, int64_t storage_offset) const {
  // The one view that can reach where its base does not.
  TB_ASSIGN_OR_RETURN(Header header, views::AsStrided(header_, shape, strides, storage_offset));
  TB_RETURN_IF_ERROR(Annotate(CheckFits(header, storage_.nbytes()), "as_strided"));
  return Tensor(storage_, std::move(header));
}

// ---- sharing

Status Tensor::Publish(std::string_view name, PublishOptions options) const {
  if (!storage_) return FailedPreconditionError("Publish: the Tensor is undefined");
  TB_RETURN_IF_ERROR(Annotate(CheckName(name), "Publish"));
  internal::Session& session = *HeldStorage::Of(storage_)->session();
  const TimePoint deadline = session.DefaultDeadline();
  TB_ASSIGN_OR_RETURN(const auto link, session.GetLink(deadline));
  return link->calls().Publish(name, storage_.id(), header_, options, deadline).status();
}

StatusOr<std::string> Tensor::Export() const {
  if (!storage_) return FailedPreconditionError("Export: the Tensor is undefined");
  const std::shared_ptr<HeldStorage>& held = HeldStorage::Of(storage_);
  internal::Session& session = *held->session();
  TB_ASSIGN_OR_RETURN(const Token token, session.Export(*held, session.DefaultDeadline()));
  return internal::EncodeHandle({held->id(), token, held->access(), header_});
}

std::string Tensor::ToString() const {
  if (!storage_) return "undefined";
  if (const Status mapped = Map(); !mapped.ok()) {
    return fmt::format("tensor(<{}>, {})", Message(mapped), tensorbroker::ToString(header_));
  }
  const StatusOr<std::string> text = Format(header_, storage_.bytes());
  return text.ok() ? *text
                   : fmt::format("tensor(<{}>, {})", Message(text.status()), tensorbroker::ToString(header_));
}

}  // namespace tensorbroker
