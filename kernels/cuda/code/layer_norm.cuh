// SPDX-License-Identifier: Apache-2.0
//
// Layer normalisation. Several threads share a row; short rows are kept in registers.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_LAYER_NORM_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_LAYER_NORM_CUH_

#include "base.cuh"
#include "reduce.cuh"
#include "softmax.cuh"

// Combines fn(x) over all elements of a row with Op. Every thread of the row gets the result.
template <typename Op, typename Row, typename Fn>
__device__ inline typename Op::Type CombineRow(const Row& row, Fn fn) {
  typename Op::Type result = Op::Identity();
  row.ForEach([&](auto, auto x) { result = Op::Combine(result, fn(x)); });
  return Row::Threads::template Combine<Op>(result);
}

// Normalises each row, and writes its mean and its inverse standard deviation. `y` may be `x`,
// because a thread overwrites only elements that no other thread reads.
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

// Computes dx. For each column c, also computes the sums over the block's rows of dy * (normalised
// x) and of dy, and writes them to partials[blockIdx.x * kColumns + c]. Elements are read once and
// kept in registers, like the sums. If rows are very long, elements are instead read again for dx,
// and the sums are kept in `partials`. `dx` may be `dy` or `x`.
template <int64 kRows, int64 kColumns, int kAlong, int kAcross, typename T, typename V>
__device__ inline void LayerNormGrad(const T* dy, const T* x, const V* gamma, const V* means,
                                     const V* inverses, T* dx, Two<V>* partials) {
  using I = Index<kRows * kColumns>;
  using Threads = Team<kAlong, kAcross, true>;
  constexpr int kOfThread = static_cast<int>((kColumns + kAlong - 1) / kAlong);
  constexpr bool kIsKept = kOfThread * sizeof(V) <= 96;
  constexpr int kAtOnce = kIsKept ? kOfThread : 8;
  static_assert(kIsKept || kAcross == 1,
                "rows of the same block would overwrite each other's sums");
  const auto column = [](int k) { return static_cast<I>(k) * kAlong + Threads::Along(); };
  Two<V>* const of_block = partials + blockIdx.x * kColumns;

  // For each element, dy and the normalised x.
  Two<V> row[kAtOnce], sums[kAtOnce];
#pragma unroll
  for (int k = 0; k < kAtOnce; ++k) sums[k] = Sums<V>::Identity();
  for (int64 group = blockIdx.x; group * kAcross < kRows; group += gridDim.x) {
    const int64 number = group * kAcross + Threads::Across();
    const I r = static_cast<I>(number);
    const auto has = [&](int k) { return number < kRows && column(k) < kColumns; };
    const V mean = number < kRows ? means[r] : V(0), inverse = number < kRows ? inverses[r] : V(0);
    const auto load = [&](int begin) {
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        row[k] = {V(0), V(0)};
        if (!has(begin + k)) continue;
        const I i = r * kColumns + column(begin + k);
        row[k] = {Load(dy[i]), (Load(x[i]) - mean) * inverse};
      }
    };
    Two<V> of_row = Sums<V>::Identity();
    for (int begin = 0; begin < kOfThread; begin += kAtOnce) {
      load(begin);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (!has(begin + k)) continue;
        const V d = row[k].first * gamma[column(begin + k)];
        of_row = Sums<V>::Combine(of_row, {d, d * row[k].second});
        if (!kIsKept && group >= gridDim.x) sums[k] = of_block[column(begin + k)];
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        sums[k] = Sums<V>::Combine(sums[k], {row[k].first * row[k].second, row[k].first});
        if (!kIsKept && has(begin + k)) {
          of_block[column(begin + k)] = sums[k];
          sums[k] = Sums<V>::Identity();
        }
      }
    }
    of_row = Threads::template Combine<Sums<V>>(of_row);
    const V shift = of_row.first / V(kColumns), slope = of_row.second / V(kColumns);
    for (int begin = 0; begin < kOfThread; begin += kAtOnce) {
      if (!kIsKept) load(begin);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (!has(begin + k)) continue;
        const I c = column(begin + k);
        dx[r * kColumns + c] =
            Store<T>(inverse * (row[k].first * gamma[c] - shift - row[k].second * slope));
      }
    }
  }
  if constexpr (kIsKept) {
#pragma unroll
    for (int k = 0; k < kOfThread; ++k) {
      const Two<V> sum = Team<kAcross, kAlong, false>::template Combine<Sums<V>>(sums[k]);
      if (Threads::Across() == 0 && column(k) < kColumns) of_block[column(k)] = sum;
    }
  }
}

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_LAYER_NORM_CUH_
