// SPDX-License-Identifier: Apache-2.0
//
// Element-wise ops of one operand, their gradients, and activations.
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/elementwise.h"

namespace mirrorflow {
namespace {

std::string Alpha(const KernelContext& c) {
  return CudaLiteral(static_cast<double>(c.attr<float>("alpha")));
}

absl::StatusOr<KernelPlan> CreateLeakyRelu(const KernelContext& c) {
  return MakeElementwise(c, {.text = absl::StrCat("op::LeakyRelu(x0, ", Alpha(c), ")")});
}
absl::StatusOr<KernelPlan> CreateLeakyReluGrad(const KernelContext& c) {
  return MakeElementwise(c, {.text = absl::StrCat("op::LeakyReluGrad(x0, x1, ", Alpha(c), ")")});
}

}  // namespace

void RegisterUnaryCuda(KernelRegistry& kernels) {
  RegisterByName(
      kernels,
      {"Abs",        "Acos",   "Acosh",    "Asin",       "Asinh", "Atan",     "Atanh", "Ceil",
       "Cos",        "Cosh",   "Digamma",  "Erf",        "Erfc",  "Exp",      "Expm1", "Floor",
       "Inv",        "Invert", "IsFinite", "IsInf",      "IsNan", "Lgamma",   "Log",   "Log1p",
       "LogicalNot", "Neg",    "OnesLike", "Reciprocal", "Rint",  "Round",    "Rsqrt", "Sign",
       "Sin",        "Sinh",   "Sqrt",     "Square",     "Tan",   "ZerosLike"});
  RegisterByName(kernels,
                 {"Elu", "Relu", "Relu6", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh"});
  RegisterByName(kernels,
                 {"EluGrad", "ReciprocalGrad", "ReluGrad", "Relu6Grad", "RsqrtGrad", "SeluGrad",
                  "SigmoidGrad", "SoftplusGrad", "SoftsignGrad", "SqrtGrad", "TanhGrad"});
  kernels.Register("LeakyRelu", kGpu, CreateLeakyRelu);
  kernels.Register("LeakyReluGrad", kGpu, CreateLeakyReluGrad);
}

}  // namespace mirrorflow
