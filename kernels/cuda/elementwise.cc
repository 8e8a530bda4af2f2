// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/elementwise.h"

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

CudaStage ElementwiseStage(const KernelContext& c, int output, absl::string_view statements) {
  const int64_t n = c.output_shape(output).num_elements();
  return {.body = absl::StrCat("  Elementwise<", n, ">(z", output, ", [&](auto i) {\n", statements,
                               "  });"),
          .grid = ElementwiseGrid(n)};
}

}  // namespace

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

}  // namespace mirrorflow
