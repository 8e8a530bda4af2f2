// SPDX-License-Identifier: Apache-2.0
//
// The whole pipeline of the compiler, in one place.
#ifndef MIRRORFLOW_DISTRIBUTE_PIPELINE_H_
#define MIRRORFLOW_DISTRIBUTE_PIPELINE_H_

#include <memory>

#include "framework/compiler/compilation.h"
#include "framework/compiler/pass.h"
#include "framework/session/session.h"

namespace mirrorflow {

// The first half, from a step's graph to its Program: for all replicas, and any device.
Pipeline ProgramPipeline();
// The second half, from a Program to the Plan of one device type and one share of rows.
Pipeline PlanPipeline();

// Runs the first half on a copy of `graph`. InvalidArgument if a pass of neither half is to be left
// out.
absl::StatusOr<std::shared_ptr<const Program>> CompileProgram(const Graph& graph,
                                                              const GlobalSignature& signature,
                                                              const VariableLayout& layout,
                                                              const SessionBackend& backend,
                                                              const CompileOptions& options);

// Runs the second half on a copy of the program's graph.
absl::StatusOr<std::shared_ptr<const Plan>> CompilePlan(const Program& program,
                                                        const std::vector<int64_t>& rows,
                                                        const DeviceTraits& traits,
                                                        TuningTable* tuning);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PIPELINE_H_
