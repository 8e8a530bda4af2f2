// SPDX-License-Identifier: Apache-2.0
//
// Element-wise ops of one operand, their gradients, and activations.
#include "kernels/cuda/elementwise.h"

namespace mirrorflow {
void RegisterUnaryCuda(KernelRegistry& kernels) {
  RegisterByFormula(
      kernels,
      {"Abs",        "Acos",   "Acosh",    "Asin",       "Asinh", "Atan",     "Atanh", "Ceil",
       "Cos",        "Cosh",   "Digamma",  "Erf",        "Erfc",  "Exp",      "Expm1", "Floor",
       "Inv",        "Invert", "IsFinite", "IsInf",      "IsNan", "Lgamma",   "Log",   "Log1p",
       "LogicalNot", "Neg",    "OnesLike", "Reciprocal", "Rint",  "Round",    "Rsqrt", "Sign",
       "Sin",        "Sinh",   "Sqrt",     "Square",     "Tan",   "ZerosLike"});
  RegisterByFormula(kernels, {"Elu", "LeakyRelu", "Relu", "Relu6", "Selu", "Sigmoid", "Softplus",
                              "Softsign", "Tanh"});
  RegisterByFormula(
      kernels, {"EluGrad", "LeakyReluGrad", "ReciprocalGrad", "ReluGrad", "Relu6Grad", "RsqrtGrad",
                "SeluGrad", "SigmoidGrad", "SoftplusGrad", "SoftsignGrad", "SqrtGrad", "TanhGrad"});
}

}  // namespace mirrorflow
