// SPDX-License-Identifier: Apache-2.0
//
// Layer normalisation. Threads share a row; short rows are kept in registers.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_LAYER_NORM_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_LAYER_NORM_CUH_

#include "base.cuh"
#include "reduce.cuh"
#include "softmax.cuh"

// Combines fn(x) of all elements of a row by Op. Every thread of the row gets the result.
template <typename Op, typename Row, typename Fn>
__device__ inline typename Op::Type CombineRow(const Row& row, Fn fn) {
  typename Op::Type result = Op::Identity();
  row.ForEach([&](auto, auto x) { result = Op::Combine(result, fn(x)); });
  return Row::Threads::template Combine<Op>(result);
}

// `y` may be `x`: a thread overwrites only elements that it alone has read.
template <int64 kRows, int64 kColumns, int kAlong, int kAcross, typename T, typename V>
__device__ inline void LayerNorm(const T* x, const V* gamma, const V* beta, T* y, V* means,
                                 V* inverses, V epsilon) {
  const auto at = [&](auto r, auto c) -> V { return Load(x[r * kColumns + c]); };
  WithRow<kRows, kColumns, kAlong, kAcross, V>(at, [&](auto r, bool exists, const auto& row) {
    constexpr V kCount = static_cast<V>(kColumns);
    const V mean = CombineRow<Sum<V>>(row, [](V v) { return v; }) / kCount;
    const V squares = CombineRow<Sum<V>>(row, [&](V v) { return (v - mean) * (v - mean); });
    const V inverse = V(1) / sqrt(squares / kCount + epsilon);
    row.ForEach([&](auto c, V v) {
      y[r * kColumns + c] = Store<T>((v - mean) * inverse * gamma[c] + beta[c]);
    });
    if (exists && Team<kAlong, kAcross, true>::Along() == 0) {
      means[r] = mean;
      inverses[r] = inverse;
    }
  });
}

template <int64 kRows, int64 kColumns, int kAlong, int kAcross, typename T, typename V>
__device__ inline void LayerNormGrad(const T* dy, const T* x, const V* gamma, const V* means,
                                     const V* inverses, T* dx) {
  // For each element: the gradient of its normalised value, and that value.
  const auto at = [&](auto r, auto c) -> Two<V> {
    const auto i = r * kColumns + c;
    return {Load(dy[i]) * gamma[c], (Load(x[i]) - means[r]) * inverses[r]};
  };
  WithRow<kRows, kColumns, kAlong, kAcross, Two<V>>(at, [&](auto r, bool exists, const auto& row) {
    constexpr V kCount = static_cast<V>(kColumns);
    const Two<V> sums = CombineRow<Sums<V>>(row, [](Two<V> v) -> Two<V> {
      return {v.first, v.first * v.second};
    });
    const V shift = sums.first / kCount, slope = sums.second / kCount;
    const V inverse = exists ? inverses[r] : V(0);
    row.ForEach([&](auto c, Two<V> v) {
      dx[r * kColumns + c] = Store<T>(inverse * (v.first - shift - v.second * slope));
    });
  });
}

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_LAYER_NORM_CUH_
