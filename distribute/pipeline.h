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

// The first half, from a step's graph to its Program; the second half is CompilePlan.
Pipeline ProgramPipeline();

// Runs the first half on a copy of `graph`.
absl::StatusOr<std::shared_ptr<const Program>> CompileProgram(const Graph& graph,
                                                              const GlobalSignature& signature,
                                                              const VariableLayout& layout,
                                                              const SessionBackend& backend,
                                                              const CompileOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PIPELINE_H_
