// SPDX-License-Identifier: Apache-2.0
//
// BoundCollective: a collective of a plan on the memory of one replica.
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

  // Finds the operands, which may be elsewhere in each step, and starts. The communicator is null
  // for a world of one: the collective is then the identity, or an update of one part.
  virtual absl::Status Start(Communicator* communicator, Lane& lane) = 0;
  virtual absl::Status Finish(Communicator* communicator, Lane& lane) = 0;
  // How long the last Finish updated variables, if the step is traced.
  virtual int64_t update_ns() const { return 0; }
};

// What it is bound to, which outlives it.
struct CollectiveBinding {
  const Plan& plan;
  std::byte* const* bases;  // by region
  const bool& traced;
  std::atomic<bool>& updated;  // set when an update begins to write
};

// `rows[axis][rank]` are the shares of all ranks; `sequence` is its index in the plan.
std::unique_ptr<BoundCollective> BindCollective(int sequence,
                                                const std::vector<std::vector<int64_t>>& rows,
                                                const CollectiveBinding& binding);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_BOUND_COLLECTIVE_H_
