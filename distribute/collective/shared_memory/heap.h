// SPDX-License-Identifier: Apache-2.0
//
// SharedHeap: allocates parts of this process's shared segment. Thread-safe. Made for few and large
// allocations: each takes whole pages.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_HEAP_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_HEAP_H_

#include <cstddef>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "distribute/collective/shared_memory/segment.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

class SharedHeap : public std::enable_shared_from_this<SharedHeap> {
 public:
  // Creates a heap with addresses for all memory that this process may use, or, if these are too
  // many, for its share of the address space of a process that maps `num_heaps` heaps.
  static absl::StatusOr<std::shared_ptr<SharedHeap>> Create(int num_heaps);

  const SharedSegment& segment() const { return *segment_; }

  // Returns zeroed memory, which is freed with its last owner. ResourceExhausted if that much is
  // not available.
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes);

  // Memory that is freed from now on keeps its contents, because other processes still use some of
  // it. The system takes it back when the last of them ends.
  void KeepContents();

 private:
  explicit SharedHeap(std::unique_ptr<SharedSegment> segment);
  absl::StatusOr<size_t> Take(size_t bytes);
  void GiveBack(size_t offset, size_t bytes);

  const std::unique_ptr<SharedSegment> segment_;
  Mutex mu_;
  std::map<size_t, size_t> free_ ABSL_GUARDED_BY(mu_);  // size by offset; neighbours are merged
  bool keeps_contents_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_HEAP_H_
