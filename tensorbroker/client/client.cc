#include "tensorbroker/client/client.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "tensorbroker/base/name.h"
#include "tensorbroker/client/held_storage.h"
#include "tensorbroker/client/inspector.h"
#include "tensorbroker/client/session.h"
#include "tensorbroker/tensor/fill.h"
#include "tensorbroker/tensor/views.h"

namespace tensorbroker {

using internal::HeldStorage;

StatusOr<Client> Client::Connect(ConnectOptions options) {
  TB_ASSIGN_OR_RETURN(std::shared_ptr<internal::Session> session, internal::Session::Connect(options));
  return Client(std::move(session), options.deadline);
}

TimePoint Client::Deadline() const { return DeadlineAfter(Clock::Real().Now(), deadline_); }

// ---- creation

StatusOr<Tensor> Client::Make(Dims shape, DType dtype, const CreateOptions& options, bool zero) const {
  TB_ASSIGN_OR_RETURN(Header header, Header::Contiguous(std::move(shape), dtype, options.device));
  TB_ASSIGN_OR_RETURN(header, views::WithRequiresGrad(header, options.requires_grad));
  TB_ASSIGN_OR_RETURN(internal::CreatedStorage created,
                      session_->Create(header.nbytes(), header, options.device, options.map, Deadline()));
  Tensor tensor(HeldStorage::Handle(std::move(created.storage)), std::move(header));
  if (zero && !created.zeroed) {
    TB_RETURN_IF_ERROR(tensor.Map());
    const std::span<std::byte> bytes = tensor.storage().mutable_bytes();
    if (!bytes.empty()) std::memset(bytes.data(), 0, bytes.size());
  }
  return tensor;
}

StatusOr<Tensor> Client::Empty(Dims shape, DType dtype, CreateOptions options) const {
  return Make(std::move(shape), dtype, options, false);
}

StatusOr<Tensor> Client::Zeros(Dims shape, DType dtype, CreateOptions options) const {
  return Make(std::move(shape), dtype, options, true);
}

StatusOr<Tensor> Client::Ones(Dims shape, DType dtype, CreateOptions options) const {
  return Full(std::move(shape), 1, dtype, options);
}

StatusOr<Tensor> Client::Full(Dims shape, double value, DType dtype, CreateOptions options) const {
  TB_ASSIGN_OR_RETURN(Tensor tensor, Make(std::move(shape), dtype, options, false));
  TB_RETURN_IF_ERROR(tensor.Fill(value));
  return tensor;
}

StatusOr<Tensor> Client::Arange(double start, double end, double step, DType dtype,
                                CreateOptions options) const {
  TB_ASSIGN_OR_RETURN(const int64_t length, ArangeLength(start, end, step));
  TB_ASSIGN_OR_RETURN(Tensor tensor, Make({length}, dtype, options, false));
  TB_RETURN_IF_ERROR(tensor.Map());
  TB_RETURN_IF_ERROR(FillArange(tensor.header(), tensor.storage().mutable_bytes(), start, step));
  return tensor;
}

StatusOr<Tensor> Client::EmptyLike(const Tensor& tensor, CreateOptions options) const {
  return Make(tensor.shape(), tensor.dtype(), options, false);
}

StatusOr<Tensor> Client::ZerosLike(const Tensor& tensor, CreateOptions options) const {
  return Make(tensor.shape(), tensor.dtype(), options, true);
}

StatusOr<Storage> Client::CreateStorage(int64_t size_bytes, CreateOptions options) const {
  TB_ASSIGN_OR_RETURN(internal::CreatedStorage created,
                      session_->Create(size_bytes, std::nullopt, options.device, options.map, Deadline()));
  return HeldStorage::Handle(std::move(created.storage));
}

// ---- opening

StatusOr<Tensor> Client::Open(std::string_view name, OpenOptions options) const {
  TB_ASSIGN_OR_RETURN(internal::OpenedTensor opened, session_->Open(name, options, Deadline()));
  return Tensor(HeldStorage::Handle(std::move(opened.storage)), std::move(opened.header));
}

StatusOr<Storage> Client::Attach(StorageId id, OpenOptions options) const {
  TB_ASSIGN_OR_RETURN(std::shared_ptr<HeldStorage> held, session_->Attach(id, options, Deadline()));
  return HeldStorage::Handle(std::move(held));
}

StatusOr<Tensor> Client::Import(std::string_view handle) const {
  TB_ASSIGN_OR_RETURN(internal::OpenedTensor opened, session_->Import(handle, Deadline()));
  return Tensor(HeldStorage::Handle(std::move(opened.storage)), std::move(opened.header));
}

// ---- names

Status Client::Unpublish(std::string_view name) const {
  const TimePoint deadline = Deadline();
  TB_ASSIGN_OR_RETURN(const auto link, session_->GetLink(deadline));
  return link->calls().Unpublish(name, deadline);
}

Status Client::Rename(std::string_view from, std::string_view to, bool replace) const {
  TB_RETURN_IF_ERROR(Annotate(CheckName(to), "Rename"));
  const TimePoint deadline = Deadline();
  TB_ASSIGN_OR_RETURN(const auto link, session_->GetLink(deadline));
  return link->calls().Rename(from, to, replace, deadline);
}

StatusOr<int64_t> Client::Delete(StorageId id) const {
  const TimePoint deadline = Deadline();
  TB_ASSIGN_OR_RETURN(const auto link, session_->GetLink(deadline));
  return link->calls().Delete(id, deadline);
}

// ---- the rest

Inspector Client::inspector() const { return Inspector(session_); }
Status Client::Flush() const { return session_->Flush(Deadline()); }
const std::string& Client::socket() const { return session_->socket(); }
SessionId Client::session_id() const { return session_->id(); }
int64_t Client::wire_bytes() const { return session_->wire_bytes(); }

}  // namespace tensorbroker
