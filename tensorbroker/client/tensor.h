// A Tensor: a header, a hold on its Storage, and the mapping. What users of this library have in hand.
#ifndef TENSORBROKER_CLIENT_TENSOR_H_
#define TENSORBROKER_CLIENT_TENSOR_H_

#include <string>
#include <string_view>

#include "tensorbroker/base/status.h"
#include "tensorbroker/client/options.h"
#include "tensorbroker/client/storage.h"
#include "tensorbroker/tensor/dims.h"
#include "tensorbroker/tensor/header.h"

namespace tensorbroker {

// A value: copy, move and drop it freely; it may outlive the Client. Views share the Storage, never copy
// bytes, and make no call to the broker. Names and rules are torch's. Distinct Tensors may be used from
// distinct threads; whoever writes bytes that others read must order that with them.
class Tensor {
 public:
  Tensor();  // undefined: no Storage; shape (0)

  // A header over the bytes of `storage`. kOutOfRange: it reaches outside.
  static StatusOr<Tensor> Over(Storage storage, Header header);

  const Header& header() const { return header_; }
  const Storage& storage() const { return storage_; }
  const Dims& shape() const { return header_.shape(); }
  const Dims& strides() const { return header_.strides(); }  // elements
  DType dtype() const { return header_.dtype(); }
  Device device() const { return header_.device(); }
  int64_t numel() const { return header_.numel(); }
  int64_t nbytes() const { return header_.nbytes(); }
  bool is_contiguous() const { return header_.is_contiguous(); }
  bool writable() const { return storage_.writable(); }

  // The address of the element at index 0; null where nothing is mapped (no elements, or never mapped).
  const void* data_ptr() const;
  void* mutable_data_ptr() const;  // null where not writable
  // The same as T; null where T is not this dtype. Elements are data<T>()[sum of index * stride].
  template <typename T>
  T* data() const;

  // ---- views: a new header, O(1), no byte touched. kInvalidArgument or kOutOfRange with torch's reason.
  StatusOr<Tensor> View(
      Dims shape) const;  // one -1 is inferred; kFailedPrecondition: strides do not allow it
  StatusOr<Tensor> View(DType dtype) const;
  StatusOr<Tensor> T() const;
  StatusOr<Tensor> Transpose(int64_t dim0, int64_t dim1) const;
  StatusOr<Tensor> SwapAxes(int64_t dim0, int64_t dim1) const;
  StatusOr<Tensor> Permute(Dims dims) const;
  StatusOr<Tensor> MoveDim(int64_t source, int64_t destination) const;
  StatusOr<Tensor> Narrow(int64_t dim, int64_t start, int64_t length) const;
  StatusOr<Tensor> Select(int64_t dim, int64_t index) const;
  StatusOr<Tensor> Slice(int64_t dim, int64_t start, int64_t end, int64_t step = 1) const;
  StatusOr<Tensor> Unsqueeze(int64_t dim) const;
  StatusOr<Tensor> Squeeze() const;
  StatusOr<Tensor> Squeeze(int64_t dim) const;
  StatusOr<Tensor> Expand(Dims shape) const;
  StatusOr<Tensor> AsStrided(Dims shape, Dims strides, int64_t storage_offset) const;
  StatusOr<Tensor> Flatten(int64_t start_dim = 0, int64_t end_dim = -1) const;
  StatusOr<Tensor> Unfold(int64_t dim, int64_t size, int64_t step) const;
  StatusOr<Tensor> Flip(Dims dims) const;  // a view with negative strides (torch copies)
  StatusOr<Tensor> Diagonal(int64_t offset = 0, int64_t dim0 = 0, int64_t dim1 = 1) const;
  StatusOr<Tensor> ViewAsReal() const;
  StatusOr<Tensor> ViewAsComplex() const;
  Tensor Detach() const;  // aliases: a write through it is seen

  // ---- copies: nbytes() bytes move. Each new Tensor is a new Storage (one call).
  StatusOr<Tensor> Clone() const;       // contiguous
  StatusOr<Tensor> Contiguous() const;  // *this where it is
  // A view where strides allow, else a copy; `copied`, where given, says which.
  StatusOr<Tensor> Reshape(Dims shape, bool* copied = nullptr) const;
  // Copies `source`'s elements into this one; broadcasts and converts as torch's copy_ does.
  // kFailedPrecondition  read-only, overlapping, or on another device (names both)
  Status CopyFrom(const Tensor& source) const;
  Status Fill(double value) const;

  // ---- sharing
  // From this instant others can open it by `name`. One call.
  // kAlreadyExists  a live session has that name: its pid and age are named
  Status Publish(std::string_view name, PublishOptions options = {}) const;
  // An opaque handle for another process (Client::Import) that keeps the bytes alive on the way, past this
  // process's end.
  StatusOr<std::string> Export() const;

  // Maps the bytes if they are not yet.
  Status Map() const { return storage_.Map(); }

  // As torch prints it, summarised.
  std::string ToString() const;

 private:
  Tensor(Storage storage, Header header) : storage_(std::move(storage)), header_(std::move(header)) {}
  friend class Client;
  StatusOr<Tensor> WithHeader(StatusOr<Header> header) const;
  // A new Storage with these elements, contiguous, in `shape`.
  StatusOr<Tensor> CopyTo(Dims shape) const;

  Storage storage_;
  Header header_;
};

template <typename T>
T* Tensor::data() const {
  if (DTypeOf<std::remove_const_t<T>>() != dtype()) return nullptr;
  if constexpr (std::is_const_v<T>) {
    return static_cast<T*>(data_ptr());
  } else {
    return static_cast<T*>(mutable_data_ptr());
  }
}

}  // namespace tensorbroker

#endif  // TENSORBROKER_CLIENT_TENSOR_H_
