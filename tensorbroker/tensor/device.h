// Where bytes live: the host, or one GPU.
#ifndef TENSORBROKER_TENSOR_DEVICE_H_
#define TENSORBROKER_TENSOR_DEVICE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tensorbroker/base/status.h"

namespace tensorbroker {

enum class DeviceType : uint8_t { kCpu, kCuda };

// Plain value. `index` counts GPUs as this process sees them; the host has only 0.
struct Device {
  DeviceType type = DeviceType::kCpu;
  int16_t index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device kCpu{};

// "cpu", "cuda:0".
std::string ToString(Device device);

// Reads what ToString wrote, and "cuda" as "cuda:0".
// kInvalidArgument  anything else
StatusOr<Device> ParseDevice(std::string_view text);

}  // namespace tensorbroker

#endif  // TENSORBROKER_TENSOR_DEVICE_H_
