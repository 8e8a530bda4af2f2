// SPDX-License-Identifier: Apache-2.0
//
// PackValues: assigns an offset to every value, so that values alive at the same time do not
// overlap.
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
  int64_t live_bytes = 0;  // the maximum alive in one step, a lower bound for every plan
};

// Returns the smaller result of two heuristics: greedy by size (Pisarchyk and Lee, "Efficient
// Memory Management for Deep Neural Net Inference", 2020), which is quadratic and therefore skipped
// above a few thousand values; and best fit in order of time with coalescing, O(n log n).
MemoryPlan PackValues(absl::Span<const Lifetime> values);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_MEMORY_PLANNER_H_
