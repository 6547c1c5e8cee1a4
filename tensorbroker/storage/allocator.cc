#include "tensorbroker/storage/allocator.h"

#include <fmt/format.h>

#include "tensorbroker/storage/round_up.h"

namespace tensorbroker {

Block& Block::operator=(Block&& other) noexcept {
  if (this == &other) return *this;
  if (segment_ != nullptr) allocator_->Free(std::move(segment_), offset_bytes_, size_bytes_);
  allocator_ = std::exchange(other.allocator_, nullptr);
  segment_ = std::move(other.segment_);
  offset_bytes_ = std::exchange(other.offset_bytes_, 0);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  return *this;
}

Block::~Block() {
  if (segment_ != nullptr) allocator_->Free(std::move(segment_), offset_bytes_, size_bytes_);
}

SegmentPerStorage::SegmentPerStorage(uint64_t epoch, SegmentSource* source, Budget* budget,
                                     Headroom* headroom, std::function<void(SegmentId)> on_retire)
    : epoch_(epoch),
      source_(source),
      budget_(budget),
      headroom_(headroom),
      on_retire_(std::move(on_retire)) {}

StatusOr<Block> SegmentPerStorage::Allocate(const AllocateRequest& request) {
  if (request.size_bytes < 0) {
    return InvalidArgumentError(fmt::format("create {} bytes: a size is not negative", request.size_bytes));
  }
  if (request.size_bytes == 0) return Block();
  TB_ASSIGN_OR_RETURN(const int64_t charged_bytes,
                      SegmentBytes(request.size_bytes, source_->info().page_bytes));
  TB_RETURN_IF_ERROR(budget_->Charge(charged_bytes));
  const auto claim = [&]() -> StatusOr<std::shared_ptr<Segment>> {
    if (headroom_ != nullptr) TB_RETURN_IF_ERROR(headroom_->Admit(charged_bytes));
    StatusOr<std::shared_ptr<Segment>> claimed =
        source_->Claim(SegmentId{epoch_, next_serial_.fetch_add(1)}, request.size_bytes, request.cancelled);
    if (headroom_ != nullptr) headroom_->Done(charged_bytes);
    return claimed;
  };
  StatusOr<std::shared_ptr<Segment>> segment = claim();
  if (!segment.ok()) {
    budget_->Refund(charged_bytes);
    return segment.status();
  }
  return Block(this, *std::move(segment), 0, request.size_bytes);
}

void SegmentPerStorage::Free(std::shared_ptr<Segment> segment, int64_t, int64_t) {
  const SegmentInfo info = segment->info();
  if (on_retire_) on_retire_(info.id);
  leaving_ ? segment->Leave() : segment->Retire();
  budget_->Refund(info.size_bytes);
}

}  // namespace tensorbroker
