// SPDX-License-Identifier: Apache-2.0
//
// Buffer: a block of host memory, aligned to a cache line and shared by reference counting.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_BUFFER_H_
#define MIRRORFLOW_FRAMEWORK_CORE_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

namespace mirrorflow {

inline constexpr size_t kBufferAlignment = 64;

inline constexpr size_t AlignUp(size_t bytes, size_t alignment = kBufferAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

class Buffer {
 public:
  // Returns `bytes` bytes of zeroed memory, or ResourceExhausted if that much is not available.
  // Aligns blocks of 2 MiB and more to huge pages and asks the system for such pages, because a
  // page fault costs more than the work that most kernels do on a page.
  static absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes);
  ~Buffer();

  // Returns ResourceExhausted if less than `bytes` of memory is available. Skips the check for
  // small sizes.
  static absl::Status CheckAvailable(size_t bytes);

  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  Buffer(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* const data_;
  const size_t size_;
};

// A pool of buffers. It reuses a buffer once nothing outside the pool refers to it. Take must be
// called by one thread at a time; any thread may drop references.
class BufferPool {
 public:
  // Returns a buffer of at least `bytes` bytes. A reused buffer keeps its old contents.
  absl::StatusOr<std::shared_ptr<Buffer>> Take(size_t bytes);

 private:
  std::vector<std::shared_ptr<Buffer>> buffers_;
};

// Returns the address `bytes` after `memory`.
inline std::byte* ByteOffset(void* memory, int64_t bytes) {
  return static_cast<std::byte*>(memory) + bytes;
}
inline const std::byte* ByteOffset(const void* memory, int64_t bytes) {
  return static_cast<const std::byte*>(memory) + bytes;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_BUFFER_H_
