// SPDX-License-Identifier: Apache-2.0
//
// SharedSegment: memory without a name (memfd) that several processes can map. It takes no room in
// a file system, and is gone when the last of them ends, however it ends.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_SEGMENT_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_SEGMENT_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mirrorflow {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

class SharedSegment {
 public:
  // Reserves addresses for `bytes` bytes, a multiple of kHugePageBytes; Populate provides memory.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Create(size_t bytes);
  // Maps the segment of another process, and owns `fd` from now on. InvalidArgument if that process
  // could still make it smaller, which would kill this one on its next access.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Open(int fd);
  ~SharedSegment();

  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  std::byte* data() const { return data_; }  // aligned to kHugePageBytes
  size_t size() const { return size_; }
  int fd() const { return fd_; }

  // Provides zeroed memory for a range of whole pages; in huge pages where the kernel has them, and
  // the range has room for some. ResourceExhausted if there is not enough memory.
  absl::Status Populate(size_t offset, size_t bytes);
  // Gives the memory of a range of whole pages back to the system. The addresses stay.
  void Release(size_t offset, size_t bytes);

 private:
  explicit SharedSegment(int fd) : fd_(fd) {}
  absl::Status Map(size_t bytes);

  const int fd_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::byte* reserved_ = nullptr;  // the mapping, with room to align it
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_SEGMENT_H_
