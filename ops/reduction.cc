// SPDX-License-Identifier: Apache-2.0
#include "ops/reduction.h"

#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/tile.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

using Grads = absl::StatusOr<std::vector<Output>>;

// Returns, for each dimension of the node's input, whether the node reduces it, or nullopt if the
// rank or the axes are not yet known.
absl::StatusOr<std::optional<std::vector<bool>>> ReducedDims(const Scope& s, const Node& op) {
  const Shape& x = s.shape(op.input(0));
  const Tensor& axes = s.graph().values().at(op.input(1)).constant;
  if (x.unknown_rank() || !axes.has_value()) return std::optional<std::vector<bool>>();
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, IntegersOf(axes));
  MF_ASSIGN_OR_RETURN(std::vector<bool> reduced, ReducedDimsMask(x.rank(), numbers));
  return std::optional<std::vector<bool>>(std::move(reduced));
}

absl::Status ReductionShape(ShapeContext& c) {
  const Shape& axes_shape = c.input(1);
  if (!axes_shape.unknown_rank() && axes_shape.rank() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "reduction_indices must be a scalar or a vector, got shape ", axes_shape.ToString()));
  }
  const Shape& in = c.input(0);
  const bool keep_dims = c.attr<bool>("keep_dims");
  MF_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> axes, c.integers(1));
  if (in.unknown_rank()) return absl::OkStatus();
  if (!axes.has_value()) {
    return SetOutput(c, keep_dims ? Shape::UnknownDims(in.rank()) : Shape::UnknownRank());
  }
  MF_ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedDimsMask(in.rank(), *axes));
  Shape out;
  for (int i = 0; i < in.rank(); ++i) {
    if (!reduced[i]) {
      out.AddDim(in.dim(i));
    } else if (keep_dims) {
      out.AddDim(1);
    }
  }
  return SetOutput(c, std::move(out));
}

// Propagates the product of a known shape vector, which is an element count that other shapes may
// depend on.
absl::Status ProdShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(ReductionShape(c));
  const Tensor* in = c.constant(0);
  const DataType dtype = c.node().output_dtype(0);
  if (in == nullptr || c.constant(1) == nullptr || in->shape().rank() != 1 ||
      c.constant(1)->num_elements() != 1 || c.attr<bool>("keep_dims") ||
      (dtype != DT_INT32 && dtype != DT_INT64)) {
    return absl::OkStatus();
  }
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, IntegersOf(*in));
  int64_t product = 1;
  for (int64_t d : dims) {
    if (__builtin_mul_overflow(product, d, &product)) return absl::OkStatus();
  }
  SetScalar(c, 0, product);
  return absl::OkStatus();
}

// Returns "abc,*->ac" if dimension 1 is reduced, or "a.c,*->ac" if reduced dimensions must not be
// sharded.
absl::StatusOr<std::string> ReductionTerms(const ShardContext& c, bool reduced_are_whole) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, c.integers(1));
  MF_ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedDimsMask(c.input(0).rank(), axes));
  std::string in = LettersFor(c.input(0)), out;
  for (int i = 0; i < c.input(0).rank(); ++i) {
    if (!reduced[i]) out += in[i];
    if (reduced[i] && c.node().attr<bool>("keep_dims")) out += '.';
    if (reduced[i] && reduced_are_whole) in[i] = '.';
  }
  return absl::StrCat(in, ",*->", out);
}

template <Reduction contracted>
absl::StatusOr<ShardingRule> ReductionSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(std::string dims, ReductionTerms(c, /*reduced_are_whole=*/false));
  ShardingRule rule{.dims = std::move(dims), .contracted = contracted};
  if (contracted == Reduction::kSum) {
    rule.linearity = Linearity::kJoint;
    rule.linear_inputs = {0};
  }
  return rule;
}

// A mean along a sharded dimension is a sum divided by the global count. An integer mean is rounded
// and therefore not linear.
absl::StatusOr<ShardingRule> MeanSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(ShardingRule rule, ReductionSharding<Reduction::kSum>(c));
  if (!IsFloating(c.node().output_dtype(0))) rule.linearity = Linearity::kNone;
  rule.expand = true;
  return rule;
}

