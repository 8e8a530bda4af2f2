// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_EINSUM_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_EINSUM_CUH_

#include "base.cuh"

namespace einsum {

// Returns the sum of term(s) for all s < kTerms.
template <typename V, int64 kTerms, typename Term>
__device__ inline V Sum(Term term) {
  V sum = 0;
  for (int64 s = 0; s < kTerms; ++s) sum += term(static_cast<Index<kTerms>>(s));
  return sum;
}

}  // namespace einsum

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_EINSUM_CUH_
