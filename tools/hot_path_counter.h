// SPDX-License-Identifier: Apache-2.0
//
// Counts what does not belong on the hot path of a step. A program that links this has its
// allocator and its locks counted, in all threads and libraries.
#ifndef MIRRORFLOW_TOOLS_HOT_PATH_COUNTER_H_
#define MIRRORFLOW_TOOLS_HOT_PATH_COUNTER_H_

#include <cstdint>

namespace mirrorflow {

struct HotPathCounts {
  int64_t allocations = 0;         // by whomever
  int64_t onednn_allocations = 0;  // those of them that oneDNN makes in a call of a primitive
  int64_t locks = 0;               // of pthread's mutexes, which are std's
  int64_t onednn_locks = 0;        // as of allocations
  int64_t page_faults = 0;         // minor ones

  friend HotPathCounts operator-(const HotPathCounts& a, const HotPathCounts& b) {
    return {a.allocations - b.allocations, a.onednn_allocations - b.onednn_allocations,
            a.locks - b.locks, a.onednn_locks - b.onednn_locks, a.page_faults - b.page_faults};
  }
};

// Since the process started; oneDNN's since the first call.
HotPathCounts CountHotPath();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_HOT_PATH_COUNTER_H_