// No collective multiplies, so reduced dimensions must not be sharded.
absl::StatusOr<ShardingRule> ProdSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(std::string dims, ReductionTerms(c, /*reduced_are_whole=*/true));
  return ShardingRule{.dims = std::move(dims)};
}

// The op expands to the square root of a sum if a letter is contracted. An integer norm is rounded,
// so its reduced dimensions must not be sharded.
absl::StatusOr<ShardingRule> EuclideanNormSharding(const ShardContext& c) {
  if (!IsFloating(c.node().output_dtype(0))) return ProdSharding(c);
  MF_ASSIGN_OR_RETURN(std::string dims, ReductionTerms(c, /*reduced_are_whole=*/false));
  return ShardingRule{.dims = std::move(dims), .expand = true};
}

absl::StatusOr<std::vector<Output>> ExpandEuclideanNorm(const Scope& s, const Node& norm) {
  const ops::ReductionOptions options{.keep_dims = norm.attr<bool>("keep_dims")};
  const Output squares = ops::Square(s, norm.input(0));
  return std::vector<Output>{ops::Sqrt(s, ops::Sum(s, squares, norm.input(1), options))};
}

// Returns the number of input elements per result element, as a scalar of `dtype`.
absl::StatusOr<Output> ReducedCount(const Scope& s, const Node& op, DataType dtype) {
  const Output x = op.input(0);
  MF_ASSIGN_OR_RETURN(const std::optional<std::vector<bool>> reduced, ReducedDims(s, op));
  int64_t count = reduced.has_value() ? 1 : kUnknownDim;
  for (int i = 0; count != kUnknownDim && i < s.shape(x).rank(); ++i) {
    if (!(*reduced)[i]) continue;
    const int64_t d = s.shape(x).dim(i);
    if (d == kUnknownDim) {
      count = kUnknownDim;
    } else {
      MF_ASSIGN_OR_RETURN(count, CheckedMultiply(count, d));
    }
  }
  if (count != kUnknownDim) return ops::ScalarConst(s, dtype, static_cast<double>(count));
  const Output in_size = ops::Size(s, x, {.out_type = DT_INT64});
  const Output out_size = ops::Size(s, op.output(0), {.out_type = DT_INT64});
  const Output one = ops::ScalarConst(s, DT_INT64, 1);
  return ops::Cast(s, ops::FloorDiv(s, in_size, ops::Maximum(s, out_size, one)), dtype);
}

absl::StatusOr<std::vector<Output>> ExpandMean(const Scope& s, const Node& mean) {
  const Output x = mean.input(0), axes = mean.input(1);
  const ops::ReductionOptions options{.keep_dims = mean.attr<bool>("keep_dims")};
  const DataType dtype = x.dtype();
  if (IsFloating(dtype)) {
    MF_ASSIGN_OR_RETURN(const Output count, ReducedCount(s, mean, dtype));
    return std::vector<Output>{ops::RealDiv(s, ops::Sum(s, x, axes, options), count)};
  }
  // Sums integers in 64 bits, like Mean's kernel.
  MF_ASSIGN_OR_RETURN(const Output count, ReducedCount(s, mean, DT_INT64));
  const Output at_least_one = ops::Maximum(s, count, ops::ScalarConst(s, DT_INT64, 1));
  const Output sum = ops::Sum(s, ops::Cast(s, x, DT_INT64), axes, options);
  return std::vector<Output>{ops::Cast(s, ops::Div(s, sum, at_least_one), dtype)};
}

// Returns `value`, which has the result's shape, with each reduced dimension restored as size 1.
absl::StatusOr<Output> WithKeptDims(const GradContext& c, Output value) {
  if (c.op.attr<bool>("keep_dims")) return value;
  MF_ASSIGN_OR_RETURN(const std::optional<std::vector<bool>> reduced, ReducedDims(c.scope, c.op));
  if (!reduced.has_value()) {
    return absl::InvalidArgumentError(
        "the gradient requires constant reduction_indices and an input of known rank");
  }
  Shape kept = c.scope.shape(c.op.input(0));
  for (int i = 0; i < kept.rank(); ++i) {
    if ((*reduced)[i]) kept.set_dim(i, 1);
  }
  if (kept.IsFullyDefined()) return ops::Reshape(c.scope, value, kept);
  for (int i = 0; i < kept.rank(); ++i) {
    if ((*reduced)[i]) value = ops::ExpandDims(c.scope, value, i);
  }
  return value;
}

