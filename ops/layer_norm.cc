// SPDX-License-Identifier: Apache-2.0
#include "ops/layer_norm.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "ops/reshape.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

using Outputs = absl::StatusOr<std::vector<Output>>;

// Merges input `i`, a vector, with the last dimension of `rows`.
absl::Status MergeColumns(const ShapeContext& c, int i, Shape* rows) {
  MF_ASSIGN_OR_RETURN(const Shape vector, c.WithRank(i, 1));
  if (rows->unknown_rank()) return absl::OkStatus();
  const int last = rows->rank() - 1;
  MF_ASSIGN_OR_RETURN(const Shape columns,
                      MergeShapes(Shape({rows->dim(last)}), vector, c.node().op().inputs[i].name,
                                  " must have as many elements as the last dimension of x"));
  rows->set_dim(last, columns.dim(0));
  return absl::OkStatus();
}

// Returns the shape of a value with one element per row.
Shape OfEachRow(const Shape& x) {
  return x.unknown_rank() ? x : Shape(x.dims().subspan(0, x.rank() - 1));
}

absl::Status LayerNormShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(Shape x, c.WithRankAtLeast(0, 1));
  for (const int i : {1, 2}) MF_RETURN_IF_ERROR(MergeColumns(c, i, &x));
  return SetOutputs(c, {x, OfEachRow(x), OfEachRow(x)});
}

absl::Status LayerNormGradShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape dy, c.WithRankAtLeast(0, 1));
  MF_ASSIGN_OR_RETURN(const Shape given, c.WithRankAtLeast(1, 1));
  MF_ASSIGN_OR_RETURN(Shape x, MergeShapes(given, dy, "dy must have the shape of x"));
  MF_RETURN_IF_ERROR(MergeColumns(c, 2, &x));
  for (const int i : {3, 4}) {
    MF_RETURN_IF_ERROR(CheckShape(OfEachRow(x), c.input(i), c.node().op().inputs[i].name,
                                  " must have one element per row"));
  }
  const Shape columns({x.unknown_rank() ? kUnknownDim : x.dim(x.rank() - 1)});
  return SetOutputs(c, {x, columns, columns});
}

// Rows are normalised independently of one another, so only rows can be sharded.
absl::StatusOr<ShardingRule> LayerNormSharding(const ShardContext& c) {
  const std::string rows = LettersFor(OfEachRow(c.input(0)));
  return ShardingRule{.dims = absl::StrCat(rows, ".,.,.->", rows, ".,", rows, ",", rows)};
}

// dgamma and dbeta are sums over rows, so they are partial if the rows are sharded.
absl::StatusOr<ShardingRule> LayerNormGradSharding(const ShardContext& c) {
  const std::string rows = LettersFor(OfEachRow(c.input(1)));
  return ShardingRule{
      .dims = absl::StrCat(rows, ".,", rows, ".,.,", rows, ",", rows, "->", rows, ".,.,."),
      .linearity = Linearity::kMulti,
      .linear_inputs = {0}};
}

// ---- expansion into TensorFlow's ops --------------------------------------------------------

Output MeanOfRows(const Scope& s, Output x) { return ops::Mean(s, x, {-1}, {.keep_dims = true}); }
Output WithColumn(const Scope& s, Output of_rows) { return ops::ExpandDims(s, of_rows, -1); }
Output WithoutColumn(const Scope& s, Output column) { return ops::Squeeze(s, column, {{-1}}); }

Outputs ExpandLayerNorm(const Scope& s, const Node& op) {
  const Output gamma = op.input(1), beta = op.input(2);
  const Output x = ops::CastTo(s, op.input(0), gamma.dtype());
  const Output mean = MeanOfRows(s, x);
  const Output variance = MeanOfRows(s, ops::SquaredDifference(s, x, mean));
  const Output epsilon = ops::ScalarConst(s, gamma.dtype(), op.attr<float>("epsilon"));
  const Output inverse = ops::Rsqrt(s, ops::AddV2(s, variance, epsilon));
  const Output normal = ops::Mul(s, ops::Sub(s, x, mean), inverse);
  const Output y = ops::AddV2(s, ops::Mul(s, normal, gamma), beta);
  return std::vector<Output>{ops::CastTo(s, y, op.output_dtype(0)), WithoutColumn(s, mean),
                             WithoutColumn(s, inverse)};
}

// Returns the sum over all dimensions except the last. `columns` is the shape of x as a matrix.
Output SumOfRows(const Scope& s, Output x, Output columns) {
  const Output matrix = ops::Reshape(s, x, columns);
  return ops::Sum(s, matrix, {0});
}

