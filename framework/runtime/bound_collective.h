// SPDX-License-Identifier: Apache-2.0
//
// BoundCollective: a plan's collective, bound to the memory of one replica. A BoundPlan creates one
// for each collective of its plan, then starts and finishes it in every step.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_BOUND_COLLECTIVE_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_BOUND_COLLECTIVE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/plan.h"

namespace mirrorflow {

class BoundCollective {
 public:
  virtual ~BoundCollective() = default;

  // Returns the collective that Start() starts. Start() sets its memory.
  virtual const Collective& collective() const = 0;

  // Resolves the operands, whose addresses can change from step to step, and starts the collective.
  // `communicator` is null in a world of one rank: the collective then copies its input, or updates
  // the whole variable.
  virtual absl::Status Start(Communicator* communicator, Lane& lane) = 0;
  virtual absl::Status Finish(Communicator* communicator, Lane& lane) = 0;
  // Returns the time that the last Finish spent updating variables; 0 if the step is not traced.
  virtual int64_t update_ns() const { return 0; }
};

// Replica state that a BoundCollective refers to. It outlives the BoundCollective.
struct CollectiveBinding {
  const Plan& plan;
  std::byte* const* bases;  // by region
  const std::atomic<bool>& traced;
  const std::atomic<uint64_t>& run;  // number of the current run
  // If true, ranks in other processes write the variables once this rank has started an update.
  const bool& shares_variables;
  std::atomic<bool>& updated;  // set when an update of this run begins to write
};

// Binds collective `sequence` of the plan. `rows[axis][rank]` holds the row counts of all ranks.
std::unique_ptr<BoundCollective> BindCollective(int sequence,
                                                const std::vector<std::vector<int64_t>>& rows,
                                                const CollectiveBinding& binding);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_BOUND_COLLECTIVE_H_
