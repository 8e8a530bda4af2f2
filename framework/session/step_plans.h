// SPDX-License-Identifier: Apache-2.0
//
// Gives tools and tests access to the compiled form of a step (mirrorflow_debug.h).
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_STEP_PLANS_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_STEP_PLANS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/compiler/compilation.h"
#include "framework/runtime/plan.h"
#include "framework/runtime/topology.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/session.h"

namespace mirrorflow {

struct StepPlans {
  std::shared_ptr<const Program> program;
  std::vector<std::shared_ptr<const Plan>>
      plans;  // by local replica; replicas with equal shards share a plan
};

// Returns the step compiled for these feed shapes, from the cache if possible. With several
// workers, a newly compiled step is not cached.
absl::StatusOr<StepPlans> CompileStep(const Step& step, absl::Span<const Shape> feed_shapes,
                                      const RunOptions& options = {});

// A hypothetical setup for a step: the same kind of replicas, but a different topology.
struct Elsewhere {
  Topology topology;
  LinkCosts link = {};  // between domains
  int threads_per_replica = 1;
};
// The result of CompileStepFor: rank 0's plan.
struct PlanElsewhere {
  std::unique_ptr<const VariableLayout> layout;
  std::shared_ptr<const Program> program;
  std::shared_ptr<const Plan> plan;
};
// Compiles the step for these feed shapes as if the session had this setup. Runs and caches
// nothing.
absl::StatusOr<PlanElsewhere> CompileStepFor(const Step& step, std::vector<Shape> feed_shapes,
                                             const Elsewhere& elsewhere);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_STEP_PLANS_H_
