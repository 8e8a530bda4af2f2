// SPDX-License-Identifier: Apache-2.0
//
// Shape functions, gradients and attributes that all families of convolutions share. A family has
// three ops: the convolution, and its gradients with respect to the images and the filter.
#ifndef MIRRORFLOW_OPS_CONVOLUTION_H_
#define MIRRORFLOW_OPS_CONVOLUTION_H_

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"

namespace mirrorflow {

struct ConvolutionFamily {
  const char *forward, *backprop_input, *backprop_filter;  // the ops' names
  // Returns the output shape of the convolution of `input` with `filter`, both of rank 4.
  absl::StatusOr<Shape> (*output_shape)(const Node& node, const Shape& input, const Shape& filter);
};

// Returns input i, a vector of four sizes, as a shape.
inline absl::StatusOr<Shape> FourSizes(const ShapeContext& c, int i) {
  const std::string& name = c.node().op().inputs[i].name;
  MF_ASSIGN_OR_RETURN(Shape sizes, SizesInput(c, i, name));
  if (sizes.unknown_rank()) return Shape::UnknownDims(4);
  if (sizes.rank() == 4) return sizes;
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must have 4 elements, got ", sizes.ToString()));
}

template <const ConvolutionFamily& family>
absl::Status ConvolutionForwardShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape input, c.WithRank(0, 4));
  MF_ASSIGN_OR_RETURN(const Shape filter, c.WithRank(1, 4));
  MF_ASSIGN_OR_RETURN(const Shape output, family.output_shape(c.node(), input, filter));
  c.set_output(0, output);
  return absl::OkStatus();
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
  c.set_output(0, kOperand == 0 ? input : filter);
  return absl::OkStatus();
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

inline OpBuilder& ConvolutionAttrs(OpBuilder& op) {
  return op.Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
      .Attr("explicit_paddings: list(int) = []")
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Attr("dilations: list(int) = [1, 1, 1, 1]");
}

template <typename Options>
Output FinishConvolution(NodeBuilder builder, absl::Span<const int64_t> strides,
                         absl::string_view padding, const Options& options) {
  if constexpr (requires { options.use_cudnn_on_gpu; }) {
    builder.Attr("use_cudnn_on_gpu", options.use_cudnn_on_gpu);
  }
  return std::move(builder)
      .Attr("strides", AttrValue::List(strides))
      .Attr("padding", padding)
      .Attr("explicit_paddings", AttrValue::List<int64_t>(options.explicit_paddings))
      .Attr("data_format", options.data_format)
      .Attr("dilations", AttrValue::List<int64_t>(options.dilations))
      .One();
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONVOLUTION_H_
