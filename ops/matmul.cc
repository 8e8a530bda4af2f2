// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "ops/broadcast_gradient.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {

Shape BatchDims(const Shape& matrices) {
  if (matrices.unknown_rank()) return Shape::UnknownRank();
  return Shape(matrices.dims().subspan(0, matrices.rank() - 2));
}

namespace {

absl::Status MatMulShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape a, c.WithRank(0, 2));
  MF_ASSIGN_OR_RETURN(const Shape b, c.WithRank(1, 2));
  const bool ta = c.attr<bool>("transpose_a"), tb = c.attr<bool>("transpose_b");
  const int64_t k_a = a.dim(ta ? 0 : 1), k_b = b.dim(tb ? 1 : 0);
  if (k_a != kUnknownDim && k_b != kUnknownDim && k_a != k_b) {
    return absl::InvalidArgumentError(absl::StrCat("inner dimensions must be equal, got ",
                                                   a.ToString(), ta ? "ᵀ" : "", " and ",
                                                   b.ToString(), tb ? "ᵀ" : ""));
  }
  return SetOutput(c, Shape({a.dim(ta ? 1 : 0), b.dim(tb ? 0 : 1)}));
}

absl::StatusOr<ShardingRule> MatMulSharding(const ShardContext& c) {
  const char* a = c.node().attr<bool>("transpose_a") ? "km" : "mk";
  const char* b = c.node().attr<bool>("transpose_b") ? "nk" : "kn";
  return ShardingRule{.dims = absl::StrCat(a, ",", b, "->mn"), .linearity = Linearity::kMulti};
}

absl::StatusOr<std::vector<Output>> MatMulGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output a = c.op.input(0), b = c.op.input(1), dy = c.dy[0];
  const bool ta = c.op.attr<bool>("transpose_a"), tb = c.op.attr<bool>("transpose_b");
  // y = a' b', where a' = aᵀ if ta and b' = bᵀ if tb. Then da' = dy b'ᵀ and db' = a'ᵀ dy,
  // transposed back.
  const Output da = ta ? ops::MatMul(s, b, dy, {.transpose_a = tb, .transpose_b = true})
                       : ops::MatMul(s, dy, b, {.transpose_b = !tb});
  const Output db = tb ? ops::MatMul(s, dy, a, {.transpose_a = true, .transpose_b = ta})
                       : ops::MatMul(s, a, dy, {.transpose_a = !ta});
  return std::vector<Output>{da, db};
}

absl::Status BatchMatMulShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape x, c.WithRankAtLeast(0, 2));
  MF_ASSIGN_OR_RETURN(const Shape y, c.WithRankAtLeast(1, 2));
  const bool adj_x = c.attr<bool>("adj_x"), adj_y = c.attr<bool>("adj_y");
  // Returns the number of rows (i = 0) or columns (i = 1), after transposition if `adjoint`.
  auto dim = [](const Shape& shape, bool adjoint, int i) {
    if (shape.unknown_rank()) return kUnknownDim;
    return shape.dim(shape.rank() - 2 + (adjoint ? 1 - i : i));
  };
  const int64_t k_x = dim(x, adj_x, 1), k_y = dim(y, adj_y, 0);
  if (k_x != kUnknownDim && k_y != kUnknownDim && k_x != k_y) {
    return absl::InvalidArgumentError(absl::StrCat("inner dimensions must be equal, got ",
                                                   x.ToString(), adj_x ? "ᵀ" : "", " and ",
                                                   y.ToString(), adj_y ? "ᵀ" : ""));
  }
  MF_ASSIGN_OR_RETURN(const Shape batch, BroadcastShapes(BatchDims(x), BatchDims(y)));
  if (batch.unknown_rank()) return absl::OkStatus();
  std::vector<int64_t> dims(batch.dims().begin(), batch.dims().end());
  dims.push_back(dim(x, adj_x, 0));
  dims.push_back(dim(y, adj_y, 1));
  return SetOutput(c, Shape(dims));
}

absl::StatusOr<ShardingRule> BatchMatMulSharding(const ShardContext& c) {
  const Shape batch = BatchDims(c.output(0));
  const char* x = c.node().attr<bool>("adj_x") ? "yx" : "xy";
  const char* y = c.node().attr<bool>("adj_y") ? "zy" : "yz";
  return ShardingRule{.dims = absl::StrCat(AlignedTerm(BatchDims(c.input(0)), batch), x, ",",
                                           AlignedTerm(BatchDims(c.input(1)), batch), y, "->",
                                           LettersFor(batch), "xz"),
                      .linearity = Linearity::kMulti};
}

absl::StatusOr<std::vector<Output>> BatchMatMulGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output x = c.op.input(0), y = c.op.input(1), dy = c.dy[0];
  const bool ax = c.op.attr<bool>("adj_x"), ay = c.op.attr<bool>("adj_y");
  const Output dx = ax ? ops::BatchMatMulV2(s, y, dy, {.adj_x = ay, .adj_y = true})
                       : ops::BatchMatMulV2(s, dy, y, {.adj_y = !ay});
  const Output d_y = ay ? ops::BatchMatMulV2(s, dy, x, {.adj_x = true, .adj_y = ax})
                        : ops::BatchMatMulV2(s, x, dy, {.adj_x = !ax});
  return std::vector<Output>{SumToOperand(c, 0, dx, /*own_dims=*/2),
                             SumToOperand(c, 1, d_y, /*own_dims=*/2)};
}

}  // namespace

void RegisterMatMul(OpRegistry& ops) {
  ops.Define("MatMul")
      .Doc("product[m,n] = sum_k a[m,k] * b[k,n]")
      .Input("a: T")
      .Input("b: T")
      .Output("product: T")
      .Attr("transpose_a: bool = false")
      .Attr("transpose_b: bool = false")
      .Attr("T: {half, bfloat16, float, double, int32, int64}")
      // TensorFlow's gradients set these attributes on the products that they create. They are
      // ignored here.
      .Attr("grad_a: bool = false")
      .Attr("grad_b: bool = false")
      .Traits(kSumsProducts)
      .Shape(MatMulShape)
      .Sharding(MatMulSharding)
      .Gradient(MatMulGrad);
  ops.Define(ops::kBatchMatMulV2)
      .Doc("output[…,m,n] = sum_k x[…,m,k] * y[…,k,n]")
      .Input("x: T")
      .Input("y: T")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double, int32, int64}")
      .Attr("adj_x: bool = false")
      .Attr("adj_y: bool = false")
      .Attr("grad_x: bool = false")
      .Attr("grad_y: bool = false")
      .Traits(kSumsProducts)
      .Shape(BatchMatMulShape)
      .Sharding(BatchMatMulSharding)
      .Gradient(BatchMatMulGrad);
}

namespace ops {

Output MatMul(const Scope& scope, Output a, Output b, const MatMulOptions& options) {
  return Build(scope, "MatMul", {a, b})
      .Attr("transpose_a", options.transpose_a)
      .Attr("transpose_b", options.transpose_b)
      .One();
}

Output BatchMatMulV2(const Scope& scope, Output x, Output y, const BatchMatMulV2Options& options) {
  return Build(scope, kBatchMatMulV2, {x, y})
      .Attr("adj_x", options.adj_x)
      .Attr("adj_y", options.adj_y)
      .One();
}

}  // namespace ops
}  // namespace mirrorflow
