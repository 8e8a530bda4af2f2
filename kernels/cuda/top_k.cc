// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/device/cuda_device.h"

namespace mirrorflow {
namespace {

// Returns whether to use selection instead of ranking. Selection reads a row k times in one block;
// ranking compares all elements of a row with each other, in many blocks.
bool Selects(int64_t rows, int64_t n, int64_t k) {
  constexpr int64_t kSmallK = 8, kThreads = 256, kProcessors = 128;
  return k <= kSmallK || k * kThreads < n * std::min(rows, kProcessors);
}

absl::StatusOr<KernelPlan> CreateTopK(const KernelContext& c) {
  const Shape& in = c.input_shape(0);
  const int last = in.rank() - 1;
  const int64_t rows = in.num_elements_before(last), n = in.dim(last),
                k = c.output_shape(0).dim(last);
  const bool selects = Selects(rows, n, k);
  const int64_t blocks_of_row = selects ? 1 : DivideUp(n, 256);
  const int64_t blocks = k == 0 ? 0 : rows * blocks_of_row;
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();
  if (n >= kLimit - 256 || blocks > kLimit) {
    return absl::UnimplementedError(
        absl::StrCat("too many elements for 32-bit indices in shape ", in.ToString()));
  }
  const std::string sizes = absl::StrCat("<", n, ", ", k);
  const std::string body =
      selects ? absl::StrCat("  TopKBySelection", sizes, ">(a0, z0, z1);")
              : absl::StrCat("  TopKByRank", sizes, ", ", blocks_of_row, ">(a0, z0, z1);");
  return MakeCudaKernel(c, {{.body = body, .grid = {.x = static_cast<unsigned int>(blocks)}}},
                        {.includes = {"top_k.cuh"}});
}

}  // namespace

void RegisterTopKCuda(KernelRegistry& kernels) { kernels.Register("TopKV2", kGpu, CreateTopK); }

}  // namespace mirrorflow
