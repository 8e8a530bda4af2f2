// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/moves.h"

namespace mirrorflow {
namespace {

// If several indices select the same row, the last one wins. Rows that no index selects are zero.
absl::StatusOr<KernelPlan> CreateDynamicStitch(const KernelContext& c) {
  const DataType dtype = c.output_dtype(0);
  MF_RETURN_IF_ERROR(CheckMovable(dtype));
  const int n = c.node().num_inputs() / 2;
  const int64_t size = c.output_shape(0).num_elements_from(1);
  std::vector<bool> written(c.output_shape(0).dim(0), false);
  int64_t num_written = 0;
  std::vector<CudaStage> stages;
  for (int k = n; k-- > 0;) {
    MF_ASSIGN_OR_RETURN(std::vector<int64_t> rows, c.integers(k));
    for (size_t i = rows.size(); i-- > 0;) {
      if (written[rows[i]]) {
        rows[i] = -1;
      } else {
        written[rows[i]] = true;
        ++num_written;
      }
    }
    const int64_t elements = static_cast<int64_t>(rows.size()) * size;
    stages.push_back(
        {.body = absl::StrCat(
             "  static constexpr int64 rows[] = {", absl::StrJoin(rows, ", "), "};\n  Move<",
             elements, ", ", CudaType(dtype), ">([&](auto i) { return a", n + k,
             "[i]; }, [&](auto i, auto v) {\n    const int64 row = rows[i / ", size,
             "];\n    if (row >= 0) z0[row * ", size, " + i % ", size, "] = v;\n  });"),
         .grid = ElementwiseGrid(elements)});
  }
  if (num_written < c.output_shape(0).dim(0)) {
    stages.insert(stages.begin(), IndexedStage(c, 0, ZeroText(dtype)));
  }
  return MakeCudaKernel(c, std::move(stages), {.includes = {"move.cuh"}});
}

}  // namespace

void RegisterDynamicStitchCuda(KernelRegistry& kernels) {
  kernels.Register("DynamicStitch", kGpu, CreateDynamicStitch);
}

}  // namespace mirrorflow
