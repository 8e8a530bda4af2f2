// SPDX-License-Identifier: Apache-2.0
//
// Symbolic gradients: adds the nodes that compute dL/dx for each x, where L = sum_i sum(grad_ys[i]
// * ys[i]), by reverse accumulation over the nodes between xs and ys.
//
// Nodes are made in reverse order of the forward graph, so the gradient of the last layer is made
// first, under `gradients/<forward name>_grad/`. Costs a visit of each node that depends on xs and
// of each edge between xs and ys.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_GRADIENTS_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_GRADIENTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/graph/op_registry.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

struct GradientOptions {
  // dL/dy for each y, of its dtype and shape; empty or invalid: ones.
  std::vector<Output> grad_ys;
  // Values taken for constants: nothing flows from them to what they were made of. An x that is one
  // of them still gets its gradient.
  std::vector<Output> stop_gradients;
};

// Whether a gradient can flow through the value: a floating one; a handle, which stands for what is
// read from it; a list, which stands for its elements.
bool TakesGradient(const Graph& graph, const Output& value);

// One gradient for each x: all that flows into it, invalid if L does not depend on it. ys must be
// floating; an x may be the handle of a variable: the gradient of what was read from it. Integer
// and bool values stop the gradient. The ops of roles kAddAll and kOnesLike are taken from `ops`.
//
// InvalidArgument naming the node and the op's reason if an op on the way has no gradient.
absl::StatusOr<std::vector<Output>> Gradients(const OpRegistry& ops, const Scope& scope,
                                              absl::Span<const Output> ys,
                                              absl::Span<const Output> xs,
                                              const GradientOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_GRADIENTS_H_
