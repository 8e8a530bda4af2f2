// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateTranspose(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> perm, c.integers(1));
  const std::vector<int64_t> in_strides = c.input_shape(0).Strides();
  const std::vector<int64_t> out_strides = c.output_shape(0).Strides();
  std::vector<StridedCopy::Dim> dims;
  for (int d = 0; d < c.output_shape(0).rank(); ++d) {
    dims.push_back({c.output_shape(0).dim(d), in_strides[perm[d]], out_strides[d]});
  }
  return CopyKernel(c.output_dtype(0), {{0, 0, StridedCopy(c.output_dtype(0), dims)}});
}

template <typename T>
KernelPlan InvertKernel(int64_t n) {
  return {.kernel = MakeKernel([n](const KernelArgs& args, Lane&) -> absl::Status {
            const T* x = args.input<T>(0);
            T* y = args.output<T>(0);
            std::fill_n(y, n, T{-1});
            for (int64_t i = 0; i < n; ++i) {
              if (x[i] < 0 || x[i] >= n || y[x[i]] != -1) {
                return absl::InvalidArgumentError(
                    absl::StrCat("x must be a permutation of 0 to ", n - 1, ", got x[", i,
                                 "] = ", x[i], x[i] < 0 || x[i] >= n ? "" : " a second time"));
              }
              y[x[i]] = static_cast<T>(i);
            }
            return absl::OkStatus();
          }),
          .fails_on_data = true};
}

absl::StatusOr<KernelPlan> CreateInvertPermutation(const KernelContext& c) {
  const int64_t n = c.input_shape(0).num_elements();
  return c.output_dtype(0) == DT_INT64 ? InvertKernel<int64_t>(n) : InvertKernel<int32_t>(n);
}

}  // namespace

void RegisterTransposeCpu(KernelRegistry& kernels) {
  kernels.Register("Transpose", "CPU", CreateTranspose);
  kernels.Register("InvertPermutation", "CPU", CreateInvertPermutation);
}

}  // namespace mirrorflow
