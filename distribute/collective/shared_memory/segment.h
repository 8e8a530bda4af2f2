// SPDX-License-Identifier: Apache-2.0
//
// SharedSegment: anonymous memory (memfd) that several processes can map. It uses no file system
// space, and the kernel frees it when the last of these processes ends, even if it crashes.
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
  // Reserves `bytes` of address space, a multiple of kHugePageBytes. Populate provides the memory.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Create(size_t bytes);
  // Maps another process's segment and takes ownership of `fd`. Returns InvalidArgument if that
  // process could still shrink it, which would kill this process at its next access.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Open(int fd);
  ~SharedSegment();

  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  std::byte* data() const { return data_; }  // aligned to kHugePageBytes
  size_t size() const { return size_; }
  int fd() const { return fd_; }

  // Provides zeroed memory for a range of whole pages. Uses huge pages if the kernel supports them
  // and the range contains whole ones. Returns ResourceExhausted if not enough memory is available.
  absl::Status Populate(size_t offset, size_t bytes);
  // Returns the memory of a range of whole pages to the system. The addresses stay reserved.
  void Release(size_t offset, size_t bytes);

 private:
  explicit SharedSegment(int fd) : fd_(fd) {}
  absl::Status Map(size_t bytes);

  const int fd_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::byte* reserved_ = nullptr;  // the mapping, with slack for alignment
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_SEGMENT_H_