Grads SumGrad(const GradContext& c) {
  MF_ASSIGN_OR_RETURN(const Output dy, WithKeptDims(c, c.dy[0]));
  const Output shape = ops::ShapeOperand(c.scope, c.op.input(0));
  return std::vector<Output>{ops::BroadcastTo(c.scope, dy, shape), Output()};
}

Grads MeanGrad(const GradContext& c) {
  MF_ASSIGN_OR_RETURN(const Output dy, WithKeptDims(c, c.dy[0]));
  MF_ASSIGN_OR_RETURN(const Output count, ReducedCount(c.scope, c.op, dy.dtype()));
  const Output shape = ops::ShapeOperand(c.scope, c.op.input(0));
  return std::vector<Output>{ops::BroadcastTo(c.scope, ops::RealDiv(c.scope, dy, count), shape),
                             Output()};
}

// Elements equal to the result share its gradient evenly.
Grads MinOrMaxGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output x = c.op.input(0), axes = c.op.input(1);
  MF_ASSIGN_OR_RETURN(const Output y, WithKeptDims(c, c.op.output(0)));
  MF_ASSIGN_OR_RETURN(const Output dy, WithKeptDims(c, c.dy[0]));
  const Output chosen = ops::Cast(s, ops::Equal(s, x, y), dy.dtype());
  const Output count = ops::Sum(s, chosen, axes, {.keep_dims = true});
  return std::vector<Output>{ops::Mul(s, ops::RealDiv(s, chosen, count), dy), Output()};
}

// dy/dx[i] is the product of all other elements. TensorFlow computes it with two cumulative
// products. Here the product of the nonzero elements is divided by x[i], and the zeros are counted:
// if there is a single zero, its gradient is that product and all other gradients are 0; if there
// are several, all gradients are 0.
Grads ProdGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output x = c.op.input(0), axes = c.op.input(1);
  MF_ASSIGN_OR_RETURN(const Output dy, WithKeptDims(c, c.dy[0]));
  const Output zero = ops::ScalarConst(s, dy.dtype(), 0), one = ops::ScalarConst(s, dy.dtype(), 1);
  const Output is_zero = ops::Equal(s, x, zero);
  const Output factors = ops::SelectV2(s, is_zero, one, x);
  const Output product = ops::Prod(s, factors, axes, {.keep_dims = true});
  const Output zeros = ops::Sum(s, ops::Cast(s, is_zero, dy.dtype()), axes, {.keep_dims = true});
  const Output if_zero = ops::SelectV2(s, ops::Equal(s, zeros, one), product, zero);
  const Output if_not =
      ops::SelectV2(s, ops::Equal(s, zeros, zero), ops::RealDiv(s, product, factors), zero);
  return std::vector<Output>{ops::Mul(s, dy, ops::SelectV2(s, is_zero, if_zero, if_not)), Output()};
}

Grads EuclideanNormGrad(const GradContext& c) {
  MF_ASSIGN_OR_RETURN(const Output y, WithKeptDims(c, c.op.output(0)));
  MF_ASSIGN_OR_RETURN(const Output dy, WithKeptDims(c, c.dy[0]));
  return std::vector<Output>{ops::RealDiv(c.scope, c.op.input(0), ops::RealDiv(c.scope, y, dy)),
                             Output()};
}

struct Row {
  const char* name;
  const char* doc;
  ShardingFn sharding;
  GradientFn gradient = nullptr;  // null if the op takes bool
  ShapeFn shape = ReductionShape;
  ExpandFn expand = nullptr;
};

