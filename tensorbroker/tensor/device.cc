#include "tensorbroker/tensor/device.h"

#include <fmt/format.h>

#include <charconv>

#include "tensorbroker/base/name.h"

namespace tensorbroker {

std::string ToString(Device device) {
  return device.type == DeviceType::kCpu ? std::string("cpu") : fmt::format("cuda:{}", device.index);
}

StatusOr<Device> ParseDevice(std::string_view text) {
  if (text == "cpu" || text == "cpu:0") return Device{};
  if (text == "cuda") return Device{DeviceType::kCuda, 0};
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    const std::string_view digits = text.substr(kPrefix.size());
    int16_t index = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc() && end == digits.data() + digits.size() && digits[0] != '-') {
      return Device{DeviceType::kCuda, index};
    }
  }
  return InvalidArgumentError(
      fmt::format("device {} is not known; use \"cpu\" or \"cuda:N\"", QuoteForMessage(text)));
}

}  // namespace tensorbroker
