// SPDX-License-Identifier: Apache-2.0
//
// Element-wise ops of two operands and more.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/graph/shape_inference.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/elementwise.h"

namespace mirrorflow {
namespace {

// Shapes that do not broadcast get here only with incompatible_shape_error = false: they differ as
// a whole.
absl::StatusOr<KernelPlan> CreateEqual(const KernelContext& c) {
  const bool equal = c.node().op().name == "Equal";
  if (!BroadcastShapes(c.input_shape(0), c.input_shape(1)).ok()) {
    return MakeIndexed(c, equal ? "false" : "true");
  }
  return MakeElementwise(c, {.text = equal ? "op::Equal(x0, x1)" : "op::NotEqual(x0, x1)"});
}

// Of integers.
absl::StatusOr<KernelPlan> CreateDivision(const KernelContext& c) {
  Formula formula{.text = absl::StrCat("op::", c.node().op().name, "(x0, x1)")};
  if (!IsFloating(c.input_dtype(0))) {
    formula.checks = "    if (x1 == 0) fail(0);\n";
    formula.error = "Integer division by zero; expected divisors other than 0, got";
  }
  return MakeElementwise(c, formula);
}
absl::StatusOr<KernelPlan> CreatePow(const KernelContext& c) {
  Formula formula{.text = "op::Pow(x0, x1)"};
  if (!IsFloating(c.input_dtype(0))) {
    formula.checks = "    if (x1 < 0) fail(x1);\n";
    formula.error = "integer to a negative power; expected exponents of at least 0, got";
  }
  return MakeElementwise(c, formula);
}

absl::StatusOr<KernelPlan> CreateApproximateEqual(const KernelContext& c) {
  const double tolerance = c.attr<float>("tolerance");
  return MakeElementwise(
      c, {.text = absl::StrCat("op::ApproximateEqual(x0, x1, ", CudaLiteral(tolerance), ")")});
}

absl::StatusOr<KernelPlan> CreateAddN(const KernelContext& c) {
  std::vector<std::string> terms;
  for (int i = 0; i < c.node().num_inputs(); ++i) terms.push_back(absl::StrCat("x", i));
  return MakeElementwise(c, {.text = absl::StrJoin(terms, " + ")});
}

absl::StatusOr<KernelPlan> CreateCast(const KernelContext& c) {
  return MakeElementwise(
      c, {.text = absl::StrCat("op::Cast<", CudaValueType(c.output_dtype(0)), ">(x0)")});
}

absl::StatusOr<KernelPlan> CreateSelectV2(const KernelContext& c) {
  return MakeElementwise(c, {.text = "x0 ? x1 : x2"});
}

// The condition is of the output's shape, a scalar, or one bool for each row.
absl::StatusOr<KernelPlan> CreateSelect(const KernelContext& c) {
  const Shape& out = c.output_shape(0);
  Shape condition = c.input_shape(0);
  while (condition.rank() > 0 && condition.rank() < out.rank()) condition.AddDim(1);
  return MakeIndexed(
      c, absl::StrCat("a0[", BroadcastText("i", out, condition), "] ? Load(a1[i]) : Load(a2[i])"));
}

}  // namespace

void RegisterBinaryCuda(KernelRegistry& kernels) {
  RegisterByName(
      kernels,
      {"Add",         "AddV2",      "Atan2",     "BitwiseAnd",   "BitwiseOr",  "BitwiseXor",
       "ClipByValue", "DivNoNan",   "Greater",   "GreaterEqual", "LeftShift",  "Less",
       "LessEqual",   "LogicalAnd", "LogicalOr", "Maximum",      "Minimum",    "Mul",
       "MulNoNan",    "NextAfter",  "Polygamma", "RealDiv",      "RightShift", "SquaredDifference",
       "Sub",         "Xdivy",      "Xlog1py",   "Xlogy"});
  for (const char* op : {"Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod"}) {
    kernels.Register(op, kGpu, CreateDivision);
  }
  kernels.Register("AddN", kGpu, CreateAddN);
  kernels.Register("AccumulateNV2", kGpu, CreateAddN);
  kernels.Register("ApproximateEqual", kGpu, CreateApproximateEqual);
  kernels.Register("Cast", kGpu, CreateCast);
  kernels.Register("Equal", kGpu, CreateEqual);
  kernels.Register("NotEqual", kGpu, CreateEqual);
  kernels.Register("Pow", kGpu, CreatePow);
  kernels.Register("Select", kGpu, CreateSelect);
  kernels.Register("SelectV2", kGpu, CreateSelectV2);
}

}  // namespace mirrorflow
