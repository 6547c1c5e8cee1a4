// A header (and what travels beside it) as a peer's protobuf brings it: it is refused, or it keeps every promise of Header,
// CheckFits judges it as 128-bit arithmetic does, and views of it stay inside what it reached.
// The first bytes choose the Storage's size and the view; the rest is the message.
#include <algorithm>
#include <cstring>

#include "tensorbroker/proto/convert.h"
#include "tensorbroker/tensor/views.h"
#include "tests/fuzz/check.h"

namespace {

using namespace tensorbroker;           // NOLINT: one file, one function after another
__extension__ typedef __int128 Int128;  // a `using` cannot say that it is an extension

// CheckFits again, without its care for overflow.
bool Fits(const Header& header, int64_t storage_nbytes) {
  Int128 low = header.offset_bytes(), high = low;
  for (int d = 0; d < header.rank(); ++d) {
    if (header.size(d) == 0) return header.offset_bytes() >= 0 && header.offset_bytes() <= storage_nbytes;
    const Int128 reach = Int128{header.size(d) - 1} * header.stride(d) * header.itemsize();
    (reach < 0 ? low : high) += reach;
  }
  return low >= 0 && high + header.itemsize() <= storage_nbytes;
}

void CheckView(const Header& header, const StatusOr<Header>& view) {
  if (!view.ok() || view->numel() == 0) return;
  const ByteRange whole = ByteExtent(header), part = ByteExtent(*view);
  TB_FUZZ_CHECK(part.begin >= whole.begin && part.end <= whole.end);
}

void CheckViews(const Header& header, const int8_t* choice) {
  const int64_t a = choice[0], b = choice[1], c = choice[2];
  CheckView(header, views::Transpose(header, a, b));
  CheckView(header, views::Narrow(header, a, b, c));
  CheckView(header, views::Select(header, a, b));
  CheckView(header, views::Slice(header, a, b, c, choice[3]));
  CheckView(header, views::Unsqueeze(header, a));
  CheckView(header, views::Squeeze(header));
  CheckView(header, views::Flatten(header, a, b));
  CheckView(header, views::Unfold(header, a, b, c));
  CheckView(header, views::Flip(header, {a}));
  CheckView(header, views::Diagonal(header, a, b, c));
  CheckView(header, views::View(header, {a, b}));
  CheckView(header, views::View(header, {-1}));
  CheckView(header, views::ViewDType(header, static_cast<DType>(std::clamp<int64_t>(
                                                 a, 0, static_cast<int64_t>(DType::kComplex128)))));
  CheckView(header, views::ViewAsReal(header));
}

template <typename Message>
void RoundTrip(const Message& message) {
  const auto value = FromProto(message);
  if (!value.ok()) return;
  Message again;
  ToProto(*value, &again);
  TB_FUZZ_CHECK(FromProto(again).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  int8_t choice[4];
  int64_t storage_nbytes;
  if (size < sizeof(choice) + sizeof(storage_nbytes)) return 0;
  std::memcpy(choice, data, sizeof(choice));
  std::memcpy(&storage_nbytes, data + sizeof(choice), sizeof(storage_nbytes));
  storage_nbytes &= INT64_MAX;
  data += sizeof(choice) + sizeof(storage_nbytes);
  const int length = static_cast<int>(size - sizeof(choice) - sizeof(storage_nbytes));

  v1::Grant grant;
  if (grant.ParseFromArray(data, length)) RoundTrip(grant);
  v1::StorageRecord record;
  if (record.ParseFromArray(data, length)) RoundTrip(record);

  v1::Header message;
  if (!message.ParseFromArray(data, length)) return 0;
  const StatusOr<Header> header = FromProto(message, Device{});
  if (!header.ok()) {
    TB_FUZZ_CHECK(Message(header.status()).size() <= kMaxMessageBytes);
    return 0;
  }
  TB_FUZZ_CHECK(header->shape().size() == header->strides().size());
  TB_FUZZ_CHECK(header->numel() >= 0 && header->nbytes() >= 0);
  v1::Header again;
  ToProto(*header, &again);
  const StatusOr<Header> same = FromProto(again, Device{});
  TB_FUZZ_CHECK(same.ok() && *same == *header);
  const bool fits = CheckFits(*header, storage_nbytes).ok();
  TB_FUZZ_CHECK(fits == Fits(*header, storage_nbytes));
  TB_FUZZ_CHECK(!ToString(*header).empty());
  CheckViews(*header, choice);
  return 0;
}
