// SPDX-License-Identifier: Apache-2.0
//
// The largest elements of rows. Equal elements keep their order, and numbers come before NaN.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_TOP_K_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_TOP_K_CUH_

#include "base.cuh"

// Returns whether x, element i of a row, comes before y, element j.
template <typename V>
__device__ inline bool ComesBefore(V x, int i, V y, int j) {
  if (x > y || y > x) return x > y;
  const bool x_is_number = x == x, y_is_number = y == y;
  return x_is_number != y_is_number ? x_is_number : i < j;
}

// Selects the elements one by one: each is the first of those that come after its predecessor. One
// block handles a row. Efficient for small kK.
template <int kN, int kK, typename T, typename I>
__device__ inline void TopKBySelection(const T* in, T* values, I* indices) {
  constexpr int kWarps = kThreads / 32;
  __shared__ int of_warp[kWarps];
  __shared__ int chosen;
  const T* const row = in + static_cast<int64>(blockIdx.x) * kN;
  const auto first_of = [&](int i, int j) {  // -1 means none
    if (i < 0 || j < 0) return i < 0 ? j : i;
    return ComesBefore(Load(row[i]), i, Load(row[j]), j) ? i : j;
  };
  int last = -1;
  for (int k = 0; k < kK; ++k) {
    const auto last_value = Load(row[last < 0 ? 0 : last]);
    int best = -1;
    auto best_value = last_value;
    for (int i = threadIdx.x; i < kN; i += kThreads) {
      const auto value = Load(row[i]);
      if (last >= 0 && !ComesBefore(last_value, last, value, i)) continue;
      if (best >= 0 && !ComesBefore(value, i, best_value, best)) continue;
      best = i;
      best_value = value;
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      best = first_of(best, __shfl_xor_sync(0xffffffffu, best, step));
    }
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int w = 0; w < kWarps; ++w) best = first_of(best, of_warp[w]);
      chosen = best;
      const int64 at = static_cast<int64>(blockIdx.x) * kK + k;
      values[at] = row[best];
      indices[at] = best;
    }
    __syncthreads();
    last = chosen;
  }
}

// Counts how many elements come before each element; the count is its position. kBlocks blocks
// share a row.
template <int kN, int kK, int kBlocks, typename T, typename I>
__device__ inline void TopKByRank(const T* in, T* values, I* indices) {
  __shared__ Value<T> others[kThreads];
  const int64 row = blockIdx.x / kBlocks;
  const int i = static_cast<int>(blockIdx.x % kBlocks) * kThreads + threadIdx.x;
  in += row * kN;
  const Value<T> own = Load(in[i < kN ? i : 0]);
  int rank = 0;
  for (int begin = 0; begin < kN; begin += kThreads) {
    const int other = begin + threadIdx.x;
    if (other < kN) others[threadIdx.x] = Load(in[other]);
    __syncthreads();
    const int count = kN - begin < kThreads ? kN - begin : kThreads;
    for (int k = 0; k < count; ++k) rank += ComesBefore(others[k], begin + k, own, i);
    __syncthreads();
  }
  if (i >= kN || rank >= kK) return;
  values[row * kK + rank] = in[i];
  indices[row * kK + rank] = i;
}

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_TOP_K_CUH_