constexpr Row kRows[] = {
    {.name = "All",
     .doc = "whether all elements are true",
     .sharding = ReductionSharding<Reduction::kAll>},
    {.name = "Any",
     .doc = "whether any element is true",
     .sharding = ReductionSharding<Reduction::kAny>},
    {.name = "EuclideanNorm",
     .doc = "the square root of the sum of squares",
     .sharding = EuclideanNormSharding,
     .gradient = EuclideanNormGrad,
     .expand = ExpandEuclideanNorm},
    {.name = "Max",
     .doc = "the largest element",
     .sharding = ReductionSharding<Reduction::kMax>,
     .gradient = MinOrMaxGrad},
    {.name = "Mean",
     .doc = "the sum divided by the count",
     .sharding = MeanSharding,
     .gradient = MeanGrad,
     .expand = ExpandMean},
    {.name = "Min",
     .doc = "the smallest element",
     .sharding = ReductionSharding<Reduction::kMin>,
     .gradient = MinOrMaxGrad},
    {.name = "Prod",
     .doc = "the product",
     .sharding = ProdSharding,
     .gradient = ProdGrad,
     .shape = ProdShape},
    {.name = "Sum",
     .doc = "the sum",
     .sharding = ReductionSharding<Reduction::kSum>,
     .gradient = SumGrad},
};

Output BuildReduction(const Scope& scope, absl::string_view op, Output input,
                      const ops::ReductionAxes& axes, const ops::ReductionOptions& options) {
  return ops::Build(scope, op, {input, axes.ToOutput(scope.ForOperand("axes"), input)})
      .Attr("keep_dims", options.keep_dims)
      .One();
}

}  // namespace

void RegisterReduction(OpRegistry& ops) {
  for (const Row& row : kRows) {
    const bool of_bool = row.gradient == nullptr;
    OpBuilder op = ops.Define(row.name);
    op.Doc(absl::StrCat("output = ", row.doc, " along the dimensions in reduction_indices"));
    op.Input(of_bool ? "input: bool" : "input: T").StaticInput("reduction_indices: Tidx");
    op.Output(of_bool ? "output: bool" : "output: T").Attr("keep_dims: bool = false");
    if (!of_bool) op.Attr("T: {half, bfloat16, float, double, int32, int64, uint8}");
    op.Attr("Tidx: {int32, int64} = int32").Shape(row.shape).Sharding(row.sharding);
    op.Gradient(row.gradient).NoGradient(of_bool ? "the output is bool" : "").Expand(row.expand);
  }
}

namespace ops {

Output ReductionAxes::ToOutput(const Scope& scope, Output input) const {
  if (output_.valid()) return output_;
  if (numbers_) return VectorConst(scope, *numbers_);
  const mirrorflow::Shape& shape = scope.shape(input);
  if (shape.unknown_rank()) {
    return Range(scope, ScalarConst(scope, DT_INT32, 0), Rank(scope, input),
                 ScalarConst(scope, DT_INT32, 1));
  }
  std::vector<int64_t> all(shape.rank());
  std::iota(all.begin(), all.end(), 0);
  return VectorConst(scope, all);
}

Output Sum(const Scope& scope, Output input, const ReductionAxes& axes,
           const ReductionOptions& options) {
  return BuildReduction(scope, "Sum", input, axes, options);
}

Output Mean(const Scope& scope, Output input, const ReductionAxes& axes,
            const ReductionOptions& options) {
  return BuildReduction(scope, "Mean", input, axes, options);
}

Output Max(const Scope& scope, Output input, const ReductionAxes& axes,
           const ReductionOptions& options) {
  return BuildReduction(scope, "Max", input, axes, options);
}

Output Min(const Scope& scope, Output input, const ReductionAxes& axes,
           const ReductionOptions& options) {
  return BuildReduction(scope, "Min", input, axes, options);
}

Output Prod(const Scope& scope, Output input, const ReductionAxes& axes,
            const ReductionOptions& options) {
  return BuildReduction(scope, "Prod", input, axes, options);
}

Output EuclideanNorm(const Scope& scope, Output input, const ReductionAxes& axes,
                     const ReductionOptions& options) {
  return BuildReduction(scope, "EuclideanNorm", input, axes, options);
}

Output All(const Scope& scope, Output input, const ReductionAxes& axes,
           const ReductionOptions& options) {
  return BuildReduction(scope, "All", input, axes, options);
}

Output Any(const Scope& scope, Output input, const ReductionAxes& axes,
           const ReductionOptions& options) {
  return BuildReduction(scope, "Any", input, axes, options);
}

}  // namespace ops
}  // namespace mirrorflow
