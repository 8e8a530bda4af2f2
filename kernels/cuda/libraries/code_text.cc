// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/code_text.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mirrorflow {

std::string CudaType(DataType dtype) {
  switch (dtype) {
    case DT_HALF:
      return "half";
    case DT_BFLOAT16:
      return "bfloat16";
    case DT_FLOAT:
      return "float";
    case DT_DOUBLE:
      return "double";
    case DT_INT8:
      return "signed char";
    case DT_INT16:
      return "short";
    case DT_INT32:
      return "int";
    case DT_INT64:
      return "int64";
    case DT_UINT8:
      return "uint8";
    case DT_UINT16:
      return "unsigned short";
    case DT_UINT32:
      return "uint32";
    case DT_UINT64:
      return "uint64";
    case DT_BOOL:
      return "bool";
    default:
      return "void";  // causes a compilation error
  }
}

std::string CudaValueType(DataType dtype) {
  return dtype == DT_HALF || dtype == DT_BFLOAT16 ? "float" : CudaType(dtype);
}

std::string CudaLiteral(double value) {
  if (std::isnan(value)) return "static_cast<double>(BitsToFloat(0x7fc00000))";
  if (std::isinf(value))
    return value > 0 ? "Traits<double>::Highest()" : "Traits<double>::Lowest()";
  return absl::StrFormat("%a", value);
}

namespace {

// Returns the dimensions, innermost first, without those of size 1 and with adjacent contiguous
// dimensions merged.
std::vector<IndexDim> RunsOf(const std::vector<IndexDim>& dims) {
  std::vector<IndexDim> runs;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    if (dim->size == 1) continue;
    if (!runs.empty() && dim->stride == runs.back().stride * runs.back().size) {
      runs.back().size *= dim->size;
    } else {
      runs.push_back(*dim);
    }
  }
  return runs;
}

std::vector<IndexDim> BroadcastDims(const Shape& out, const Shape& operand) {
  const std::vector<int64_t> strides = operand.Strides();
  std::vector<IndexDim> dims;
  for (int d = 0; d < out.rank(); ++d) {
    const int i = d - (out.rank() - operand.rank());
    const bool moves = i >= 0 && operand.dim(i) != 1;
    dims.push_back({out.dim(d), moves ? strides[i] : 0});
  }
  return dims;
}

}  // namespace

std::string OffsetText(absl::string_view index, std::vector<IndexDim> dims, int64_t offset) {
  const std::vector<IndexDim> runs = RunsOf(dims);
  int64_t total = 1;
  for (const IndexDim& dim : dims) total *= dim.size;
  // Small indices are unsigned 32-bit integers.
  int64_t farthest = 0;
  bool wide = false;
  for (const IndexDim& run : runs) {
    farthest += (run.size - 1) * run.stride;
    wide = wide || run.stride < 0 || farthest > std::numeric_limits<int32_t>::max();
  }
  std::string text;
  int64_t below = 1;
  for (const IndexDim& run : runs) {
    if (run.stride != 0) {
      std::string coordinate(index);
      if (below > 1) absl::StrAppend(&coordinate, " / ", below);
      if (below * run.size < total) absl::StrAppend(&coordinate, " % ", run.size);
      if (run.stride != 1) {
        coordinate = absl::StrCat("(", coordinate, ") * ", run.stride, wide ? "ll" : "");
      }
      absl::StrAppend(&text, text.empty() ? "" : " + ", coordinate);
    }
    below *= run.size;
  }
  if (text.empty()) return absl::StrCat(offset);
  if (offset != 0) text = absl::StrCat("static_cast<int64>(", offset, ") + ", text);
  return text;
}

std::string BroadcastText(absl::string_view index, const Shape& out, const Shape& operand) {
  return OffsetText(index, BroadcastDims(out, operand));
}

Neighbours NeighboursOf(const Shape& out, const Shape& operand, int width) {
  const std::vector<IndexDim> runs = RunsOf(BroadcastDims(out, operand));
  if (runs.empty()) return Neighbours::kAdjacent;
  // A single run can have a remainder, which is not read in packs.
  if (runs.size() > 1 && runs[0].size % width != 0) return Neighbours::kNeither;
  return runs[0].stride == 0 ? Neighbours::kSame : Neighbours::kAdjacent;
}

CudaGrid ElementwiseGrid(int64_t n, int width) {
  const int64_t per_block = 256 * std::max(width, 4);  // see kThreads and kPacks of base.cuh
  return {.x = static_cast<unsigned int>(DivideUp(n, per_block))};
}

}  // namespace mirrorflow
