// SPDX-License-Identifier: Apache-2.0
//
// Counts operations that do not belong on a step's hot path. A program that links this file counts
// its allocations and locks, in all threads and libraries.
#ifndef MIRRORFLOW_TOOLS_BENCH_HOT_PATH_COUNTER_H_
#define MIRRORFLOW_TOOLS_BENCH_HOT_PATH_COUNTER_H_

#include <cstdint>

namespace mirrorflow {

struct HotPathCounts {
  int64_t allocations = 0;         // by any caller
  int64_t onednn_allocations = 0;  // by oneDNN when it executes primitives
  int64_t locks = 0;               // locks of pthread mutexes, including std::mutex
  int64_t onednn_locks = 0;        // taken by oneDNN
  int64_t page_faults = 0;         // minor page faults

  friend HotPathCounts operator-(const HotPathCounts& a, const HotPathCounts& b) {
    return {a.allocations - b.allocations, a.onednn_allocations - b.onednn_allocations,
            a.locks - b.locks, a.onednn_locks - b.onednn_locks, a.page_faults - b.page_faults};
  }
};

// Returns the counts since the process started. The oneDNN counts start with the first call.
HotPathCounts CountHotPath();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_HOT_PATH_COUNTER_H_
