// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/elementwise.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

struct Broadcast {
  int input;
  Shape shape;
};

// Returns the number of elements per pack: 16 bytes of the smallest dtype whose elements are not
// repeated, but at most 8 elements, and no more than fit in a thread's registers.
int WidthFor(const KernelContext& c, absl::Span<const Broadcast> operands) {
  constexpr size_t kPackBytes = 16, kMaxWidth = 8, kLoadedBytes = 256;
  const Shape& out = c.output_shape(0);
  size_t smallest = DataTypeSize(c.output_dtype(0)), loaded = 0;
  for (const Broadcast& operand : operands) {
    if (NeighboursOf(out, operand.shape, 1) == Neighbours::kSame) continue;
    const size_t bytes = DataTypeSize(c.input_dtype(operand.input));
    smallest = std::min(smallest, bytes);
    loaded += bytes;
  }
  const auto fits = [&](size_t width) {
    return width * loaded <= kLoadedBytes &&
           std::none_of(operands.begin(), operands.end(), [&](const Broadcast& operand) {
             return NeighboursOf(out, operand.shape, static_cast<int>(width)) ==
                    Neighbours::kNeither;
           });
  };
  size_t width = std::min(kPackBytes / smallest, kMaxWidth);
  while (width > 1 && !fits(width)) width /= 2;
  return static_cast<int>(width);
}

}  // namespace

KernelPlan MakeElementwise(const KernelContext& c, const Formula& formula,
                           absl::Span<const Shape> shapes) {
  const Shape& out = c.output_shape(0);
  CudaKernelOptions options{.includes = {"math.cuh"}, .error = formula.error};
  std::vector<Broadcast> operands;
  for (int i = 0; i < c.node().num_inputs(); ++i) {
    if (c.node().is_static_input(i)) continue;
    operands.push_back({i, shapes.empty() ? c.input_shape(i) : shapes[i]});
    if (operands.back().shape == out &&
        DataTypeSize(c.input_dtype(i)) == DataTypeSize(c.output_dtype(0))) {
      options.in_place.emplace_back(i, 0);
    }
  }
  const int64_t n = out.num_elements();
  const int width = WidthFor(c, operands);
  std::string body = absl::StrCat("  Elementwise<", n, ", ", width, ">(z0, [&](auto i");
  for (const Broadcast& operand : operands) absl::StrAppend(&body, ", auto x", operand.input);
  absl::StrAppend(&body, ") {\n", formula.checks, "    return ", formula.text, ";\n  }");
  for (const auto& [input, shape] : operands) {
    const bool same = NeighboursOf(out, shape, width) == Neighbours::kSame;
    absl::StrAppend(&body, ",\n      ", same ? "Repeated" : "Adjacent", "{a", input,
                    ", [](auto i) { return ", BroadcastText("i", out, shape), "; }}");
  }
  absl::StrAppend(&body, ");");
  return MakeCudaKernel(c, {{.body = std::move(body), .grid = ElementwiseGrid(n, width)}},
                        std::move(options));
}

CudaStage IndexedStage(const KernelContext& c, int output, absl::string_view value) {
  const int64_t n = c.output_shape(output).num_elements();
  return {.body = absl::StrCat("  Elementwise<", n, ">(z", output, ", [&](auto i) {\n    return ",
                               value, ";\n  });"),
          .grid = ElementwiseGrid(n)};
}

KernelPlan MakeIndexed(const KernelContext& c, absl::string_view value, CudaKernelOptions options) {
  return MakeCudaKernel(c, {IndexedStage(c, 0, value)}, std::move(options));
}

}  // namespace mirrorflow
