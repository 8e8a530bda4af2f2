// SPDX-License-Identifier: Apache-2.0
//
// SharedHeap: allocates memory from this process's shared segment. Thread-safe. Designed for few
// large allocations: each takes whole pages.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_HEAP_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_HEAP_H_

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "distribute/collective/shared_memory/segment.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

class SharedHeap : public std::enable_shared_from_this<SharedHeap> {
 public:
  // Creates a heap that reserves addresses for all memory that this process may use, but for at
  // most 1/`num_heaps` of half its address space, so a process can map `num_heaps` such heaps.
  static absl::StatusOr<std::shared_ptr<SharedHeap>> Create(int num_heaps);

  const SharedSegment& segment() const { return *segment_; }

  // Returns zeroed memory, which is freed with its last owner. Returns ResourceExhausted if not
  // enough memory is available.
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes);

  // After this call, freed memory keeps its contents, because other processes still use some of it.
  // The system reclaims it when the last of these processes ends.
  void KeepContents();

 private:
  explicit SharedHeap(std::unique_ptr<SharedSegment> segment)
      : segment_(std::move(segment)), free_({{0, segment_->size()}}) {}
  absl::StatusOr<size_t> Take(size_t bytes);
  void GiveBack(size_t offset, size_t bytes);

  const std::unique_ptr<SharedSegment> segment_;
  Mutex mu_;
  std::map<size_t, size_t> free_ ABSL_GUARDED_BY(mu_);  // block size by offset; blocks are merged
  bool keeps_contents_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_HEAP_H_
