// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/simplify_algebra.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "framework/core/reduced_float.h"
#include "framework/core/status.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/gather.h"
#include "ops/identity.h"
#include "ops/passes/match.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "ops/transpose.h"
#include "ops/unary.h"
#include "ops/variable.h"

namespace mirrorflow {
namespace {

bool Is(const Node& node, absl::string_view op) { return node.op().name == op; }

// Returns whether the node can be replaced without losing an order that control edges require.
bool IsFree(const Node& node) { return node.control_inputs().empty(); }

const Tensor& KnownTensor(const Compilation& c, const Output& output) {
  return c.values().at(output).constant;
}

// Returns whether all elements equal `number`. Distinguishes -0 from 0 if the dtype has both.
bool IsAll(const Tensor& tensor, double number) {
  if (!tensor.has_value() || tensor.dtype() == DT_BOOL) return false;
  if (IsReducedFloat(tensor.dtype())) {
    const auto* bits = reinterpret_cast<const uint16_t*>(tensor.raw());
    return std::all_of(bits, bits + tensor.num_elements(),
                       [&](uint16_t x) { return x == ReducedFrom(tensor.dtype(), number); });
  }
  return DispatchDataType(
      tensor.dtype(),
      [&]<typename T>(TypeTag<T>) {
        return std::all_of(tensor.flat<T>().begin(), tensor.flat<T>().end(), [&](T x) {
          if constexpr (std::is_floating_point_v<T>) {
            if (std::signbit(x) != std::signbit(number)) return false;
          }
          return x == static_cast<T>(number);
        });
      },
      false);
}

// A view of views becomes a view of their source; a view with the source's shape becomes the
// source.
Output View(Compilation& c, const Node& node) {
  if (!IsFreeView(node)) return Output();
  Output source = node.input(0);
  while (IsFreeView(*source.node)) source = source.node->input(0);
  const Shape& shape = c.values().shape(node.output(0));
  if (c.values().shape(source) == shape) return source;
  if (source == node.input(0)) return Output();
  const Scope scope = c.scope().WithName(node.name());
  return ops::Reshape(scope, source, ops::VectorConst(scope, shape.dims(), DT_INT64));
}

// Returns the permutation of a transpose, or an empty vector for any other node or a scalar.
std::vector<int64_t> PermutationOf(const Compilation& c, const Node& node) {
  if (!Is(node, ops::kTranspose) || !IsFree(node)) return {};
  absl::StatusOr<std::vector<int64_t>> perm = IntegersOf(KnownTensor(c, node.input(1)));
  return perm.ok() ? *std::move(perm) : std::vector<int64_t>();
}

// Two transposes become one; a transpose that moves no dimension becomes its input.
Output Transpose(Compilation& c, const Node& node) {
  std::vector<int64_t> perm = PermutationOf(c, node);
  if (perm.empty()) return Output();
  Output source = node.input(0);
  const std::vector<int64_t> inner = PermutationOf(c, *source.node);
  if (!inner.empty()) {
    for (int64_t& d : perm) d = inner[d];
    source = source.node->input(0);
  }
  if (std::is_sorted(perm.begin(), perm.end())) return source;
  if (inner.empty()) return Output();
  return ops::Transpose(c.scope().WithName(node.name()), source, perm);
}

// A cast to the dtype that the value already has becomes its input.
Output Cast(Compilation& c, const Node& node) {
  if (!Is(node, ops::kCast) || node.output_dtype(0) != node.input(0).dtype()) return Output();
  return node.input(0);
}

// -(-x) becomes x. The sign bit is flipped twice; the smallest integer is its own negative.
Output NegOfNeg(Compilation& c, const Node& node) {
  const bool twice = Is(node, ops::kNeg) && Is(*node.input(0).node, ops::kNeg);
  if (!twice || !IsFree(*node.input(0).node)) return Output();
  return node.input(0).node->input(0);
}

// A reduction without axes, which combines no elements, becomes its input.
Output ReduceNothing(Compilation& c, const Node& node) {
  if (!Is(node, ops::kSum) && !Is(node, ops::kMean)) return Output();
  const Tensor& axes = KnownTensor(c, node.input(1));
  return axes.has_value() && axes.num_elements() == 0 ? node.input(0) : Output();
}

// An operand that makes an op return its other operand. The sign of 0 matters in sums: -0 + 0 is 0,
// and -0 - -0 is 0, but x + -0 and x - 0 are x for every x. Products with 0 have no rule, because
// NaN * 0 is NaN.
struct Neutral {
  const char* op;
  double number;
};
constexpr Neutral kNeutrals[] = {
    {ops::kAdd, -0.0}, {ops::kAddV2, -0.0},  {ops::kSub, 0.0},      {ops::kMul, 1.0},
    {ops::kDiv, 1.0},  {ops::kRealDiv, 1.0}, {ops::kDivNoNan, 1.0},
};

Output NeutralOperand(Compilation& c, const Node& node) {
  for (const Neutral& neutral : kNeutrals) {
    if (!Is(node, neutral.op)) continue;
    if (IsAll(KnownTensor(c, node.input(1)), neutral.number)) return node.input(0);
    const bool either = node.op().has(kCommutative);
    if (either && IsAll(KnownTensor(c, node.input(0)), neutral.number)) return node.input(1);
  }
  return Output();
}

// Returns a value that has the bits of output 0 of a node, or an invalid output. All rules are
// exact to the bit: they compute nothing, or skip an operation whose result is, by IEEE 754, its
// operand.
using Rule = Output (*)(Compilation&, const Node&);
constexpr Rule kRules[] = {View, Transpose, Cast, NegOfNeg, ReduceNothing, NeutralOperand};

// Returns the first rule's result that has the shape and dtype of the node's output. A rule's
// result may have a different shape, because a neutral operand can also broadcast the other
// operand.
Output Simplified(Compilation& c, const Node& node) {
  const Output output = node.output(0);
  for (const Rule rule : kRules) {
    const Output value = rule(c, node);
    if (!value.valid() || value.dtype() != output.dtype()) continue;
    if (c.values().shape(value) == c.values().shape(output)) return value;
  }
  return Output();
}

// A gather from a variable becomes a gather from a read that has the same order relative to the
// writes.
absl::StatusOr<bool> ReadAndGather(Compilation& c, Node* node) {
  if (!Is(*node, ops::kResourceGather)) return false;
  const Scope scope = c.scope().SubScope(node->name()).WithControlInputsOf(*node);
  const Output read = ops::ReadVariableOp(scope, node->input(0));
  const int64_t batch_dims = node->attr<int64_t>("batch_dims");
  const Output axis = ops::ScalarConst(c.scope(), DT_INT32, batch_dims);
  const Output rows = ops::GatherV2(c.scope().WithName(node->name()), read, node->input(1), axis,
                                    {.batch_dims = batch_dims});
  MF_RETURN_IF_ERROR(c.graph.status());
  c.ReplaceValue(node->output(0), rows);
  c.ReplaceOperation(node, rows.node);
  return true;
}

// The inputs of an IdentityN replace its outputs; nodes that waited for the IdentityN wait for all
// of its inputs.
absl::StatusOr<bool> PassOn(Compilation& c, Node* node) {
  if (!Is(*node, ops::kIdentityN) || !IsFree(*node)) return false;
  std::vector<Operation> all;
  for (int i = 0; i < node->num_inputs(); ++i) {
    c.ReplaceValue(node->output(i), node->input(i));
    all.push_back({node->input(i).node});
  }
  const bool is_target = std::find(c.targets.begin(), c.targets.end(), node) != c.targets.end();
  if (node->uses().empty() && !is_target) return true;
  Node* done = ops::Group(c.scope().WithName(node->name()), all).node;
  MF_RETURN_IF_ERROR(c.graph.status());
  c.ReplaceOperation(node, done);
  return true;
}

}  // namespace

absl::StatusOr<bool> SimplifyAlgebra::Run(Compilation& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  bool changed = false;
  for (Node* node : order) {
    MF_ASSIGN_OR_RETURN(const bool gathered, ReadAndGather(c, node));
    MF_ASSIGN_OR_RETURN(const bool passed_on, PassOn(c, node));
    changed |= gathered || passed_on;
    if (!Computes(node->op()) || node->num_outputs() != 1 || !IsFree(*node)) continue;
    const Output value = Simplified(c, *node);
    MF_RETURN_IF_ERROR(c.graph.status());
    if (!value.valid()) continue;
    c.ReplaceNode(node, value);
    changed = true;
  }
  return c.RemoveDeadNodes() || changed;
}

}  // namespace mirrorflow
