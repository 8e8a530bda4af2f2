// SPDX-License-Identifier: Apache-2.0
//
// The definitions that all families of convolutions share. A family has three ops: the convolution,
// and its gradients with respect to the images and the filter.
#ifndef MIRRORFLOW_OPS_CONVOLUTION_H_
#define MIRRORFLOW_OPS_CONVOLUTION_H_

#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/window.h"

namespace mirrorflow {

// The sharding terms of the images, the filter and the output. The letter n stands for the batch.
struct ConvolutionTerms {
  std::string images, filter, output;
};

struct ConvolutionFamily {
  const char *forward, *backprop_input, *backprop_filter;  // the ops' names
  const char* doc;                                         // of the convolution
  const char* dtypes;  // attribute T; the filter's gradient supports only floating-point dtypes
  const char* attr = nullptr;  // an additional attribute
  uint32_t traits = 0;
  // Returns the output shape of the convolution of `input` with `filter`, both of rank 4.
  absl::StatusOr<Shape> (*output_shape)(const Node& node, const Shape& input, const Shape& filter);
  absl::StatusOr<ConvolutionTerms> (*terms)(const Node& node, const Shape& images,
                                            const Shape& filter);
};

template <const ConvolutionFamily& family>
absl::Status ConvolutionForwardShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape input, c.WithRank(0, 4));
  MF_ASSIGN_OR_RETURN(const Shape filter, c.WithRank(1, 4));
  return SetOutput(c, family.output_shape(c.node(), input, filter));
}

// Infers the shape of the gradient with respect to operand `kOperand`, whose sizes are an input.
template <const ConvolutionFamily& family, int kOperand>
absl::Status ConvolutionBackpropShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape input, kOperand == 0 ? FourSizes(c, 0) : c.WithRank(0, 4));
  MF_ASSIGN_OR_RETURN(const Shape filter, kOperand == 1 ? FourSizes(c, 1) : c.WithRank(1, 4));
  MF_ASSIGN_OR_RETURN(const Shape dy, c.WithRank(2, 4));
  MF_ASSIGN_OR_RETURN(const Shape output, family.output_shape(c.node(), input, filter));
  MF_RETURN_IF_ERROR(CheckShape(output, dy,
                                "out_backprop must have the output shape of the convolution of ",
                                input.ToString(), " with ", filter.ToString()));
  return SetOutput(c, kOperand == 0 ? input : filter);
}

// Builds the gradient of the convolution of `input` with `filter` with respect to one of the two:
// `input` if kOperand is 0, `filter` if it is 1.
template <const ConvolutionFamily& family, int kOperand>
Output ConvolutionGradient(const GradContext& c, Output input, Output filter, Output dy) {
  Output operands[] = {input, filter, dy};
  operands[kOperand] = ops::ShapeOperand(c.scope, operands[kOperand]);
  return ops::ApplyWithSameAttrs(c, kOperand == 0 ? family.backprop_input : family.backprop_filter,
                                 operands);
}

template <const ConvolutionFamily& family>
absl::StatusOr<std::vector<Output>> ConvolutionForwardGrad(const GradContext& c) {
  const Output input = c.op.input(0), filter = c.op.input(1), dy = c.dy[0];
  return std::vector<Output>{ConvolutionGradient<family, 0>(c, input, filter, dy),
                             ConvolutionGradient<family, 1>(c, input, filter, dy)};
}

// The convolution is linear in the images and in the filter, so the gradients of the gradient ops
// are these same three ops.
template <const ConvolutionFamily& family, int kOperand>
absl::StatusOr<std::vector<Output>> ConvolutionBackpropGrad(const GradContext& c) {
  Output operands[] = {c.op.input(0), c.op.input(1)};
  operands[kOperand] = c.dy[0];
  const auto& [input, filter] = operands;
  std::vector<Output> grads(3);
  grads[1 - kOperand] = ConvolutionGradient<family, 1 - kOperand>(c, input, filter, c.op.input(2));
  grads[2] = ops::ApplyWithSameAttrs(c, family.forward, {input, filter});
  return grads;
}

template <const ConvolutionFamily& family>
absl::StatusOr<ShardingRule> ConvolutionForwardSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const auto terms, family.terms(c.node(), c.input(0), c.input(1)));
  return ShardingRule{.dims = absl::StrCat(terms.images, ",", terms.filter, "->", terms.output),
                      .linearity = Linearity::kMulti};
}
template <const ConvolutionFamily& family>
absl::StatusOr<ShardingRule> BackpropInputSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const auto terms, family.terms(c.node(), c.output(0), c.input(1)));
  return ShardingRule{
      .dims = absl::StrCat(".,", terms.filter, ",", terms.output, "->", terms.images),
      .linearity = Linearity::kMulti,
      .linear_inputs = {1, 2}};
}
template <const ConvolutionFamily& family>
absl::StatusOr<ShardingRule> BackpropFilterSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const auto terms, family.terms(c.node(), c.input(0), c.output(0)));
  return ShardingRule{.dims = absl::StrCat(terms.images, ",.,", terms.output, "->", terms.filter),
                      .linearity = Linearity::kMulti,
                      .linear_inputs = {0, 2}};
}

template <const ConvolutionFamily& family>
void DefineConvolutions(OpRegistry& ops) {
  const auto add_common = [](OpBuilder& op, const char* dtypes) -> OpBuilder& {
    op.Output("output: T").Attr(dtypes).Attr("strides: list(int)");
    if (family.attr != nullptr) op.Attr(family.attr);
    return op.Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
        .Attr("explicit_paddings: list(int) = []")
        .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
        .Attr("dilations: list(int) = [1, 1, 1, 1]")
        .Traits(family.traits);
  };
  const std::string gradient = absl::StrCat("the gradient of ", family.forward);
  add_common(ops.Define(family.forward).Doc(family.doc).Input("input: T").Input("filter: T"),
             family.dtypes)
      .Shape(ConvolutionForwardShape<family>)
      .Sharding(ConvolutionForwardSharding<family>)
      .Gradient(ConvolutionForwardGrad<family>);
  add_common(ops.Define(family.backprop_input)
                 .Doc(absl::StrCat(gradient, " with respect to the images"))
                 .StaticInput("input_sizes: int32")
                 .Input("filter: T")
                 .Input("out_backprop: T"),
             family.dtypes)
      .Shape(ConvolutionBackpropShape<family, 0>)
      .Sharding(BackpropInputSharding<family>)
      .Gradient(ConvolutionBackpropGrad<family, 0>);
  add_common(ops.Define(family.backprop_filter)
                 .Doc(absl::StrCat(gradient, " with respect to the filter"))
                 .Input("input: T")
                 .StaticInput("filter_sizes: int32")
                 .Input("out_backprop: T"),
             "T: {half, bfloat16, float, double}")
      .Shape(ConvolutionBackpropShape<family, 1>)
      .Sharding(BackpropFilterSharding<family>)
      .Gradient(ConvolutionBackpropGrad<family, 1>);
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONVOLUTION_H_
