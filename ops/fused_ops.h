// SPDX-License-Identifier: Apache-2.0
//
// Ops that only the compiler creates, by fusing other ops. They are in a separate registry, and
// graph files never contain them.
//
//   ResourceApplyKerasAdam
//                   Adam as Keras writes it: the step size and the rates of the moving averages are
//                   inputs (update.cc)
//   …OfProduct      an optimizer update whose gradient is the product aᵀ · b [m,n]; one per
//                   update op. Input `a` [k,m] replaces the gradient; `b` [k,n] is the last input
//   …MultiTensor    an optimizer update of `N` variables; one per update op. Each variable and
//                   the gradient become lists of N inputs
//   _Fused…         a product or convolution with an additional last input `bias` [channels],
//                   added to the output (TensorFlow's name, with fused_ops=[BiasAdd])
//   _Fused…Add…     like the previous op, with one more input `addend`, which has the shape of
//                   the output and is added to it
//   _Fused…Relu     like the previous ops, followed by an activation (Relu, Relu6, Sigmoid, Tanh,
//                   Swish, HardSwish, Gelu or GeluTanh). A MatMul [m,n] with Relu and `num_masks` 1
//                   also returns `mask`, uint8 [m, 16 * ceil(n / 128)], with one bit per element
//                   that is set if the element is positive
//   _MatMulReluGrad a MatMul that computes the gradient of such elements. The mask and the elements
//                   follow its other inputs; either determines where the output is 0. A second
//                   output is the sum of the rows of the first, the gradient of the bias
//   _FusedElementwise
//                   element-wise ops of one shape, to which the inputs broadcast. `body` is the
//                   text form of their graph, in which x0, x1, … are the inputs and the last node
//                   is the output
#ifndef MIRRORFLOW_OPS_FUSED_OPS_H_
#define MIRRORFLOW_OPS_FUSED_OPS_H_

#include <optional>
#include <string>
#include <vector>

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
// Describes what a product or convolution does with its output after it has added the bias.
struct Epilogue {
  bool add = false;        // adds input `addend`
  std::string activation;  // then applies this op or formula, if any

  friend bool operator==(const Epilogue&, const Epilogue&) = default;
};
// Activations that are not ops of their own:
inline constexpr char kSwish[] = "Swish";          // x * Sigmoid(x)
inline constexpr char kHardSwish[] = "HardSwish";  // x * Relu6(x + 3) / 6
inline constexpr char kGeluTanh[] = "GeluTanh";    // Gelu with `approximate`
// Returns the name of the variant of `product` with a bias and an epilogue.
std::string Fused(absl::string_view product, const Epilogue& epilogue = {});
// The product and the epilogue that an op's name stands for; nullopt for an op without a bias.
struct FusedProduct {
  std::string product;
  Epilogue epilogue;
};
std::optional<FusedProduct> AsFused(absl::string_view op);
// Returns the names of all variants of `product` with a bias.
std::vector<std::string> FusedVariants(absl::string_view product);
inline constexpr char kFusedBias[] = "bias";
inline constexpr char kFusedAddend[] = "addend";
inline constexpr char kNumMasks[] = "num_masks";
inline constexpr char kMatMulReluGrad[] = "_MatMulReluGrad";
inline constexpr char kFusedElementwise[] = "_FusedElementwise";
inline constexpr char kBodyAttr[] = "body";

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_FUSED_OPS_H_
