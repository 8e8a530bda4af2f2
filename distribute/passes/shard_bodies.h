// SPDX-License-Identifier: Apache-2.0
//
// How the values of branches and loops lie on the replicas: what goes into their functions and what
// comes out, found by propagating through the functions until nothing changes.
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_SHARD_BODIES_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_SHARD_BODIES_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

// Gives every value of a body its sharding, from Compilation::argument_shardings.
using PropagateFn = absl::FunctionRef<absl::Status(Compilation& body)>;

// Whether the value is known to be zero: it counts as any partial sum.
bool IsZero(const Compilation& c, const Output& output);

// Propagates through the branches and returns how the results lie, which is the same for all of
// them (Compilation::result_shardings): as in each, if they agree; a whole value is cut where
// others are sharded, which costs nothing; else whole.
absl::StatusOr<Shardings> ShardBranches(const Compilation::Bodies& branches,
                                        const Shardings& arguments, PropagateFn propagate);

// The same of a loop's condition and body, given how the first values lie and which of them are
// zero. What it returns is how they lie before, between and after the iterations.
absl::StatusOr<Shardings> ShardLoop(const Compilation::Bodies& bodies, const Shardings& first,
                                    const std::vector<bool>& first_is_zero, PropagateFn propagate);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_SHARD_BODIES_H_
