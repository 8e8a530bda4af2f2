// SPDX-License-Identifier: Apache-2.0
//
// Prefix scans: each element of a column becomes the combination of itself and all
// elements before it.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_SCAN_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_SCAN_CUH_

#include "base.cuh"
#include "reduce.cuh"

// Returns the combined values of the threads along a column that precede this one. Sets `*all` to
// the combination of all threads along the column. Every thread of the block must call this
// function.
template <typename Op, int kAlong, int kAcross, bool kAlongFirst, typename A>
__device__ inline A CombineBefore(A value, A* all) {
  using Threads = Team<kAlong, kAcross, kAlongFirst>;
  __shared__ A slots[kAlong * kAcross];
  const int along = Threads::Along(), at = along * kAcross + Threads::Across();
  slots[at] = value;
  __syncthreads();
#pragma unroll
  for (int step = 1; step < kAlong; step *= 2) {
    const A before = along >= step ? slots[at - step * kAcross] : Op::Identity();
    __syncthreads();
    value = Op::Combine(before, value);
    slots[at] = value;
    __syncthreads();
  }
  *all = slots[(kAlong - 1) * kAcross + Threads::Across()];
  const A before = along > 0 ? slots[at - kAcross] : Op::Identity();
  __syncthreads();  // all threads finish reading before the next call writes
  return before;
}

// Scans the columns of an input [outer, kRows, kWidth]; the elements of a column differ only in the
// second coordinate. All blocks with the same blockIdx.y scan the same kChunk rows.
// partials[p * kColumns + column] is the combination of the rows in part p of a column; it is not
// read for the last part.
template <typename Op, int64 kColumns, int64 kRows, int64 kWidth, int kAlong, int kAcross,
          bool kAlongFirst, int64 kChunk, bool kExclusive, bool kReverse, typename T>
__device__ inline void Scan(const T* in, T* out, const typename Op::Type* partials) {
  using Threads = Team<kAlong, kAcross, kAlongFirst>;
  using A = typename Op::Type;
  using I = Index<kColumns * kRows>;
  constexpr int kOfThread = 4;
  const int64 number = static_cast<int64>(blockIdx.x) * kAcross + Threads::Across();
  const bool exists = number < kColumns;
  const I column = static_cast<I>(number);
  const I corner = column / static_cast<I>(kWidth) * static_cast<I>(kRows * kWidth) +
                   column % static_cast<I>(kWidth);
  const auto at = [&](int64 row) {
    return corner + static_cast<I>(kReverse ? kRows - 1 - row : row) * static_cast<I>(kWidth);
  };
  const int64 begin = blockIdx.y * kChunk;
  const int64 end = begin + kChunk < kRows ? begin + kChunk : kRows;

  A carry = Op::Identity();
  if constexpr (kChunk < kRows) {
    if (exists) {
      carry = CombineElements<Op, kAlong>(
          static_cast<int64>(Threads::Along()), static_cast<int64>(blockIdx.y),
          [&](int64 part) { return partials[part * kColumns + column]; });
    }
    carry = Threads::template Combine<Op>(carry);
    if constexpr (!kAlongFirst) {
      __shared__ A carries[kAcross];
      if (Threads::Along() == 0) carries[Threads::Across()] = carry;
      __syncthreads();
      carry = carries[Threads::Across()];
    }
  }
  for (int64 first = begin; first < end; first += kAlong * kOfThread) {
    const int64 row = first + Threads::Along() * kOfThread;
    A values[kOfThread];
    A together = Op::Identity(), all;
#pragma unroll
    for (int k = 0; k < kOfThread; ++k) {
      values[k] = exists && row + k < end ? A(Load(in[at(row + k)])) : Op::Identity();
    }
#pragma unroll
    for (int k = 0; k < kOfThread; ++k) together = Op::Combine(together, values[k]);
    A so_far = Op::Combine(carry, CombineBefore<Op, kAlong, kAcross, kAlongFirst>(together, &all));
#pragma unroll
    for (int k = 0; k < kOfThread; ++k) {
      const A with = Op::Combine(so_far, values[k]);
      if (exists && row + k < end) out[at(row + k)] = Store<T>(kExclusive ? so_far : with);
      so_far = with;
    }
    carry = Op::Combine(carry, all);
  }
}

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_SCAN_CUH_
