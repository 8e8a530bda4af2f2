// SPDX-License-Identifier: Apache-2.0
#include "tests/support/run_without_pass.h"

#include <algorithm>
#include <utility>

#include "framework/core/status.h"
#include "framework/session/step_plans.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {

int64_t PassProgram::Outcome::Count(absl::string_view op) const {
  return std::count(ops.begin(), ops.end(), op);
}

absl::StatusOr<PassProgram::Outcome> PassProgram::Run(int replicas,
                                                      absl::string_view without) const {
  TestSessionOptions options{.replicas = replicas};
  options.session.compile.disabled_passes.insert(disabled_passes.begin(), disabled_passes.end());
  if (!without.empty()) options.session.compile.disabled_passes.insert(std::string(without));
  MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(graph, options));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare(feeds, fetches, targets));
  Random random(4);
  std::vector<Tensor> fed = values;
  for (size_t i = fed.size(); i < shapes.size(); ++i) {
    fed.push_back(RandomTensor(DT_FLOAT, shapes[i], &random));
  }
  Outcome outcome;
  MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run(fed));
  for (size_t i = 0; i < fetches.size(); ++i) {
    MF_ASSIGN_OR_RETURN(Tensor value, out[static_cast<int>(i)].Clone());
    outcome.values.push_back(std::move(value));
  }
  MF_ASSIGN_OR_RETURN(const StepPlans plans, CompileStep(step, shapes));
  outcome.ops = plans.plans[0]->node_ops;
  return outcome;
}

}  // namespace mirrorflow
