// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <utility>
#include <vector>

#include "framework/core/status.h"
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

// Copies each row with a separate move. If several indices are equal, the last one wins.
absl::StatusOr<KernelPlan> CreateDynamicStitch(const KernelContext& c) {
  const int n = c.node().num_inputs() / 2;
  const DataType dtype = c.output_dtype(0);
  const int64_t num_rows = c.output_shape(0).dim(0);
  const int64_t row = c.output_shape(0).num_elements_from(1);
  struct Source {
    int input;
    int64_t row;
  };
  std::map<int64_t, Source> sources;  // keyed by output row
  for (int k = 0; k < n; ++k) {
    MF_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, c.integers(k));
    for (size_t i = 0; i < indices.size(); ++i) {
      sources[indices[i]] = {n + k, static_cast<int64_t>(i)};
    }
  }
  std::vector<Move> moves;
  for (const auto& [r, source] : sources) {
    moves.push_back(
        {source.input, 0, StridedCopy(dtype, {{row, 1, 1}}, source.row * row, r * row)});
  }
  const bool all_written = static_cast<int64_t>(moves.size()) == num_rows;
  return CopyKernel(dtype, std::move(moves), all_written ? 0 : BytesOf(dtype, c.output_shape(0)));
}

}  // namespace

void RegisterDynamicStitchCpu(KernelRegistry& kernels) {
  kernels.Register("DynamicStitch", "CPU", CreateDynamicStitch);
}

}  // namespace mirrorflow
