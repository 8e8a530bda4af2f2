// SPDX-License-Identifier: Apache-2.0
#include "ops/broadcast_gradient.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "ops/reshape.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/strided_slice.h"

namespace mirrorflow {
namespace {

// Returns dimension d of `shape`, counted from the right, or 1 if `shape` has no such dimension.
int64_t DimFromRight(const Shape& shape, int d) {
  return d < shape.rank() ? shape.dim(shape.rank() - 1 - d) : 1;
}

absl::Status BroadcastGradientArgsShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape s0, c.input_as_shape(0));
  MF_ASSIGN_OR_RETURN(const Shape s1, c.input_as_shape(1));
  MF_RETURN_IF_ERROR(BroadcastShapes(s0, s1).status());
  c.set_output(0, Shape::UnknownDims(1));
  c.set_output(1, Shape::UnknownDims(1));
  if (!s0.IsFullyDefined() || !s1.IsFullyDefined()) return absl::OkStatus();
  const auto axes = BroadcastAxes(s0, s1);
  for (int k = 0; k < 2; ++k) {
    const Shape shape({static_cast<int64_t>(axes[k].size())});
    c.set_constant(k, IntegerTensor(c.node().output_dtype(k), shape, axes[k]));
  }
  return absl::OkStatus();
}

absl::Status BroadcastArgsShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape s0, c.input_as_shape(0));
  MF_ASSIGN_OR_RETURN(const Shape s1, c.input_as_shape(1));
  MF_ASSIGN_OR_RETURN(const Shape both, BroadcastShapes(s0, s1));
  c.set_output(0, Shape::UnknownDims(1));
  if (!both.unknown_rank()) c.set_output_as_shape(0, both);
  return absl::OkStatus();
}

// The dimensions of the result that an operand was broadcast along.
struct BroadcastDims {
  std::vector<int64_t> missing;  // leading dimensions that the operand lacks
  std::vector<int64_t> ones;     // dimensions of size 1 in the operand
  bool known = true;
};

BroadcastDims BroadcastDimsOf(const GradContext& c, int operand, int own_dims) {
  const Output self = c.op.input(operand);
  const Shape& shape = c.scope.shape(self);
  BroadcastDims dims{.known = !shape.unknown_rank()};
  int rank = shape.rank();
  std::vector<const Shape*> others;
  for (const Output& other : c.op.inputs()) {
    if (other == self) continue;
    const Shape& s = c.scope.shape(other);
    if (s.unknown_rank()) dims.known = false;
    others.push_back(&s);
    rank = std::max(rank, s.rank());
  }
  for (int i = 0; i < rank - own_dims && dims.known; ++i) {
    const int from_right = rank - 1 - i;
    if (from_right >= shape.rank()) {
      dims.missing.push_back(i);
      continue;
    }
    const bool broadcast = std::any_of(others.begin(), others.end(), [&](const Shape* other) {
      return DimFromRight(*other, from_right) != 1;
    });
    const int64_t size = DimFromRight(shape, from_right);
    if (broadcast && size == 1) dims.ones.push_back(i);
    // The dimension is either 1, and therefore broadcast, or equal to the result's dimension.
    if (broadcast && size == kUnknownDim) dims.known = false;
  }
  return dims;
}

}  // namespace

std::array<std::vector<int64_t>, 2> BroadcastAxes(const Shape& s0, const Shape& s1) {
  std::array<std::vector<int64_t>, 2> axes;
  const int rank = std::max(s0.rank(), s1.rank());
  for (int i = 0; i < rank && s0 != s1; ++i) {
    // If both are 1, summing has no effect; both results list the dimension, as in TensorFlow.
    if (DimFromRight(s0, rank - 1 - i) == 1) axes[0].push_back(i);
    if (DimFromRight(s1, rank - 1 - i) == 1) axes[1].push_back(i);
  }
  return axes;
}

Output SumToOperand(const GradContext& c, int operand, Output grad, int own_dims) {
  const Scope& s = c.scope;
  const Output x = c.op.input(operand);
  const BroadcastDims dims = BroadcastDimsOf(c, operand, own_dims);
  if (!dims.known) {
    auto others = [&](Output shape) {
      if (own_dims == 0) return shape;
      return ops::StridedSlice(s, shape, ops::VectorConst(s, {0}), ops::VectorConst(s, {-own_dims}),
                               ops::VectorConst(s, {1}));
    };
    const Output shape = ops::Shape(s, x);
    const auto args =
        ops::BroadcastGradientArgs(s, others(shape), others(ops::Shape(s, c.op.output(0))));
    return ops::Reshape(s, ops::Sum(s, grad, args.r0), shape);
  }
  // Sums the size-1 dimensions first, while the dimension indices are still the result's.
  if (!dims.ones.empty()) grad = ops::Sum(s, grad, dims.ones, {.keep_dims = true});
  if (!dims.missing.empty()) grad = ops::Sum(s, grad, dims.missing);
  return grad;
}

void RegisterBroadcastGradient(OpRegistry& ops) {
  ops.Define("BroadcastGradientArgs")
      .Doc(
          "r0, r1 = the dimensions along which the gradients of operands with shapes s0 and s1 "
          "must be summed")
      .StaticInput("s0: T")
      .StaticInput("s1: T")
      .Output("r0: T")
      .Output("r1: T")
      .Attr("T: {int32, int64} = int32")
      .Shape(BroadcastGradientArgsShape)
      .Sharding(ReplicatedSharding)
      .NoGradient("the outputs are integers");
  ops.Define("BroadcastArgs")
      .Doc("the shape to which operands with shapes s0 and s1 broadcast")
      .StaticInput("s0: T")
      .StaticInput("s1: T")
      .Output("r0: T")
      .Attr("T: {int32, int64} = int32")
      .Shape(BroadcastArgsShape)
      .Sharding(ReplicatedSharding)
      .NoGradient("the outputs are integers");
}

namespace ops {

Output BroadcastArgs(const Scope& scope, Output s0, Output s1) {
  return Apply(scope, "BroadcastArgs", {s0, s1});
}

BroadcastGradientArgsOutputs BroadcastGradientArgs(const Scope& scope, Output s0, Output s1) {
  Node* node = Build(scope, "BroadcastGradientArgs", {s0, s1}).Finish();
  if (node == nullptr) return {};
  return {node->output(0), node->output(1)};
}

}  // namespace ops
}  // namespace mirrorflow
