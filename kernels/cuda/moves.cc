// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/moves.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "kernels/cuda/elementwise.h"
#include "ops/shape_values.h"

namespace mirrorflow {
namespace {

// Returns a stage that sets output `output` to the bits of `value`, whose elements have the size of
// Bits. `type` is the device code's name for Bits.
template <typename Bits>
CudaStage BitsStage(int output, const Tensor& value, absl::string_view type) {
  const int64_t n = value.num_elements();
  const auto* first = reinterpret_cast<const Bits*>(value.raw());
  const std::string bits =
      absl::StrJoin(absl::MakeConstSpan(first, n), ", ",
                    [](std::string* out, Bits b) { absl::StrAppend(out, uint64_t{b}, "u"); });
  return {.body = absl::StrCat("  static constexpr ", type, " bits[] = {", bits,
                               "};\n  Elementwise<", n, ">(reinterpret_cast<", type, "*>(z", output,
                               "), [&](auto i) { return bits[i]; });"),
          .grid = ElementwiseGrid(n)};
}

}  // namespace

absl::Status CheckMovable(DataType dtype) {
  return CudaType(dtype) == "void" ? UnsupportedDataType(dtype) : absl::OkStatus();
}

absl::StatusOr<KernelPlan> MoveKernel(const KernelContext& c, absl::string_view element,
                                      CudaKernelOptions options) {
  MF_RETURN_IF_ERROR(CheckMovable(c.output_dtype(0)));
  options.includes.push_back("move.cuh");
  return MakeIndexed(c, element, std::move(options));
}

std::string ZeroText(DataType dtype) { return absl::StrCat("Zero<", CudaType(dtype), ">()"); }

std::vector<std::string> CoordinateTexts(absl::string_view index, absl::Span<const int64_t> sizes) {
  std::vector<IndexDim> dims;
  for (const int64_t size : sizes) dims.push_back({size, 0});
  std::vector<std::string> texts;
  for (IndexDim& dim : dims) {
    dim.stride = 1;
    texts.push_back(absl::StrCat("(", OffsetText(index, dims), ")"));
    dim.stride = 0;
  }
  return texts;
}

std::vector<WindowDim> MergeWhole(absl::Span<const WindowDim> dims) {
  std::vector<WindowDim> merged;
  for (const WindowDim& dim : dims) {
    if (!merged.empty() && merged.back().whole() && dim.whole()) {
      merged.back().size *= dim.size;
      merged.back().count *= dim.count;
    } else {
      merged.push_back(dim);
    }
  }
  return merged;
}

std::string WindowText(absl::string_view index, absl::Span<const WindowDim> dims,
                       absl::string_view operand, absl::string_view otherwise) {
  const std::vector<WindowDim> merged = MergeWhole(dims);
  std::vector<int64_t> sizes;
  for (const WindowDim& dim : merged) sizes.push_back(dim.size);
  const std::vector<std::string> at = CoordinateTexts(index, sizes);
  std::vector<std::string> conditions, terms;
  int64_t stride = 1;
  for (size_t d = merged.size(); d-- > 0;) {
    const WindowDim& dim = merged[d];
    std::string term = at[d];
    if (!dim.whole()) {
      const std::string which = absl::StrCat(dim.first, ", ", dim.step);
      conditions.push_back(absl::StrCat("Hits<", which, ", ", dim.count, ">(", at[d], ")"));
      term = absl::StrCat("Hit<", which, ">(", at[d], ")");
    }
    terms.push_back(absl::StrCat(term, " * ", stride));
    stride *= dim.count;
  }
  const std::string element =
      absl::StrCat(operand, "[", terms.empty() ? "0" : absl::StrJoin(terms, " + "), "]");
  if (conditions.empty()) return element;
  return absl::StrCat(absl::StrJoin(conditions, " && "), " ? ", element, " : ", otherwise);
}

CudaStage ConstantStage(int output, const Tensor& value) {
  switch (DataTypeSize(value.dtype())) {
    case 1:
      return BitsStage<uint8_t>(output, value, "uint8");
    case 2:
      return BitsStage<uint16_t>(output, value, "unsigned short");
    case 4:
      return BitsStage<uint32_t>(output, value, "uint32");
    default:
      return BitsStage<uint64_t>(output, value, "uint64");
  }
}

CudaStage IntegersStage(const KernelContext& c, int output, absl::Span<const int64_t> values) {
  const Shape shape({static_cast<int64_t>(values.size())});
  return ConstantStage(output, IntegerTensor(c.output_dtype(output), shape, values));
}

}  // namespace mirrorflow
