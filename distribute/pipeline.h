// SPDX-License-Identifier: Apache-2.0
//
// The compiler's pipeline: lists all passes in order, and runs the two halves of the compiler.
#ifndef MIRRORFLOW_DISTRIBUTE_PIPELINE_H_
#define MIRRORFLOW_DISTRIBUTE_PIPELINE_H_

#include <memory>

#include "absl/types/span.h"
#include "framework/compiler/compilation.h"
#include "framework/compiler/pipeline.h"
#include "framework/compiler/plan/plan_state.h"
#include "framework/runtime/plan.h"
#include "framework/runtime/tuning_table.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/step_compiler.h"

namespace mirrorflow {

// Returns the compiler's first half, which turns a step's graph into a Program for all replicas and
// any device. `extensions` are the user's passes.
Pipeline ProgramPipeline(absl::Span<const PassMaker> extensions = {});
// Returns the compiler's second half, which turns a Program into the Plan for one device type and
// one local row count.
PipelineOver<PlanState> PlanPipeline();

// Runs the first half on a copy of `graph`. Returns InvalidArgument if `disabled_passes` names a
// pass that is in neither half.
absl::StatusOr<std::shared_ptr<const Program>> CompileProgram(const Graph& graph,
                                                              const GlobalSignature& signature,
                                                              const VariableLayout& layout,
                                                              const CompileTarget& target,
                                                              const CompileOptions& options);

// Runs the second half on a copy of the program's graph.
absl::StatusOr<std::shared_ptr<const Plan>> CompilePlan(const Program& program,
                                                        const std::vector<int64_t>& rows,
                                                        const DeviceTraits& traits,
                                                        TuningTable* tuning);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PIPELINE_H_
