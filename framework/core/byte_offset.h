// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_CORE_BYTE_OFFSET_H_
#define MIRRORFLOW_FRAMEWORK_CORE_BYTE_OFFSET_H_

#include <cstddef>
#include <cstdint>

namespace mirrorflow {

// Returns the address `bytes` after `memory`.
inline std::byte* ByteOffset(void* memory, int64_t bytes) {
  return static_cast<std::byte*>(memory) + bytes;
}
inline const std::byte* ByteOffset(const void* memory, int64_t bytes) {
  return static_cast<const std::byte*>(memory) + bytes;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_BYTE_OFFSET_H_
