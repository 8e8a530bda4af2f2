// SPDX-License-Identifier: Apache-2.0
//
// Ops that only the compiler makes, out of several: a registry of just these. They are not in
// graphs that are read or written.
//
//   …OfProduct      an optimizer's update whose gradient is a product, one of each update:
//                   in place of the gradient `a` [k,m], behind all other inputs `b` [k,n];
//                   the gradient is aᵀ · b [m,n]
//   …MultiTensor    an optimizer's update of `N` variables, one of each update: in place of each
//                   variable and of the gradient there are N
//   _Fused…         a product or convolution, and behind its other inputs a `bias` of its channels,
//                   which is added to the output (TensorFlow's name, with fused_ops=[BiasAdd])
//   _Fused…Relu     the same, and negative elements of the sum are 0; of a MatMul [m,n] also, if
//                   `num_masks` is 1, a `mask` uint8 [m, 16 * ceil(n / 128)] with a bit for each
//                   element: whether it is positive
//   _MatMulReluGrad a MatMul of the gradient of such elements: behind its inputs the mask and the
//                   elements themselves, either of which says where the output is 0; besides the
//                   output the sum of its rows, the gradient of the bias
//   _FusedElementwise
//                   element-wise ops of one shape, to which its inputs broadcast: `body` is
//                   the text form of their graph, in which x0, x1, … are the inputs and the last
//                   node the output
#ifndef MIRRORFLOW_OPS_FUSED_OPS_H_
#define MIRRORFLOW_OPS_FUSED_OPS_H_

#include <string>

#include "framework/graph/op_registry.h"

namespace mirrorflow {

// Made at the first call, immutable, safe from any thread.
const OpRegistry& FusedOps();

namespace ops {

// The op that is `update` by a product.
std::string OfProduct(absl::string_view update);
// The op that is `update` of several variables.
std::string MultiTensor(absl::string_view update);
inline constexpr char kNumTensors[] = "N";
// The op that is `product` with a bias.
std::string WithBias(absl::string_view product);
// That with Relu behind it.
std::string WithBiasAndRelu(absl::string_view product);
inline constexpr char kFusedBias[] = "bias";
inline constexpr char kNumMasks[] = "num_masks";
inline constexpr char kMatMulReluGrad[] = "_MatMulReluGrad";
inline constexpr char kFusedElementwise[] = "_FusedElementwise";
inline constexpr char kBodyAttr[] = "body";

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_FUSED_OPS_H_
