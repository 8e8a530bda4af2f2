// SPDX-License-Identifier: Apache-2.0
//
// PlanMemory: assigns an address to every storage. Storages without a region are in the arena, at
// the offsets that PackValues returns.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_MEMORY_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_MEMORY_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

// A value of `bytes` bytes that is live from step `first` to step `last`, inclusive.
struct Lifetime {
  int first = 0;
  int last = 0;
  int64_t bytes = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // multiples of kBufferAlignment
  int64_t peak_bytes = 0;
  int64_t live_bytes = 0;  // the peak of the live bytes, a lower bound for any packing
};

// Returns the smaller result of two heuristics: greedy by size (Pisarchyk and Lee, "Efficient
// Memory Management for Deep Neural Net Inference", 2020), which is quadratic and therefore skipped
// above a few thousand values; and best fit in time order with coalescing, O(n log n).
MemoryPlan PackValues(absl::Span<const Lifetime> values);

class PlanMemory final : public PlanPass {
 public:
  absl::string_view name() const override { return "plan_memory"; }
  Facts needs() const override { return kEmitted; }
  Facts gives() const override { return kPlaced; }

 private:
  // Returns ResourceExhausted if the values exceed the memory of any machine.
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_MEMORY_H_
