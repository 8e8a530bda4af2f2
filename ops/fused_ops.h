// SPDX-License-Identifier: Apache-2.0
//
// Ops that only the compiler creates, by fusing other ops. They are in a separate registry, and
// graph files never contain them.
//
//   …OfProduct      an optimizer update whose gradient is the product aᵀ · b [m,n]; one per
//                   update op. Input `a` [k,m] replaces the gradient; `b` [k,n] is the last input
//   …MultiTensor    an optimizer update of `N` variables; one per update op. Each variable and
//                   the gradient become lists of N inputs
//   _Fused…         a product or convolution with an additional last input `bias` [channels],
//                   added to the output (TensorFlow's name, with fused_ops=[BiasAdd])
//   _Fused…Relu     like the previous op, with negative elements of the sum replaced by 0. A MatMul
//   [m,n] with
//                   `num_masks` 1 also returns `mask`, uint8 [m, 16 * ceil(n / 128)], with one bit
//                   per element that is set if the element is positive
//   _MatMulReluGrad a MatMul that computes the gradient of such elements. The mask and the elements
//                   follow its other inputs; either determines where the output is 0. A second
//                   output is the sum of the rows of the first, the gradient of the bias
//   _FusedElementwise
//                   element-wise ops of one shape, to which the inputs broadcast. `body` is the
//                   text form of their graph, in which x0, x1, … are the inputs and the last node
//                   is the output
#ifndef MIRRORFLOW_OPS_FUSED_OPS_H_
#define MIRRORFLOW_OPS_FUSED_OPS_H_

#include <string>

#include "framework/graph/op_registry.h"

namespace mirrorflow {

// Returns the registry of these ops. The first call creates it; it is immutable and thread-safe.
const OpRegistry& FusedOps();

namespace ops {

// Returns the name of the variant of `update` whose gradient is a product.
std::string OfProduct(absl::string_view update);
// Returns the name of the variant of `update` for several variables.
std::string MultiTensor(absl::string_view update);
inline constexpr char kNumTensors[] = "N";
// Returns the name of the variant of `product` with a bias.
std::string WithBias(absl::string_view product);
// Returns the name of the variant of `product` with a bias followed by a Relu.
std::string WithBiasAndRelu(absl::string_view product);
inline constexpr char kFusedBias[] = "bias";
inline constexpr char kNumMasks[] = "num_masks";
inline constexpr char kMatMulReluGrad[] = "_MatMulReluGrad";
inline constexpr char kFusedElementwise[] = "_FusedElementwise";
inline constexpr char kBodyAttr[] = "body";

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_FUSED_OPS_H_
