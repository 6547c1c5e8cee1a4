// The lease's bytes from a hostile peer: whatever they are, the decoder refuses or gives frames that encode to what came.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tensorbroker/ipc/lease.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tensorbroker::EncodeLeaseFrame;
  using tensorbroker::LeaseDecoder;
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t piece = size_t{data[0]} + 1;  // how the stream is cut
  LeaseDecoder decoder;
  std::string again;
  bool good = true;
  for (size_t at = 0; at < stream.size() && good; at += piece) {
    good = decoder.Push(stream.substr(at, piece)).ok();
    while (const auto frame = decoder.Pop()) {
      again += EncodeLeaseFrame(*frame);
      (void)LeaseErrorStatus(*frame);
    }
  }
  if (again != stream.substr(0, again.size())) abort();
  if (good && again.size() + decoder.buffered_bytes() != stream.size()) abort();
  return 0;
}
