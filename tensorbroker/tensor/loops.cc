#include "tensorbroker/tensor/loops.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "tensorbroker/tensor/convert.h"

namespace tensorbroker::internal {
namespace {

struct Bytes16 {
  uint64_t low, high;
};

// Elements of 2^n bytes at any alignment (a complex64 is 4-byte aligned).
template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <typename T>
void Store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

template <typename Visit>
void VisitItem(int64_t item, Visit&& visit) {
  switch (item) {
    case 1:
      return visit(std::type_identity<uint8_t>{});
    case 2:
      return visit(std::type_identity<uint16_t>{});
    case 4:
      return visit(std::type_identity<uint32_t>{});
    case 8:
      return visit(std::type_identity<uint64_t>{});
    default:
      return visit(std::type_identity<Bytes16>{});
  }
}

// Calls run(to, from) for each step of `count` nested loops.
template <typename Run>
void Nest(const Loop* loops, size_t count, std::byte* to, const std::byte* from, const Run& run) {
  if (count == 0) return run(to, from);
  for (int64_t i = 0; i < loops->count; ++i) {
    Nest(loops + 1, count - 1, to + i * loops->to, from + i * loops->from, run);
  }
}

template <typename T>
void FillRow(const Loop& row, std::byte* to, T value) {
  constexpr int64_t kItem = sizeof(T);
  if (row.to == kItem) {
    std::byte bytes[kItem];
    std::memcpy(bytes, &value, kItem);
    if (std::all_of(bytes, bytes + kItem, [&](std::byte b) { return b == bytes[0]; })) {
      std::memset(to, static_cast<int>(bytes[0]), static_cast<size_t>(row.count * kItem));
      return;
    }
    for (int64_t i = 0; i < row.count; ++i) Store<T>(to + i * kItem, value);
    return;
  }
  for (int64_t i = 0; i < row.count; ++i) Store<T>(to + i * row.to, value);
}

template <typename T>
void CopyRow(const Loop& row, std::byte* to, const std::byte* from) {
  constexpr int64_t kItem = sizeof(T);
  if (row.from == 0) return FillRow<T>(row, to, Load<T>(from));
  if (row.to == kItem) {
    for (int64_t i = 0; i < row.count; ++i) Store<T>(to + i * kItem, Load<T>(from + i * row.from));
  } else if (row.from == kItem) {
    for (int64_t i = 0; i < row.count; ++i) Store<T>(to + i * row.to, Load<T>(from + i * kItem));
  } else {
    for (int64_t i = 0; i < row.count; ++i) Store<T>(to + i * row.to, Load<T>(from + i * row.from));
  }
}

// Note [Tiles]: the destination runs along `row`, the source along `across`. Square tiles of lines of both stay in the
// first-level cache until each of their bytes is used; without them, each element read fetches a line for itself.
constexpr int64_t kTile = 32;

template <typename T>
void CopyTile(const Loop& across, const Loop& row, std::byte* to, const std::byte* from) {
  constexpr int64_t kItem = sizeof(T);
  const bool dense = row.to == kItem && across.from == kItem;
  for (int64_t i = 0; i < across.count; ++i) {
    std::byte* line = to + i * across.to;
    const std::byte* column = from + i * (dense ? kItem : across.from);
    if (dense) {
      for (int64_t j = 0; j < row.count; ++j) Store<T>(line + j * kItem, Load<T>(column + j * row.from));
    } else {
      for (int64_t j = 0; j < row.count; ++j) Store<T>(line + j * row.to, Load<T>(column + j * row.from));
    }
  }
}

#if defined(__GNUC__)
#define TB_VECTOR_TILES 1
using Vector4 = uint32_t __attribute__((vector_size(16)));

// Four by four elements of 4 bytes through registers.
inline void Transpose4x4(std::byte* to, int64_t to_line, const std::byte* from, int64_t from_line) {
  const auto a = Load<Vector4>(from);
  const auto b = Load<Vector4>(from + from_line);
  const auto c = Load<Vector4>(from + 2 * from_line);
  const auto d = Load<Vector4>(from + 3 * from_line);
  const Vector4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Vector4 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Vector4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Vector4 cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  Store<Vector4>(to, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
  Store<Vector4>(to + to_line, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
  Store<Vector4>(to + 2 * to_line, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
  Store<Vector4>(to + 3 * to_line, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

// A square tile of lines of 64 bytes each.
inline void Transpose16x16(const Loop& across, const Loop& row, std::byte* to, const std::byte* from) {
  for (int64_t i = 0; i < 16; i += 4) {
    for (int64_t j = 0; j < 16; j += 4) {
      Transpose4x4(to + i * across.to + j * 4, across.to, from + i * 4 + j * row.from, row.from);
    }
  }
}
#endif

template <typename T>
void CopyTiles(const Loop& across, const Loop& row, std::byte* to, const std::byte* from) {
  int64_t tile = kTile;
#if TB_VECTOR_TILES
  const bool vector = sizeof(T) == 4 && row.to == 4 && across.from == 4;
  if (vector) tile = 16;
#endif
  for (int64_t i = 0; i < across.count; i += tile) {
    const Loop lines{std::min(tile, across.count - i), across.to, across.from};
    for (int64_t j = 0; j < row.count; j += tile) {
      const Loop part{std::min(tile, row.count - j), row.to, row.from};
      std::byte* tile_to = to + i * across.to + j * row.to;
      const std::byte* tile_from = from + i * across.from + j * row.from;
#if TB_VECTOR_TILES
      if (vector && lines.count == 16 && part.count == 16) {
        Transpose16x16(lines, part, tile_to, tile_from);
        continue;
      }
#endif
      CopyTile<T>(lines, part, tile_to, tile_from);
    }
  }
}

}  // namespace

Loops MakeLoops(const Header& destination, const Header* source) {
  Loops result;
  result.to_start = destination.offset_bytes();
  result.from_start = source == nullptr ? 0 : source->offset_bytes();
  auto& loops = result.loops;
  for (int i = 0; i < destination.rank(); ++i) {
    Loop loop{destination.size(i), 0, 0};
    if (loop.count == 1) continue;
    loop.to = destination.stride(i) * destination.itemsize();
    if (source != nullptr) loop.from = source->stride(i) * source->itemsize();
    if (loop.to < 0) {
      result.to_start += (loop.count - 1) * loop.to;
      result.from_start += (loop.count - 1) * loop.from;
      loop.to = -loop.to;
      loop.from = -loop.from;
    }
    if (loop.to == 0 && source == nullptr) continue;
    loops.push_back(loop);
  }
  std::sort(loops.begin(), loops.end(), [](const Loop& a, const Loop& b) { return a.to > b.to; });
  size_t kept = 0;
  for (size_t i = 1; i < loops.size(); ++i) {
    Loop& outer = loops[kept];
    const Loop& inner = loops[i];
    if (outer.to == inner.to * inner.count && outer.from == inner.from * inner.count) {
      outer = {outer.count * inner.count, inner.to, inner.from};
    } else {
      loops[++kept] = inner;
    }
  }
  if (!loops.empty()) loops.resize(kept + 1);
  return result;
}

void RunCopy(const Loops& plan, int64_t item, std::byte* to, const std::byte* from) {
  auto loops = plan.loops;
  to += plan.to_start;
  from += plan.from_start;
  if (loops.empty()) loops.push_back({1, item, item});
  const Loop row = loops.back();
  loops.pop_back();
  if (row.to == item && row.from == item) {
    const size_t bytes = static_cast<size_t>(row.count * item);
    if (loops.empty()) {
      std::memmove(to, from, bytes);
      return;
    }
    return Nest(loops.data(), loops.size(), to, from,
                [&](std::byte* t, const std::byte* f) { std::memcpy(t, f, bytes); });
  }
  // The loop along which the source's memory runs, if it runs closer than along the row.
  size_t across = loops.size();
  int64_t closest = std::abs(row.from);
  for (size_t i = 0; i < loops.size(); ++i) {
    const int64_t stride = std::abs(loops[i].from);
    if (stride != 0 && stride < closest) {
      across = i;
      closest = stride;
    }
  }
  VisitItem(item, [&]<typename T>(std::type_identity<T>) {
    if (across == loops.size()) {
      Nest(loops.data(), loops.size(), to, from,
           [&](std::byte* t, const std::byte* f) { CopyRow<T>(row, t, f); });
      return;
    }
    const Loop lines = loops[across];
    loops.erase(loops.begin() + static_cast<ptrdiff_t>(across));
    Nest(loops.data(), loops.size(), to, from,
         [&](std::byte* t, const std::byte* f) { CopyTiles<T>(lines, row, t, f); });
  });
}

void RunConvert(const Loops& plan, DType to_dtype, std::byte* to, DType from_dtype, const std::byte* from) {
  auto loops = plan.loops;
  const int64_t to_item = ItemSize(to_dtype);
  const int64_t from_item = ItemSize(from_dtype);
  if (loops.empty()) loops.push_back({1, to_item, from_item});
  const Loop row = loops.back();
  loops.pop_back();
  // Each chunk: gather side by side, convert, scatter.
  const auto convert_row = [&](std::byte* t, const std::byte* f) {
    alignas(16) std::byte gathered[kConvertChunk * 16];
    alignas(16) std::byte converted[kConvertChunk * 16];
    for (int64_t done = 0; done < row.count; done += kConvertChunk) {
      const int64_t count = std::min(kConvertChunk, row.count - done);
      const std::byte* source = f + done * row.from;
      std::byte* destination = t + done * row.to;
      if (row.from != from_item) {
        VisitItem(from_item, [&]<typename T>(std::type_identity<T>) {
          CopyRow<T>({count, from_item, row.from}, gathered, source);
        });
        source = gathered;
      }
      ConvertElements(from_dtype, source, to_dtype, row.to == to_item ? destination : converted, count);
      if (row.to != to_item) {
        VisitItem(to_item, [&]<typename T>(std::type_identity<T>) {
          CopyRow<T>({count, row.to, to_item}, destination, converted);
        });
      }
    }
  };
  Nest(loops.data(), loops.size(), to + plan.to_start, from + plan.from_start, convert_row);
}

}  // namespace tensorbroker::internal
