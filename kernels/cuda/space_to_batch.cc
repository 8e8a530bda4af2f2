// SPDX-License-Identifier: Apache-2.0
//
// SpaceToBatchND and BatchToSpaceND. `space` is [N,S…,rest] and `batch` is [positions·N,s…,rest].
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/moves.h"

namespace mirrorflow {
namespace {

struct Blocks {
  std::vector<int64_t> sizes, margins;

  int dims() const { return static_cast<int>(sizes.size()); }
};

absl::StatusOr<Blocks> BlocksOf(const KernelContext& c) {
  Blocks blocks;
  MF_ASSIGN_OR_RETURN(blocks.sizes, c.integers(1));
  MF_ASSIGN_OR_RETURN(blocks.margins, c.integers(2));
  return blocks;
}

absl::StatusOr<KernelPlan> CreateSpaceToBatch(const KernelContext& c) {
  const Shape &space = c.input_shape(0), &batch = c.output_shape(0);
  MF_ASSIGN_OR_RETURN(const Blocks blocks, BlocksOf(c));
  const int m = blocks.dims();
  const std::vector<int64_t> strides = space.Strides();
  // Views the output as [position…,N,s…,rest].
  std::vector<int64_t> sizes = blocks.sizes;
  sizes.push_back(space.dim(0));
  for (int d = 1; d <= m; ++d) sizes.push_back(batch.dim(d));
  const int64_t rest = batch.num_elements_from(m + 1);
  sizes.push_back(rest);
  const std::vector<std::string> at = CoordinateTexts("i", sizes);
  std::vector<std::string> conditions = {"true"};
  std::vector<std::string> terms = {absl::StrCat(at[m], " * ", strides[0]), at[2 * m + 1]};
  for (int k = 0; k < m; ++k) {
    const std::string in_space = absl::StrCat(at[m + 1 + k], " * ", blocks.sizes[k], " + ", at[k]);
    const std::string which = absl::StrCat(blocks.margins[2 * k], ", 1");
    conditions.push_back(absl::StrCat("Hits<", which, ", ", space.dim(k + 1), ">(", in_space, ")"));
    terms.push_back(absl::StrCat("Hit<", which, ">(", in_space, ") * ", strides[k + 1]));
  }
  return MoveKernel(
      c, absl::StrCat(absl::StrJoin(conditions, " && "), " ? a0[", absl::StrJoin(terms, " + "),
                      "] : ", ZeroText(c.output_dtype(0))));
}

absl::StatusOr<KernelPlan> CreateBatchToSpace(const KernelContext& c) {
  const Shape &batch = c.input_shape(0), &space = c.output_shape(0);
  MF_ASSIGN_OR_RETURN(const Blocks blocks, BlocksOf(c));
  const int m = blocks.dims();
  const std::vector<int64_t> strides = batch.Strides();
  std::vector<int64_t> sizes(space.dims().begin(), space.dims().begin() + m + 1);
  sizes.push_back(space.num_elements_from(m + 1));
  const std::vector<std::string> at = CoordinateTexts("i", sizes);
  std::string position = "0";
  std::vector<std::string> terms = {at[m + 1]};
  for (int k = 0; k < m; ++k) {
    const std::string uncropped = absl::StrCat("(", at[k + 1], " + ", blocks.margins[2 * k], ")");
    position = absl::StrCat("(", position, ") * ", blocks.sizes[k], " + ", uncropped, " % ",
                            blocks.sizes[k]);
    terms.push_back(absl::StrCat(uncropped, " / ", blocks.sizes[k], " * ", strides[k + 1], "ll"));
  }
  return MoveKernel(
      c, absl::StrCat("a0[static_cast<int64>((", position, ") * ", space.dim(0), " + ", at[0],
                      ") * ", strides[0], " + ", absl::StrJoin(terms, " + "), "]"));
}

}  // namespace

void RegisterSpaceToBatchCuda(KernelRegistry& kernels) {
  kernels.Register("BatchToSpaceND", kGpu, CreateBatchToSpace);
  kernels.Register("SpaceToBatchND", kGpu, CreateSpaceToBatch);
}

}  // namespace mirrorflow
