// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"

namespace mirrorflow {
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
  c.set_output(0, Shape({a.dim(ta ? 1 : 0), b.dim(tb ? 0 : 1)}));
  return absl::OkStatus();
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
  // y = a' b' with a' = aᵀ if ta; da' = dy b'ᵀ, db' = a'ᵀ dy, transposed back.
  const Output da = ta ? ops::MatMul(s, b, dy, {.transpose_a = tb, .transpose_b = true})
                       : ops::MatMul(s, dy, b, {.transpose_b = !tb});
  const Output db = tb ? ops::MatMul(s, dy, a, {.transpose_a = true, .transpose_b = ta})
                       : ops::MatMul(s, a, dy, {.transpose_a = !ta});
  return std::vector<Output>{da, db};
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
      .Attr("T: {float, double, int32, int64}")
      // TensorFlow's marks of a product that its own gradients made; they mean nothing here.
      .Attr("grad_a: bool = false")
      .Attr("grad_b: bool = false")
      .Shape(MatMulShape)
      .Sharding(MatMulSharding)
      .Gradient(MatMulGrad);
}

namespace ops {

Output MatMul(const Scope& scope, Output a, Output b, const MatMulOptions& options) {
  return Build(scope, "MatMul")
      .Input(a)
      .Input(b)
      .Attr("transpose_a", options.transpose_a)
      .Attr("transpose_b", options.transpose_b)
      .One();
}

}  // namespace ops
}  // namespace mirrorflow
