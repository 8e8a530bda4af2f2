// SPDX-License-Identifier: Apache-2.0
#include "ops/mirror_pad.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

// Returns the distance from the border to the first mirrored element.
int64_t Offset(const Node& node) { return node.attr<std::string>("mode") == "REFLECT" ? 1 : 0; }

// Checks that dimension d, of size `inner` without padding, is long enough for its mirror images.
absl::Status CheckPadding(int64_t inner, int64_t before, int64_t after, int64_t offset, int d) {
  const int64_t longest = inner - offset;
  if (before >= 0 && after >= 0 && before <= longest && after <= longest) return absl::OkStatus();
  // Without padding, nothing is mirrored, so any size is valid.
  if (before == 0 && after == 0 && inner >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("paddings of dimension ", d, " of size ", inner,
                                                 " must be in [0, ", longest, "], got ", before,
                                                 " and ", after));
}

// The paddings enlarge the output if kSign is 1, and shrink it if kSign is -1.
template <int kSign>
absl::Status MirrorPadShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(Shape output, ShapeBeforePadding(c));
  MF_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> values, c.integers(1));
  for (int d = 0; d < output.rank(); ++d) {
    const int64_t size = output.dim(d);
    output.set_dim(d, kUnknownDim);
    if (!values.has_value() || size == kUnknownDim) continue;
    const int64_t before = (*values)[2 * d], after = (*values)[2 * d + 1];
    int64_t padding = 0, inner = size, outer = size;
    if (__builtin_add_overflow(before, after, &padding) ||
        __builtin_sub_overflow(size, kSign < 0 ? padding : 0, &inner) ||
        __builtin_add_overflow(size, kSign > 0 ? padding : 0, &outer)) {
      return absl::InvalidArgumentError(absl::StrCat("paddings of dimension ", d, " overflow"));
    }
    MF_RETURN_IF_ERROR(CheckPadding(inner, before, after, Offset(c.node()), d));
    output.set_dim(d, kSign > 0 ? outer : inner);
  }
  return SetOutput(c, output);
}

absl::StatusOr<ShardingRule> MirrorPadSharding(const ShardContext& c) {
  const std::string term = AlignedTerm(c.input(0), c.output(0));
  return MoveSharding(c, absl::StrCat(term, ",..->", term), {0});
}

absl::StatusOr<std::vector<Output>> MirrorPadGradient(const GradContext& c) {
  return std::vector<Output>{ops::ApplyWithSameAttrs(c, "MirrorPadGrad", {c.dy[0], c.op.input(1)}),
                             Output()};
}

absl::StatusOr<std::vector<Output>> MirrorPadGradGradient(const GradContext& c) {
  return std::vector<Output>{ops::ApplyWithSameAttrs(c, "MirrorPad", {c.dy[0], c.op.input(1)}),
                             Output()};
}

}  // namespace

void RegisterMirrorPad(OpRegistry& ops) {
  ops.Define("MirrorPad")
      .Doc("the input padded with its mirror images")
      .Input("input: T")
      .StaticInput("paddings: Tpaddings")
      .Output("output: T")
      .Attr("T: type")
      .Attr("Tpaddings: {int32, int64} = int32")
      .Attr("mode: {'REFLECT', 'SYMMETRIC'}")
      .Traits(kKeepsPrecision)
      .Shape(MirrorPadShape<1>)
      .Sharding(MirrorPadSharding)
      .Gradient(MirrorPadGradient);
  ops.Define("MirrorPadGrad")
      .Doc(
          "the input without its padding, each element of which is added to the element that it "
          "mirrors")
      .Input("input: T")
      .StaticInput("paddings: Tpaddings")
      .Output("output: T")
      .Attr("T: type")
      .Attr("Tpaddings: {int32, int64} = int32")
      .Attr("mode: {'REFLECT', 'SYMMETRIC'}")
      .Shape(MirrorPadShape<-1>)
      .Sharding(MirrorPadSharding)
      .Gradient(MirrorPadGradGradient);
}

namespace ops {

Output MirrorPad(const Scope& scope, Output input, Output paddings,
                 const MirrorPadOptions& options) {
  return Build(scope, "MirrorPad", {input, paddings}).Attr("mode", options.mode).One();
}

Output MirrorPadGrad(const Scope& scope, Output input, Output paddings,
                     const MirrorPadOptions& options) {
  return Build(scope, "MirrorPadGrad", {input, paddings}).Attr("mode", options.mode).One();
}

}  // namespace ops
}  // namespace mirrorflow
