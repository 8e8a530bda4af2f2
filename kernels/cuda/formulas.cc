// SPDX-License-Identifier: Apache-2.0
//
// Element-wise ops. Each calls the function of the same name in code/math.cuh, except for a few
// that need other code.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/graph/shape_inference.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/elementwise.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateByFormula(const KernelContext& c) {
  std::vector<std::string> operands;
  for (int i = 0; i < c.node().num_inputs(); ++i) operands.push_back(absl::StrCat("x", i));
  return MakeElementwise(c, FormulaOf(c.node(), operands));
}

void RegisterByFormula(KernelRegistry& kernels, std::initializer_list<const char*> ops) {
  for (const char* op : ops) kernels.Register(op, kGpu, CreateByFormula);
}

// If incompatible_shape_error is false, the shapes need not broadcast. If they do not, the tensors
// compare unequal as a whole.
absl::StatusOr<KernelPlan> CreateEqual(const KernelContext& c) {
  const bool equal = c.node().op().name == "Equal";
  if (!BroadcastShapes(c.input_shape(0), c.input_shape(1)).ok()) {
    return MakeIndexed(c, equal ? "false" : "true");
  }
  return CreateByFormula(c);
}

// The condition has the output's shape, is a scalar, or has one bool per row.
absl::StatusOr<KernelPlan> CreateSelect(const KernelContext& c) {
  const Shape& out = c.output_shape(0);
  Shape condition = c.input_shape(0);
  while (condition.rank() > 0 && condition.rank() < out.rank()) condition.AddDim(1);
  return MakeIndexed(
      c, absl::StrCat("a0[", BroadcastText("i", out, condition), "] ? Load(a1[i]) : Load(a2[i])"));
}

}  // namespace

Formula FormulaOf(const Node& node, absl::Span<const std::string> x) {
  const std::string& op = node.op().name;
  const bool integers = node.num_inputs() > 0 && !IsFloating(node.input(0).dtype());
  if (op == "Cast") {
    return {absl::StrCat("op::Cast<", CudaValueType(node.output_dtype(0)), ">(", x[0], ")")};
  }
  if (op == "SelectV2") return {absl::StrCat("(", x[0], " ? ", x[1], " : ", x[2], ")")};
  if (op == "AddN" || op == "AccumulateNV2") {
    return {absl::StrCat("(", absl::StrJoin(x, " + "), ")")};
  }
  // Calls the function with the op's name, and passes numeric attributes as the last arguments. The
  // approximate form of an op is a function with the prefix `Approximate`.
  std::string arguments = absl::StrJoin(x, ", ");
  for (const char* attr : {"alpha", "tolerance"}) {
    if (!node.has_attr(attr)) continue;
    absl::StrAppend(&arguments, ", ", CudaLiteral(static_cast<double>(node.attr<float>(attr))));
  }
  const bool approximate = node.has_attr("approximate") && node.attr<bool>("approximate");
  Formula formula{absl::StrCat("op::", approximate ? "Approximate" : "", op, "(", arguments, ")")};
  if (integers && (absl::EndsWith(op, "Div") || absl::EndsWith(op, "Mod"))) {
    formula.checks = absl::StrCat("    if (", x[1], " == 0) fail(0);\n");
    formula.error = "integer division by zero; expected nonzero divisors, got";
  } else if (integers && op == "Pow") {
    formula.checks = absl::StrCat("    if (", x[1], " < 0) fail(", x[1], ");\n");
    formula.error = "integer raised to a negative power; expected exponents of at least 0, got";
  }
  return formula;
}

void RegisterFormulasCuda(KernelRegistry& kernels) {
  RegisterByFormula(
      kernels,
      {"Abs",        "Acos",   "Acosh",    "Asin",       "Asinh", "Atan",     "Atanh", "Ceil",
       "Cos",        "Cosh",   "Digamma",  "Erf",        "Erfc",  "Exp",      "Expm1", "Floor",
       "Inv",        "Invert", "IsFinite", "IsInf",      "IsNan", "Lgamma",   "Log",   "Log1p",
       "LogicalNot", "Neg",    "OnesLike", "Reciprocal", "Rint",  "Round",    "Rsqrt", "Sign",
       "Sin",        "Sinh",   "Sqrt",     "Square",     "Tan",   "ZerosLike"});
  RegisterByFormula(kernels, {"Elu", "Gelu", "LeakyRelu", "Relu", "Relu6", "Selu", "Sigmoid",
                              "Softplus", "Softsign", "Tanh"});
  RegisterByFormula(kernels, {"EluGrad", "GeluGrad", "LeakyReluGrad", "ReciprocalGrad", "ReluGrad",
                              "Relu6Grad", "RsqrtGrad", "SeluGrad", "SigmoidGrad", "SoftplusGrad",
                              "SoftsignGrad", "SqrtGrad", "TanhGrad"});
  RegisterByFormula(kernels, {"ApproximateEqual", "Greater", "GreaterEqual", "Less", "LessEqual",
                              "LogicalAnd", "LogicalOr", "Maximum", "Minimum"});
  RegisterByFormula(kernels, {"AccumulateNV2", "Add", "AddN", "AddV2", "Mul", "MulNoNan",
                              "SquaredDifference", "Sub"});
  RegisterByFormula(kernels, {"Div", "DivNoNan", "FloorDiv", "FloorMod", "Mod", "RealDiv",
                              "TruncateDiv", "TruncateMod", "Xdivy"});
  RegisterByFormula(kernels, {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift"});
  RegisterByFormula(kernels, {"Atan2", "Cast", "ClipByValue", "NextAfter", "Polygamma", "Pow",
                              "SelectV2", "Xlog1py", "Xlogy"});
  kernels.Register("Equal", kGpu, CreateEqual);
  kernels.Register("NotEqual", kGpu, CreateEqual);
  kernels.Register("Select", kGpu, CreateSelect);
}

}  // namespace mirrorflow
