// SPDX-License-Identifier: Apache-2.0
//
// The registry of this library's ops, and helpers for op builders.
#ifndef MIRRORFLOW_OPS_REGISTRY_H_
#define MIRRORFLOW_OPS_REGISTRY_H_

#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "framework/graph/op_registry.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

// Returns the registry of all ops of the library (ops/all/all_ops.cc). The first call creates it;
// it is immutable and thread-safe.
const OpRegistry& AllOps();

namespace ops {

// Starts building a node of type `op` whose first arguments are `inputs`, one tensor each.
inline NodeBuilder Build(const Scope& scope, absl::string_view op,
                         absl::Span<const Output> inputs = {}) {
  NodeBuilder node = scope.Build(AllOps(), op);
  for (const Output& input : inputs) node.Input(input);
  return node;
}

// Builds a node whose attributes all follow from its inputs or have defaults. Returns its output.
inline Output Apply(const Scope& scope, absl::string_view op, absl::Span<const Output> inputs) {
  return Build(scope, op, inputs).One();
}

// Builds a node for the gradient of c.op, and copies the attributes that both ops have. Returns its
// output.
inline Output ApplyWithSameAttrs(const GradContext& c, absl::string_view op,
                                 absl::Span<const Output> inputs) {
  NodeBuilder node = Build(c.scope, op, inputs);
  for (const AttrDef& attr : AllOps().Find(op)->attrs) {
    const auto found = c.op.attrs().find(attr.name);
    if (found != c.op.attrs().end()) node.Attr(attr.name, found->second);
  }
  return std::move(node).One();
}

// Returns the `n` outputs of a node, or invalid outputs if the node could not be built.
inline std::vector<Output> OutputsOf(Node* node, size_t n) {
  std::vector<Output> outputs(n);
  for (size_t i = 0; i < n && node != nullptr; ++i) outputs[i] = node->output(static_cast<int>(i));
  return outputs;
}

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_REGISTRY_H_
