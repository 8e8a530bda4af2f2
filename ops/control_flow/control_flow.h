// SPDX-License-Identifier: Apache-2.0
//
// Branches and loops, like tf.cond and tf.while_loop. They run functions from the graph's library,
// which the builders create from C++ functions:
//
//   Output y = ops::If(scope, x_is_large, {x},
//                      [](const Scope& s, absl::Span<const Output> in) {
//                        return std::vector<Output>{ops::Sqrt(s, in[0])};
//                      },
//                      [](const Scope& s, absl::Span<const Output> in) {
//                        return std::vector<Output>(in.begin(), in.end());
//                      })[0];
//
// A function sees only its arguments: pass it the values that it uses from the enclosing graph, and
// pass variables by handle. Under a strategy, a value keeps its sharding when it enters and leaves
// a function, and a loop's values keep their shardings in every iteration. The predicate is the
// same on all replicas. After an error, the builders return as many invalid outputs as there are
// inputs, but at least one.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_CONTROL_FLOW_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_CONTROL_FLOW_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// Builds the body of a function on its arguments, and returns its results.
using FunctionBuilder =
    absl::FunctionRef<std::vector<Output>(const Scope& scope, absl::Span<const Output> args)>;

// If (StatelessIf if neither branch has state): then_branch(inputs) if `cond` is true, else
// else_branch(inputs). A numeric scalar is true if it is not 0; a tensor that is not a scalar is
// true if it has elements.
// Shapes:   the results of both branches have the same dtypes and shapes.
// Errors:   InvalidArgument if the results of the branches do not match.
// Gradient: the gradient of the taken branch, whose values are recomputed; Unimplemented if a
//           branch writes a variable or draws random numbers.
std::vector<Output> If(const Scope& scope, Output cond, absl::Span<const Output> inputs,
                       FunctionBuilder then_branch, FunctionBuilder else_branch);

struct WhileOptions {
  // If set, the loop ends after so many iterations even if `cond` still returns true.
  std::optional<int64_t> maximum_iterations;
};

// While (StatelessWhile if neither function has state): starting with `inputs`, repeats values =
// body(values) while cond(values) is true, and returns the last values. `cond` has one result.
// Shapes:   the dtypes and shapes of the values do not change.
// Errors:   InvalidArgument if `cond` does not have one result, if the results of `body` do not
//           match `inputs`, if `maximum_iterations` is not in [0, 2^31), or if it is given and the
//           result of `cond` is not a bool.
// Gradient: a backward loop over the values that the iterations saved. The maximum number of
//           iterations must be known when the step is compiled: either set `maximum_iterations`, or
//           make `cond` compare a counter with a constant, alone or under LogicalAnd. The body must
//           not write variables.
std::vector<Output> While(const Scope& scope, absl::Span<const Output> inputs, FunctionBuilder cond,
                          FunctionBuilder body, const WhileOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_CONTROL_FLOW_H_
