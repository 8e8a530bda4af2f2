// SPDX-License-Identifier: Apache-2.0
//
// Element-wise ops of two operands and more.
#include "absl/strings/str_cat.h"
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
  return MakeElementwise(c, FormulaOf(c.node(), {"x0", "x1"}));
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
  RegisterByFormula(kernels, {"AccumulateNV2",
                              "Add",
                              "AddN",
                              "AddV2",
                              "ApproximateEqual",
                              "Atan2",
                              "BitwiseAnd",
                              "BitwiseOr",
                              "BitwiseXor",
                              "Cast",
                              "ClipByValue",
                              "Div",
                              "DivNoNan",
                              "FloorDiv",
                              "FloorMod",
                              "Greater",
                              "GreaterEqual",
                              "LeftShift",
                              "Less",
                              "LessEqual",
                              "LogicalAnd",
                              "LogicalOr",
                              "Maximum",
                              "Minimum",
                              "Mod",
                              "Mul",
                              "MulNoNan",
                              "NextAfter",
                              "Polygamma",
                              "Pow",
                              "RealDiv",
                              "RightShift",
                              "SelectV2",
                              "SquaredDifference",
                              "Sub",
                              "TruncateDiv",
                              "TruncateMod",
                              "Xdivy",
                              "Xlog1py",
                              "Xlogy"});
  kernels.Register("Equal", kGpu, CreateEqual);
  kernels.Register("NotEqual", kGpu, CreateEqual);
  kernels.Register("Select", kGpu, CreateSelect);
}

}  // namespace mirrorflow
