// SPDX-License-Identifier: Apache-2.0
#include "ops/max_pool.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/window_attrs.h"

namespace mirrorflow {
namespace {

absl::Status MaxPoolShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape input, c.WithRank(0, 4));
  MF_ASSIGN_OR_RETURN(const Shape output, PooledShape(c.node(), input));
  c.set_output(0, output);
  return absl::OkStatus();
}

absl::Status MaxPoolGradShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape input, c.WithRank(0, 4));
  MF_ASSIGN_OR_RETURN(const Shape output, PooledShape(c.node(), input));
  for (int i = 1; i <= 2; ++i) {
    if (c.input(i).IsCompatibleWith(output)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("input ", i, " must have the shape of the output of MaxPool; expected ",
                     output.ToString(), ", got ", c.input(i).ToString()));
  }
  c.set_output(0, input);
  return absl::OkStatus();
}

absl::StatusOr<ShardingRule> MaxPoolSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const ImageLayout layout, ReadImageLayout(c.node()));
  const std::string images = layout.Term("n", "c");
  return ShardingRule{.dims = absl::StrCat(images, "->", images)};
}
absl::StatusOr<ShardingRule> MaxPoolGradSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const ImageLayout layout, ReadImageLayout(c.node()));
  const std::string images = layout.Term("n", "c");
  return ShardingRule{.dims = absl::StrCat(images, ",", images, ",", images, "->", images),
                      .linearity = Linearity::kMulti,
                      .linear_inputs = {2}};
}

absl::StatusOr<std::vector<Output>> MaxPoolGradient(const GradContext& c) {
  const Node& op = c.op;
  return std::vector<Output>{
      ops::MaxPoolGrad(c.scope, op.input(0), op.output(0), c.dy[0], op.int_list("ksize"),
                       op.int_list("strides"), op.attr<std::string>("padding"),
                       {.explicit_paddings = op.int_list("explicit_paddings"),
                        .data_format = op.attr<std::string>("data_format")})};
}

OpBuilder& PoolingAttrs(OpBuilder& op) {
  return op.Attr("T: {half, bfloat16, float, double, int32, int64, uint8} = float")
      .Attr("ksize: list(int) >= 4")
      .Attr("strides: list(int) >= 4")
      .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
      .Attr("explicit_paddings: list(int) = []")
      .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'");
}

}  // namespace

void RegisterMaxPool(OpRegistry& ops) {
  PoolingAttrs(ops.Define("MaxPool")
                   .Doc("the largest value of each channel under a window")
                   .Input("input: T")
                   .Output("output: T"))
      .Shape(MaxPoolShape)
      .Sharding(MaxPoolSharding)
      .Gradient(MaxPoolGradient);
  PoolingAttrs(ops.Define("MaxPoolGrad")
                   .Doc("grad, given to the first largest value of each window of MaxPool")
                   .Input("orig_input: T")
                   .Input("orig_output: T")
                   .Input("grad: T")
                   .Output("output: T"))
      .Shape(MaxPoolGradShape)
      .Sharding(MaxPoolGradSharding)
      .NoGradient("it would be MaxPoolGradGrad, which is not an op of this library");
}

namespace ops {
namespace {

Output Finish(NodeBuilder builder, absl::Span<const int64_t> ksize,
              absl::Span<const int64_t> strides, absl::string_view padding,
              const MaxPoolOptions& options) {
  return std::move(builder)
      .Attr("ksize", AttrValue::List(ksize))
      .Attr("strides", AttrValue::List(strides))
      .Attr("padding", padding)
      .Attr("explicit_paddings", AttrValue::List<int64_t>(options.explicit_paddings))
      .Attr("data_format", options.data_format)
      .One();
}

}  // namespace

Output MaxPool(const Scope& scope, Output input, absl::Span<const int64_t> ksize,
               absl::Span<const int64_t> strides, absl::string_view padding,
               const MaxPoolOptions& options) {
  return Finish(Build(scope, "MaxPool").Input(input), ksize, strides, padding, options);
}

Output MaxPoolGrad(const Scope& scope, Output orig_input, Output orig_output, Output grad,
                   absl::Span<const int64_t> ksize, absl::Span<const int64_t> strides,
                   absl::string_view padding, const MaxPoolOptions& options) {
  return Finish(Build(scope, "MaxPoolGrad").Input(orig_input).Input(orig_output).Input(grad), ksize,
                strides, padding, options);
}

}  // namespace ops
}  // namespace mirrorflow
