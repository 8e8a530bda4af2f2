// SPDX-License-Identifier: Apache-2.0
//
// MirrorPad and its gradient. The gradient of an element is the sum over all padded positions where
// the element appears.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/moves.h"

namespace mirrorflow {
namespace {

struct Mirrors {
  std::vector<WindowDim> dims;  // adjacent unpadded dimensions are merged
  int skipped;                  // see move.cuh
};

absl::StatusOr<Mirrors> MirrorsOf(const KernelContext& c, const Shape& padded, const Shape& inner) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> paddings, c.integers(1));
  std::vector<WindowDim> dims;
  for (int d = 0; d < padded.rank(); ++d) {
    dims.push_back({.size = padded.dim(d), .count = inner.dim(d), .first = paddings[2 * d]});
  }
  return Mirrors{.dims = MergeWhole(dims),
                 .skipped = c.attr<std::string>("mode") == "REFLECT" ? 1 : 0};
}

absl::StatusOr<KernelPlan> CreateMirrorPad(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const Mirrors mirrors, MirrorsOf(c, c.output_shape(0), c.input_shape(0)));
  std::vector<int64_t> sizes;
  for (const WindowDim& dim : mirrors.dims) sizes.push_back(dim.size);
  const std::vector<std::string> at = CoordinateTexts("i", sizes);
  std::vector<std::string> terms = {"0"};
  int64_t stride = 1;
  for (size_t d = at.size(); d-- > 0;) {
    const WindowDim& dim = mirrors.dims[d];
    terms.push_back(dim.whole() ? absl::StrCat(at[d], " * ", stride)
                                : absl::StrCat("Mirrored<", dim.count, ", ", dim.first, ", ",
                                               mirrors.skipped, ">(", at[d], ") * ", stride));
    stride *= dim.count;
  }
  return MoveKernel(c, absl::StrCat("a0[", absl::StrJoin(terms, " + "), "]"));
}

absl::StatusOr<KernelPlan> CreateMirrorPadGrad(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const Mirrors mirrors, MirrorsOf(c, c.input_shape(0), c.output_shape(0)));
  std::vector<int64_t> sizes;
  for (const WindowDim& dim : mirrors.dims) sizes.push_back(dim.count);
  const std::vector<std::string> at = CoordinateTexts("i", sizes);
  // Nests one sum per padded dimension around the element whose coordinates the sums iterate over.
  std::vector<std::string> terms = {"0"};
  std::string sums, ends;
  int64_t stride = 1;
  for (size_t d = at.size(); d-- > 0;) {
    const WindowDim& dim = mirrors.dims[d];
    std::string coordinate = at[d];
    if (!dim.whole()) {
      coordinate = absl::StrCat("c", d);
      absl::StrAppend(&sums, "SumOfMirrored<", dim.count, ", ", dim.first, ", ",
                      dim.size - dim.count - dim.first, ", ", mirrors.skipped, ">(", at[d],
                      ", [&](int64 ", coordinate, ") { return ");
      absl::StrAppend(&ends, "; })");
    }
    terms.push_back(absl::StrCat(coordinate, " * ", stride, "ll"));
    stride *= dim.size;
  }
  return MoveKernel(c, absl::StrCat(sums, "Load(a0[", absl::StrJoin(terms, " + "), "])", ends));
}

}  // namespace

void RegisterMirrorPadCuda(KernelRegistry& kernels) {
  kernels.Register("MirrorPad", kGpu, CreateMirrorPad);
  kernels.Register("MirrorPadGrad", kGpu, CreateMirrorPadGrad);
}

}  // namespace mirrorflow
