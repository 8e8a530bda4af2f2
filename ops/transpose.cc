// SPDX-License-Identifier: Apache-2.0
#include "ops/transpose.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

// Returns the inverse y of permutation x: y[x[i]] = i.
absl::StatusOr<std::vector<int64_t>> Inverse(absl::Span<const int64_t> x, absl::string_view name) {
  std::vector<int64_t> y(x.size(), -1);
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] < 0 || x[i] >= static_cast<int64_t>(x.size()) || y[x[i]] != -1) {
      return absl::InvalidArgumentError(absl::StrCat(name, " must be a permutation of 0 to ",
                                                     static_cast<int64_t>(x.size()) - 1, ", got {",
                                                     absl::StrJoin(x, ", "), "}"));
    }
    y[x[i]] = static_cast<int64_t>(i);
  }
  return y;
}

absl::Status TransposeShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape perm_shape, c.WithRank(1, 1));
  Shape x = c.input(0);
  if (perm_shape.dim(0) != kUnknownDim) {
    MF_ASSIGN_OR_RETURN(x, c.WithRank(0, perm_shape.dim(0)));
  }
  MF_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> perm, c.integers(1));
  if (!perm.has_value()) return SetOutput(c, x.unknown_rank() ? x : Shape::UnknownDims(x.rank()));
  MF_RETURN_IF_ERROR(Inverse(*perm, "perm").status());
  Shape output;
  for (int64_t d : *perm) output.AddDim(x.dim(static_cast<int>(d)));
  return SetOutput(c, output);
}

absl::StatusOr<ShardingRule> TransposeSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> perm, c.integers(1));
  const std::string in = LettersFor(c.input(0));
  std::string out;
  for (int64_t d : perm) out += in[d];
  return MoveSharding(c, absl::StrCat(in, ",.->", out), {0});
}

absl::StatusOr<std::vector<Output>> TransposeGrad(const GradContext& c) {
  const Output inverse = ops::InvertPermutation(c.scope, c.op.input(1));
  return std::vector<Output>{ops::Transpose(c.scope, c.dy[0], inverse), Output()};
}

absl::Status InvertPermutationShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape x, c.WithRank(0, 1));
  c.set_output(0, x);
  MF_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> perm, c.integers(0));
  if (!perm.has_value()) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> inverse, Inverse(*perm, "x"));
  SetVector(c, 0, KnownElements(inverse.begin(), inverse.end()));
  return absl::OkStatus();
}

}  // namespace

void RegisterTranspose(OpRegistry& ops) {
  ops.Define("Transpose")
      .Doc("dimension d of y is dimension perm[d] of x")
      .Input("x: T")
      .StaticInput("perm: Tperm")
      .Output("y: T")
      .Attr("T: type")
      .Attr("Tperm: {int32, int64} = int32")
      .Traits(kKeepsPrecision)
      .Shape(TransposeShape)
      .Sharding(TransposeSharding)
      .Gradient(TransposeGrad);
  ops.Define("InvertPermutation")
      .Doc("y[x[i]] = i")
      .Input("x: T")
      .Output("y: T")
      .Attr("T: {int32, int64} = int32")
      .Shape(InvertPermutationShape)
      .Sharding(ReplicatedSharding)
      .NoGradient("a permutation is not a continuous value");
}

namespace ops {

Output Transpose(const Scope& scope, Output x, Output perm) {
  return Apply(scope, "Transpose", {x, perm});
}

Output Transpose(const Scope& scope, Output x, absl::Span<const int64_t> perm) {
  return Transpose(scope, x, VectorConst(scope.ForOperand("perm"), perm));
}

Output InvertPermutation(const Scope& scope, Output x) {
  return Apply(scope, "InvertPermutation", {x});
}

}  // namespace ops
}  // namespace mirrorflow
