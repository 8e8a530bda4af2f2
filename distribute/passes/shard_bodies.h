// SPDX-License-Identifier: Apache-2.0
//
// Finds the shardings of the values that enter and leave branches and loops. Propagates shardings
// through their bodies until nothing changes.
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_SHARD_BODIES_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_SHARD_BODIES_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

// Chooses the sharding of every value of a body, starting from Compilation::argument_shardings.
using PropagateFn = absl::FunctionRef<absl::Status(Compilation& body)>;

// Returns whether the value is known to be zero, which makes it a valid partial sum.
bool IsZero(const Compilation& c, const Output& output);

// Propagates through the branches, and returns shardings for the results that fit all branches
// (Compilation::result_shardings). A result keeps its sharding if all branches agree on it, and is
// per-replica if it is per-replica in any branch. A result that is whole in one branch and sharded
// in another is sharded, because slicing a whole value costs nothing. A result that is zero in one
// branch and a partial sum in another is a partial sum. Any other result is whole.
absl::StatusOr<Shardings> ShardBranches(const Compilation::Bodies& branches,
                                        const Shardings& arguments, PropagateFn propagate);

// Propagates through a loop's condition and body. `first` holds the shardings of the initial
// values, and `first_is_zero` tells which of them are zero. The returned shardings apply before,
// between and after the iterations.
absl::StatusOr<Shardings> ShardLoop(const Compilation::Bodies& bodies, const Shardings& first,
                                    const std::vector<bool>& first_is_zero, PropagateFn propagate);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_SHARD_BODIES_H_
