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

template <typename Bits>
std::string BitsText(const Tensor& value) {
  const auto* bits = reinterpret_cast<const Bits*>(value.raw());
  return absl::StrJoin(absl::MakeConstSpan(bits, value.num_elements()), ", ",
                       [](std::string* out, Bits b) { absl::StrAppend(out, uint64_t{b}, "u"); });
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
  const int64_t n = value.num_elements();
  std::string type, bits;
  switch (DataTypeSize(value.dtype())) {
    case 1:
      type = "uint8";
      bits = BitsText<uint8_t>(value);
      break;
    case 2:
      type = "unsigned short";
      bits = BitsText<uint16_t>(value);
      break;
    case 4:
      type = "uint32";
      bits = BitsText<uint32_t>(value);
      break;
    default:
      type = "uint64";
      bits = BitsText<uint64_t>(value);
  }
  return {.body = absl::StrCat("  static constexpr ", type, " bits[] = {", bits,
                               "};\n  Elementwise<", n, ">(reinterpret_cast<", type, "*>(z", output,
                               "), [&](auto i) { return bits[i]; });"),
          .grid = ElementwiseGrid(n)};
}

CudaStage IntegersStage(const KernelContext& c, int output, absl::Span<const int64_t> values) {
  const Shape shape({static_cast<int64_t>(values.size())});
  return ConstantStage(output, IntegerTensor(c.output_dtype(output), shape, values));
}

}  // namespace mirrorflow
