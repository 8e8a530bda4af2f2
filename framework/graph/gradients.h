// SPDX-License-Identifier: Apache-2.0
//
// Symbolic gradients: adds the nodes that compute dL/dx for each x by reverse accumulation over the
// nodes between xs and ys, where L = sum_i sum(grad_ys[i] * ys[i]).
//
// Nodes are created in the reverse order of the forward graph, so the last layer's gradients are
// created first. Their names start with `gradients/<forward name>_grad/`. The algorithm visits each
// node that depends on xs, and each edge between xs and ys, once.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_GRADIENTS_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_GRADIENTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/graph/op_registry.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

struct GradientOptions {
  // dL/dy for each y, with the dtype and shape of y. If the list is empty or an entry is invalid,
  // ones are used.
  std::vector<Output> grad_ys;
  // Values to treat as constants: no gradient flows through the nodes that produce them. If an x is
  // among them, its gradient is still returned.
  std::vector<Output> stop_gradients;
};

// Returns true if a gradient can flow through the value: a floating-point tensor, a handle (for the
// values read from it) or a list (for its elements).
bool TakesGradient(const Graph& graph, const Output& value);

// Returns one gradient for each x: the sum of all contributions, or an invalid output if L does not
// depend on x. ys must be floating-point tensors or lists. An x may be a variable handle; its
// gradient is the gradient of the values read from it. Integer and bool values stop the gradient.
// `ops` must contain ops with the roles kAddAll and kOnesLike if they are needed, as AllOps() does.
//
// Returns InvalidArgument, naming the node and the op's reason, if an op between xs and ys has no
// gradient.
absl::StatusOr<std::vector<Output>> Gradients(const OpRegistry& ops, const Scope& scope,
                                              absl::Span<const Output> ys,
                                              absl::Span<const Output> xs,
                                              const GradientOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_GRADIENTS_H_
