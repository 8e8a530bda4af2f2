// SPDX-License-Identifier: Apache-2.0
//
// Ops that only the compiler makes, out of several: a registry of just these. They are not in
// graphs that are read or written.
//
//   …OfProduct      an optimizer's update whose gradient is a product, one of each update:
//                   in place of the gradient `a` [k,m], behind all other inputs `b` [k,n];
//                   the gradient is aᵀ · b [m,n]
//   _Fused…         a product or convolution, and behind its other inputs a `bias` of its channels,
//                   which is added to the output (TensorFlow's name, with fused_ops=[BiasAdd])
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
// The op that is `product` with a bias.
std::string WithBias(absl::string_view product);
inline constexpr char kFusedBias[] = "bias";
inline constexpr char kFusedElementwise[] = "_FusedElementwise";
inline constexpr char kBodyAttr[] = "body";

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_FUSED_OPS_H_
