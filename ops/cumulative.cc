// SPDX-License-Identifier: Apache-2.0
#include "ops/cumulative.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::Status CumulativeShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  MF_ASSIGN_OR_RETURN(Shape in, c.WithRankAtLeast(0, 1));
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> axis, IntegerInput(c, 1));
  if (!in.unknown_rank() && axis.has_value()) {
    MF_RETURN_IF_ERROR(NormalizeAxis(*axis, in.rank()).status());
  }
  return SetOutput(c, std::move(in));
}

// The axis must not be sharded, because an element depends on earlier or later elements along it.
template <bool is_sum>
absl::StatusOr<ShardingRule> CumulativeSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, c.integers(1));
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axes[0], c.input(0).rank(), "axis"));
  std::string dims = LettersFor(c.input(0));
  dims[axis] = '.';
  ShardingRule rule{.dims = absl::StrCat(dims, ",*->", dims)};
  if (is_sum) {
    rule.linearity = Linearity::kJoint;
    rule.linear_inputs = {0};
  }
  return rule;
}

// Returns the options of the same op in the other direction.
ops::CumulativeOptions Reversed(const Node& node) {
  return {.exclusive = node.attr<bool>("exclusive"), .reverse = !node.attr<bool>("reverse")};
}

absl::StatusOr<std::vector<Output>> CumsumGrad(const GradContext& c) {
  return std::vector<Output>{ops::Cumsum(c.scope, c.dy[0], c.op.input(1), Reversed(c.op)),
                             Output()};
}

absl::StatusOr<std::vector<Output>> CumprodGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output x = c.op.input(0), axis = c.op.input(1);
  const Output products = ops::Mul(s, c.op.output(0), c.dy[0]);
  return std::vector<Output>{ops::DivNoNan(s, ops::Cumsum(s, products, axis, Reversed(c.op)), x),
                             Output()};
}

void Define(OpRegistry& ops, absl::string_view name, absl::string_view doc, ShardingFn sharding,
            GradientFn gradient) {
  ops.Define(name)
      .Doc(doc)
      .Input("x: T")
      .StaticInput("axis: Tidx")
      .Output("out: T")
      .Attr("exclusive: bool = false")
      .Attr("reverse: bool = false")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8}")
      .Attr("Tidx: {int32, int64} = int32")
      .Shape(CumulativeShape)
      .Sharding(sharding)
      .Gradient(gradient);
}

Output BuildCumulative(const Scope& scope, absl::string_view op, Output x, Output axis,
                       const ops::CumulativeOptions& options) {
  return ops::Build(scope, op, {x, axis})
      .Attr("exclusive", options.exclusive)
      .Attr("reverse", options.reverse)
      .One();
}

}  // namespace

void RegisterCumulative(OpRegistry& ops) {
  Define(ops, "Cumprod", "out = the cumulative product of x along axis", CumulativeSharding<false>,
         CumprodGrad);
  Define(ops, "Cumsum", "out = the cumulative sum of x along axis", CumulativeSharding<true>,
         CumsumGrad);
}

namespace ops {

Output Cumsum(const Scope& scope, Output x, Output axis, const CumulativeOptions& options) {
  return BuildCumulative(scope, "Cumsum", x, axis, options);
}
Output Cumsum(const Scope& scope, Output x, int64_t axis, const CumulativeOptions& options) {
  return Cumsum(scope, x, OperandConst(scope, "axis", axis), options);
}
Output Cumprod(const Scope& scope, Output x, Output axis, const CumulativeOptions& options) {
  return BuildCumulative(scope, "Cumprod", x, axis, options);
}
Output Cumprod(const Scope& scope, Output x, int64_t axis, const CumulativeOptions& options) {
  return Cumprod(scope, x, OperandConst(scope, "axis", axis), options);
}

}  // namespace ops
}  // namespace mirrorflow
