// The opaque bytes of Tensor::Export: what Client::Import needs to take a Storage over and read it.
#ifndef TENSORBROKER_CLIENT_HANDLE_H_
#define TENSORBROKER_CLIENT_HANDLE_H_

#include <string>
#include <string_view>

#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/proto/records.h"
#include "tensorbroker/tensor/header.h"

namespace tensorbroker::internal {

struct TransferHandle {
  StorageId storage;
  Token token;  // secret: who has the handle may import it
  GrantAccess access = GrantAccess::kReadOnly;
  Header header;
};

// Little-endian: "TBH1", storage (16 bytes), token (16), access (1), device type (1) and index (2), requires_grad (1), the
// dtype's name and then rank, offset, shape and strides as variable-length numbers, and a checksum (8) of all before it.
std::string EncodeHandle(const TransferHandle& handle);

// Checks all that can be checked without the broker: whether the header fits its Storage is for whoever knows its size.
// kInvalidArgument     not a handle, cut short, or altered
// kFailedPrecondition  a handle of a later version of this library
StatusOr<TransferHandle> DecodeHandle(std::string_view bytes);

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_CLIENT_HANDLE_H_
