// SPDX-License-Identifier: Apache-2.0
//
// PackValues: an offset for every value, so that values alive at the same time do not overlap.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_MEMORY_PLANNER_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_MEMORY_PLANNER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace mirrorflow {

// A value of `bytes` bytes, alive in steps first … last, both included.
struct Lifetime {
  int first = 0;
  int last = 0;
  int64_t bytes = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // multiples of kBufferAlignment
  int64_t peak_bytes = 0;
  int64_t live_bytes = 0;  // no plan can do with less: the most that is alive in one step
};

// Two heuristics, the smaller result: greedy by size (Pisarchyk and Lee, "Efficient Memory
// Management for Deep Neural Net Inference", 2020), quadratic and so left out above a few thousand
// values; and best fit in order of time with coalescing, O(n log n).
MemoryPlan PackValues(absl::Span<const Lifetime> values);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_MEMORY_PLANNER_H_
