// SPDX-License-Identifier: Apache-2.0
//
// Buffer: a piece of host memory, aligned to a cache line, shared by reference counting.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_BUFFER_H_
#define MIRRORFLOW_FRAMEWORK_CORE_BUFFER_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"

namespace mirrorflow {

inline constexpr size_t kBufferAlignment = 64;

inline constexpr size_t AlignUp(size_t bytes, size_t alignment = kBufferAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

class Buffer {
 public:
  // Zeroed memory of `bytes` bytes; ResourceExhausted if there is not that much. Blocks of 2 MiB
  // and more are aligned to huge pages and ask for them: a page fault costs more than what most
  // kernels do with the page (PERFORMANCE.md 1.3).
  static absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes);
  ~Buffer();

  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  Buffer(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* const data_;
  const size_t size_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_BUFFER_H_