// Expands dx = inverse * (dn - mean(dn) - n * mean(dn * n)), where n is the normalised x and dn =
// dy * gamma.
Outputs ExpandLayerNormGrad(const Scope& s, const Node& op) {
  const Output gamma = op.input(2);
  const DataType dtype = gamma.dtype();
  const Output dy = ops::CastTo(s, op.input(0), dtype), x = ops::CastTo(s, op.input(1), dtype);
  const Output mean = WithColumn(s, op.input(3)), inverse = WithColumn(s, op.input(4));
  const Output normal = ops::Mul(s, ops::Sub(s, x, mean), inverse);
  const Output dnormal = ops::Mul(s, dy, gamma);
  const Output through = ops::AddV2(
      s, MeanOfRows(s, dnormal), ops::Mul(s, normal, MeanOfRows(s, ops::Mul(s, dnormal, normal))));
  const Output dx = ops::Mul(s, inverse, ops::Sub(s, dnormal, through));
  const Output columns =
      ops::ConcatV2(s, {ops::ExpandDims(s, ops::Size(s, op.input(3)), 0), ops::Shape(s, gamma)}, 0);
  return std::vector<Output>{ops::CastTo(s, dx, op.output_dtype(0)),
                             SumOfRows(s, ops::Mul(s, dy, normal), columns),
                             SumOfRows(s, dy, columns)};
}

// ---- gradients ------------------------------------------------------------------------------

// Returns the gradient with respect to x through mean and inverse_deviation, which is rarely
// needed.
Output ThroughStatistics(const GradContext& c, Output x) {
  const Scope& s = c.scope;
  const DataType dtype = c.op.output_dtype(1);
  const int64_t d = s.shape(c.op.input(1)).dim(0);
  const Output reciprocal = ops::ScalarConst(s, dtype, 1.0 / static_cast<double>(d));
  const Output zeros = ops::ZerosLike(s, x);
  Output dx = zeros;
  if (c.dy[1].valid()) {
    dx = ops::AddV2(s, dx, WithColumn(s, ops::Mul(s, c.dy[1], reciprocal)));
  }
  if (c.dy[2].valid()) {
    const Output inverse = c.op.output(2);
    const Output cube = ops::Mul(s, inverse, ops::Square(s, inverse));
    const Output slope = ops::Mul(s, ops::Mul(s, c.dy[2], cube), reciprocal);
    const Output centered = ops::Sub(s, x, WithColumn(s, c.op.output(1)));
    dx = ops::Sub(s, dx, ops::Mul(s, centered, WithColumn(s, slope)));
  }
  return dx;
}

Outputs GradientOfLayerNorm(const GradContext& c) {
  const Scope& s = c.scope;
  const Output x = c.op.input(0), gamma = c.op.input(1);
  std::vector<Output> grads(3);
  if (c.dy[0].valid()) {
    const auto of_y = ops::LayerNormGrad(s, c.dy[0], x, gamma, c.op.output(1), c.op.output(2));
    grads = {of_y.dx, of_y.dgamma, of_y.dbeta};
  }
  if (!c.dy[1].valid() && !c.dy[2].valid()) return grads;
  if (s.shape(gamma).unknown_rank() || s.shape(gamma).dim(0) == kUnknownDim) {
    return absl::InvalidArgumentError(
        "the gradient of mean and inverse_deviation requires a known row length");
  }
  const Output through =
      ops::CastTo(s, ThroughStatistics(c, ops::CastTo(s, x, c.op.output_dtype(1))), x.dtype());
  grads[0] = grads[0].valid() ? ops::AddV2(s, grads[0], through) : through;
  return grads;
}

OpBuilder& Types(OpBuilder& op) {
  return op.Attr("T: {half, bfloat16, float, double}").Attr("U: {float, double}");
}

}  // namespace

void RegisterLayerNorm(OpRegistry& ops) {
  Types(ops.Define("LayerNorm")
            .Doc("y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, per row")
            .Input("x: T")
            .Input("gamma: U")
            .Input("beta: U")
            .Output("y: T")
            .Output("mean: U")
            .Output("inverse_deviation: U"))
      .Attr("epsilon: float = 0.001")
      .Traits(kOwnOp)
      .Shape(LayerNormShape)
      .Sharding(LayerNormSharding)
      .Expand(ExpandLayerNorm)
      .Gradient(GradientOfLayerNorm);
  Types(ops.Define("LayerNormGrad")
            .Doc("the gradients of x, gamma and beta of LayerNorm")
            .Input("dy: T")
            .Input("x: T")
            .Input("gamma: U")
            .Input("mean: U")
            .Input("inverse_deviation: U")
            .Output("dx: T")
            .Output("dgamma: U")
            .Output("dbeta: U"))
      .Traits(kOwnOp)
      .Shape(LayerNormGradShape)
      .Sharding(LayerNormGradSharding)
      .Expand(ExpandLayerNormGrad)
      .NoGradient("second derivatives of layer normalisation are not implemented");
}

namespace ops {

LayerNormOutputs LayerNorm(const Scope& scope, Output x, Output gamma, Output beta,
                           const LayerNormOptions& options) {
  const std::vector<Output> y = OutputsOf(
      Build(scope, "LayerNorm", {x, gamma, beta}).Attr("epsilon", options.epsilon).Finish(), 3);
  return {y[0], y[1], y[2]};
}

LayerNormGradOutputs LayerNormGrad(const Scope& scope, Output dy, Output x, Output gamma,
                                   Output mean, Output inverse_deviation) {
  const std::vector<Output> y =
      OutputsOf(Build(scope, "LayerNormGrad", {dy, x, gamma, mean, inverse_deviation}).Finish(), 3);
  return {y[0], y[1], y[2]};
}

}  // namespace ops
}  // namespace mirrorflow
