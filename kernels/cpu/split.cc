// SPDX-License-Identifier: Apache-2.0
//
// Split and SplitV on the CPU. The output shapes determine the sizes of the pieces.
#include "framework/core/status.h"
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

template <int kValue, int kAxis>
absl::StatusOr<KernelPlan> CreateSplit(const KernelContext& c) {
  const Shape& in = c.input_shape(kValue);
  MF_ASSIGN_OR_RETURN(const int axis, c.axis(kAxis, in.rank(), "split_dim"));
  const int64_t rows = in.num_elements_before(axis), row = in.num_elements_from(axis);
  const DataType dtype = c.input_dtype(kValue);
  std::vector<Move> moves;
  int64_t begin = 0;
  for (int i = 0; i < c.node().num_outputs(); ++i) {
    const int64_t piece = c.output_shape(i).num_elements_from(axis);
    moves.push_back(
        {kValue, i, StridedCopy(dtype, {{rows, row, piece}, {piece, 1, 1}}, /*in_offset=*/begin)});
    begin += piece;
  }
  return CopyKernel(dtype, std::move(moves));
}

}  // namespace

void RegisterSplitCpu(KernelRegistry& kernels) {
  kernels.Register("Split", "CPU", CreateSplit</*kValue=*/1, /*kAxis=*/0>);
  kernels.Register("SplitV", "CPU", CreateSplit</*kValue=*/0, /*kAxis=*/2>);
}

}  // namespace mirrorflow
