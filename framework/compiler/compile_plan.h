// SPDX-License-Identifier: Apache-2.0
//
// The second half of the compiler: from a Program (global shapes, all replicas) to the Plan of one
// device type and one share of rows: localise, layout, fuse, schedule, memory, check.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_COMPILE_PLAN_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_COMPILE_PLAN_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/compiler/compilation.h"
#include "framework/runtime/plan.h"

namespace mirrorflow {

// The shapes that one replica sees. By node id, then output.
using LocalShapes = std::vector<std::vector<Shape>>;

// `rows[axis]` are the replica's rows of each axis of the program; zeros are fine.
LocalShapes Localise(const Compilation& c, const std::vector<int64_t>& rows);

absl::StatusOr<std::shared_ptr<const Plan>> CompilePlan(const Program& program,
                                                        const std::vector<int64_t>& rows,
                                                        const DeviceTraits& traits,
                                                        const KernelRegistry& kernels);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_COMPILE_PLAN_H_
