// SPDX-License-Identifier: Apache-2.0
//
// Counts what a stretch of code costs the allocator and the kernel. A program that links this has
// its malloc family counted, in all threads and libraries.
#ifndef MIRRORFLOW_TOOLS_ALLOCATION_COUNTER_H_
#define MIRRORFLOW_TOOLS_ALLOCATION_COUNTER_H_

#include <cstdint>

namespace mirrorflow {

struct MemoryCounts {
  int64_t allocations = 0;  // calls of malloc, calloc, realloc, aligned_alloc, posix_memalign
  int64_t page_faults = 0;  // minor ones of the process

  friend MemoryCounts operator-(const MemoryCounts& a, const MemoryCounts& b) {
    return {a.allocations - b.allocations, a.page_faults - b.page_faults};
  }
};

// Since the process started.
MemoryCounts CountMemory();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_ALLOCATION_COUNTER_H_
