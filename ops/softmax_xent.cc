// SPDX-License-Identifier: Apache-2.0
#include "ops/softmax_xent.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/binary.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "ops/reshape.h"
#include "ops/softmax.h"

namespace mirrorflow {
namespace {

absl::Status SoftmaxXentShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(Shape features, c.WithRank(0, 2));
  MF_ASSIGN_OR_RETURN(const Shape labels, c.WithRank(1, 1));
  absl::StatusOr<Shape> rows = Shape({features.dim(0)}).MergeWith(labels);
  if (!rows.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("labels must be one a row of features ", features.ToString(), "; expected ",
                     Shape({features.dim(0)}).ToString(), ", got ", labels.ToString()));
  }
  if (features.dim(1) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("features must have at least one class, got ", features.ToString()));
  }
  features.set_dim(0, rows->dim(0));
  c.set_output(0, *std::move(rows));
  c.set_output(1, features);
  return absl::OkStatus();
}

absl::StatusOr<ShardingRule> SoftmaxXentSharding(const ShardContext&) {
  return ShardingRule{.dims = "b.,b->b,b."};
}

absl::StatusOr<std::vector<Output>> SoftmaxXentGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output dloss = c.dy[0], dbackprop = c.dy[1];
  Output gradient;
  if (dloss.valid()) {
    gradient = ops::Mul(s, ops::ExpandDims(s, dloss, -1), c.op.output(1));
  }
  if (dbackprop.valid()) {
    // backprop is the softmax less a constant.
    const Output y = ops::Softmax(s, c.op.input(0));
    const Output mean = ops::Sum(s, ops::Mul(s, dbackprop, y), {-1}, {.keep_dims = true});
    const Output second = ops::Mul(s, ops::Sub(s, dbackprop, mean), y);
    gradient = gradient.valid() ? ops::AddV2(s, gradient, second) : second;
  }
  return std::vector<Output>{gradient, Output()};
}

}  // namespace

void RegisterSoftmaxXent(OpRegistry& ops) {
  ops.Define("SparseSoftmaxCrossEntropyWithLogits")
      .Doc("loss[b] = logsumexp(features[b,:]) - features[b,labels[b]], and its gradient")
      .Input("features: T")
      .Input("labels: Tlabels")
      .Output("loss: T")
      .Output("backprop: T")
      .Attr("T: {float, double}")
      .Attr("Tlabels: {int32, int64} = int64")
      .Shape(SoftmaxXentShape)
      .Sharding(SoftmaxXentSharding)
      .Gradient(SoftmaxXentGrad);
}

namespace ops {

SoftmaxXent SparseSoftmaxCrossEntropyWithLogits(const Scope& scope, Output features,
                                                Output labels) {
  Node* node =
      Build(scope, "SparseSoftmaxCrossEntropyWithLogits").Input(features).Input(labels).Finish();
  if (node == nullptr) return {};
  return {node->output(0), node->output(1)};
}

}  // namespace ops
}  // namespace mirrorflow
