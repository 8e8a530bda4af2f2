// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/elementwise.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cuda/cuda_device.h"

namespace mirrorflow {
namespace {

std::vector<std::string> InputNames(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(absl::StrCat("x", i));
  return names;
}

absl::StatusOr<KernelPlan> CreateByFormula(const KernelContext& c) {
  return MakeElementwise(c, FormulaOf(c.node(), InputNames(c.node().num_inputs())));
}

CudaStage ElementwiseStage(const KernelContext& c, int output, absl::string_view statements) {
  const int64_t n = c.output_shape(output).num_elements();
  return {.body = absl::StrCat("  Elementwise<", n, ">(z", output, ", [&](auto i) {\n", statements,
                               "  });"),
          .grid = ElementwiseGrid(n)};
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
  // The function of the op's name; what is a number in the attributes comes last.
  std::string arguments = absl::StrJoin(x, ", ");
  for (const char* attr : {"alpha", "tolerance"}) {
    if (!node.has_attr(attr)) continue;
    absl::StrAppend(&arguments, ", ", CudaLiteral(static_cast<double>(node.attr<float>(attr))));
  }
  Formula formula{absl::StrCat("op::", op, "(", arguments, ")")};
  if (integers && (absl::EndsWith(op, "Div") || absl::EndsWith(op, "Mod"))) {
    formula.checks = absl::StrCat("    if (", x[1], " == 0) fail(0);\n");
    formula.error = "Integer division by zero; expected divisors other than 0, got";
  } else if (integers && op == "Pow") {
    formula.checks = absl::StrCat("    if (", x[1], " < 0) fail(", x[1], ");\n");
    formula.error = "integer to a negative power; expected exponents of at least 0, got";
  }
  return formula;
}

KernelPlan MakeElementwise(const KernelContext& c, const Formula& formula) {
  const Shape& out = c.output_shape(0);
  CudaKernelOptions options{.includes = {"math.cuh"}, .error = formula.error};
  std::string statements;
  for (int i = 0; i < c.node().num_inputs(); ++i) {
    if (c.node().is_static_input(i)) continue;
    const Shape& shape = c.input_shape(i);
    absl::StrAppend(&statements, "    const auto x", i, " = Load(a", i, "[",
                    BroadcastText("i", out, shape), "]);\n");
    if (shape == out && DataTypeSize(c.input_dtype(i)) == DataTypeSize(c.output_dtype(0))) {
      options.in_place.emplace_back(i, 0);
    }
  }
  absl::StrAppend(&statements, formula.checks, "    return ", formula.text, ";\n");
  return MakeCudaKernel(c, {ElementwiseStage(c, 0, statements)}, std::move(options));
}

CudaStage IndexedStage(const KernelContext& c, int output, absl::string_view value) {
  return ElementwiseStage(c, output, absl::StrCat("    return ", value, ";\n"));
}

KernelPlan MakeIndexed(const KernelContext& c, absl::string_view value, CudaKernelOptions options) {
  return MakeCudaKernel(c, {IndexedStage(c, 0, value)}, std::move(options));
}

void RegisterByFormula(KernelRegistry& kernels, std::initializer_list<const char*> ops) {
  for (const char* op : ops) kernels.Register(op, kGpu, CreateByFormula);
}

}  // namespace mirrorflow
