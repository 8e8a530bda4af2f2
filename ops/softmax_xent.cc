// SPDX-License-Identifier: Apache-2.0
#include "ops/softmax_xent.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/binary.h"
#include "ops/broadcast_gradient.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "ops/reshape.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/softmax.h"
#include "ops/tile.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

absl::Status SoftmaxXentShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(Shape features, c.WithRank(0, 2));
  MF_ASSIGN_OR_RETURN(const Shape labels, c.WithRank(1, 1));
  MF_ASSIGN_OR_RETURN(
      const Shape rows,
      MergeShapes(Shape({features.dim(0)}), labels,
                  "labels must have one element per row of features ", features.ToString()));
  if (features.dim(1) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("features must have at least one class, got ", features.ToString()));
  }
  features.set_dim(0, rows.dim(0));
  return SetOutputs(c, {rows, features});
}

absl::StatusOr<ShardingRule> SoftmaxXentSharding(const ShardContext&) {
  return ShardingRule{.dims = "b.,b->b,b."};
}

absl::Status DenseShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(Shape both, BroadcastShapes(c.input(0), c.input(1)));
  if (both.unknown_rank()) both = Shape::UnknownDims(2);
  if (both.rank() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("features and labels must broadcast to a matrix, got ", c.input(0).ToString(),
                     " and ", c.input(1).ToString()));
  }
  return SetOutputs(c, {Shape({both.dim(0)}), both});
}

// The classes must not be sharded, because each row is normalised as a whole.
absl::StatusOr<ShardingRule> DenseSharding(const ShardContext& c) {
  std::string terms[2];
  for (int i = 0; i < 2; ++i) {
    const Shape& in = c.input(i);
    terms[i] = DotsFor(in);
    if (in.rank() == 2 && in.dim(0) == c.output(0).dim(0)) terms[i][0] = 'b';
  }
  return ShardingRule{.dims = absl::StrCat(terms[0], ",", terms[1], "->b,b.")};
}

// Returns the normalised logits: `features`, broadcast to all classes if necessary.
Output Logits(const GradContext& c) {
  const Output features = c.op.input(0), backprop = c.op.output(1);
  const Shape &in = c.scope.shape(features), &out = c.scope.shape(backprop);
  if (!in.unknown_rank() && in.rank() > 0 && in.dim(in.rank() - 1) != kUnknownDim &&
      in.dim(in.rank() - 1) == out.dim(1)) {
    return features;
  }
  return ops::BroadcastTo(c.scope, features, ops::ShapeOperand(c.scope, backprop));
}

// Returns the gradient of `features`, in the shape of backprop, or an invalid output if `features`
// has none.
Output FeaturesGradient(const GradContext& c) {
  const Scope& s = c.scope;
  const Output dloss = c.dy[0], dbackprop = c.dy[1];
  Output gradient;
  if (dloss.valid()) {
    gradient = ops::Mul(s, ops::ExpandDims(s, dloss, -1), c.op.output(1));
  }
  if (dbackprop.valid()) {
    // backprop is the softmax minus a constant.
    const Output y = ops::Softmax(s, Logits(c));
    const Output mean = ops::Sum(s, ops::Mul(s, dbackprop, y), {-1}, {.keep_dims = true});
    const Output second = ops::Mul(s, ops::Sub(s, dbackprop, mean), y);
    gradient = gradient.valid() ? ops::AddV2(s, gradient, second) : second;
  }
  return gradient;
}

absl::StatusOr<std::vector<Output>> SoftmaxXentGrad(const GradContext& c) {
  return std::vector<Output>{FeaturesGradient(c), Output()};
}

absl::StatusOr<std::vector<Output>> DenseGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output dloss = c.dy[0], dbackprop = c.dy[1];
  Output features = FeaturesGradient(c), labels;
  if (dloss.valid()) {
    const Output log_softmax = ops::LogSoftmax(s, Logits(c));
    labels = ops::Mul(s, ops::ExpandDims(s, dloss, -1), ops::Neg(s, log_softmax));
  }
  if (dbackprop.valid()) {
    labels = labels.valid() ? ops::Sub(s, labels, dbackprop) : ops::Neg(s, dbackprop);
  }
  if (features.valid()) features = SumToOperand(c, 0, features);
  if (labels.valid()) labels = SumToOperand(c, 1, labels);
  return std::vector<Output>{features, labels};
}

}  // namespace

void RegisterSoftmaxXent(OpRegistry& ops) {
  ops.Define("SparseSoftmaxCrossEntropyWithLogits")
      .Doc("loss[b] = logsumexp(features[b,:]) - features[b,labels[b]], and its gradient")
      .Input("features: T")
      .Input("labels: Tlabels")
      .Output("loss: T")
      .Output("backprop: T")
      .Attr("T: {half, bfloat16, float, double}")
      .Attr("Tlabels: {int32, int64} = int64")
      .Shape(SoftmaxXentShape)
      .Sharding(SoftmaxXentSharding)
      .Gradient(SoftmaxXentGrad);
  ops.Define("SoftmaxCrossEntropyWithLogits")
      .Doc(
          "loss[b] = sum_c labels[b,c] * (logsumexp(features[b,:]) - features[b,c]), and its "
          "gradient")
      .Input("features: T")
      .Input("labels: T")
      .Output("loss: T")
      .Output("backprop: T")
      .Attr("T: {half, bfloat16, float, double}")
      .Shape(DenseShape)
      .Sharding(DenseSharding)
      .Gradient(DenseGrad);
}

namespace ops {
namespace {

SoftmaxXent Entropy(const Scope& scope, absl::string_view op, Output features, Output labels) {
  Node* node = Build(scope, op, {features, labels}).Finish();
  if (node == nullptr) return {};
  return {node->output(0), node->output(1)};
}

}  // namespace

SoftmaxXent SparseSoftmaxCrossEntropyWithLogits(const Scope& scope, Output features,
                                                Output labels) {
  return Entropy(scope, "SparseSoftmaxCrossEntropyWithLogits", features, labels);
}

SoftmaxXent SoftmaxCrossEntropyWithLogits(const Scope& scope, Output features, Output labels) {
  return Entropy(scope, "SoftmaxCrossEntropyWithLogits", features, labels);
}

}  // namespace ops
}  // namespace mirrorflow
