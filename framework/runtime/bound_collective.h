// SPDX-License-Identifier: Apache-2.0
//
// BoundCollective: a collective of a plan bound to the memory of one replica. A BoundPlan creates
// one for each collective of its plan, then starts and finishes it in every step.
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

  // The collective that Start() starts, which sets its memory.
  virtual const Collective& collective() const = 0;

  // Resolves the operands, whose addresses may differ from step to step, and starts the collective.
  // `communicator` is null in a world of one rank: the collective is then the identity, or an
  // update of the whole variable.
  virtual absl::Status Start(Communicator* communicator, Lane& lane) = 0;
  virtual absl::Status Finish(Communicator* communicator, Lane& lane) = 0;
  // Time that the last Finish spent updating variables; 0 if the step is not traced.
  virtual int64_t update_ns() const { return 0; }
};

// State of the replica that a BoundCollective refers to. It outlives the BoundCollective.
struct CollectiveBinding {
  const Plan& plan;
  std::byte* const* bases;  // by region
  const std::atomic<bool>& traced;
  const std::atomic<uint64_t>& run;  // the number of the current run
  // Whether ranks of other processes write the variables once this rank has started an update.
  const bool& shares_variables;
  std::atomic<bool>& updated;  // set when an update of this run begins to write
};

// Binds collective `sequence` of the plan. `rows[axis][rank]` are the shards of all ranks.
std::unique_ptr<BoundCollective> BindCollective(int sequence,
                                                const std::vector<std::vector<int64_t>>& rows,
                                                const CollectiveBinding& binding);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_BOUND_COLLECTIVE_H_
