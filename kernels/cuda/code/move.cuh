// SPDX-License-Identifier: Apache-2.0
//
// For ops that move elements: from which place to which, and what stands where nothing comes from.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_MOVE_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_MOVE_CUH_

#include "base.cuh"

// ---- elements
// ------------------------------------------------------------------------------------

template <typename T>
__device__ inline T Zero() {
  return T{};
}

// In place of what bad data would have chosen: a NaN where there is one.
template <typename T>
__device__ inline T Missing() {
  if constexpr (Traits<Value<T>>::kIsFloating) {
    return Store<T>(BitsToFloat(0x7fc00000));
  } else {
    return T{};
  }
}

// put(i, value(i)) for all i < kN. All loads go out before the first store, behind which none
// could: what is put is not read.
template <int64 kN, typename T, typename V, typename P>
__device__ inline void Move(V value, P put) {
  const int64 first = static_cast<int64>(blockIdx.x) * (kThreads * kPerThread) + threadIdx.x;
  T values[kPerThread];
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64 i = first + k * kThreads;
    if (i < kN) values[k] = value(static_cast<Index<kN>>(i));
  }
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64 i = first + k * kThreads;
    if (i < kN) put(static_cast<Index<kN>>(i), values[k]);
  }
}

// ---- windows
// -------------------------------------------------------------------------------------

// Of the coordinates of a dimension, kFirst, kFirst + kStep, … are the kCount ones of an operand.
// Whether `c` is one of them,
template <int64 kFirst, int64 kStep, int64 kCount>
__device__ inline bool Hits(int64 c) {
  const int64 distance = kStep > 0 ? c - kFirst : kFirst - c;
  constexpr int64 kSize = kStep > 0 ? kStep : -kStep;
  if (distance < 0 || distance > (kCount - 1) * kSize) return false;
  if constexpr (kSize == 1) {
    return true;
  } else {
    return static_cast<uint64>(distance) % kSize == 0;
  }
}
// and which one.
template <int64 kFirst, int64 kStep>
__device__ inline int64 Hit(int64 c) {
  if constexpr (kStep == 1) {
    return c - kFirst;
  } else {
    return (c - kFirst) / kStep;
  }
}

// ---- mirrors
// -------------------------------------------------------------------------------------

// A dimension of kSize that is padded with its own elements, kBefore in front. kSkipped: 1 if the
// elements at the borders are not repeated, else 0. Which element stands at `c`,
template <int64 kSize, int64 kBefore, int64 kSkipped>
__device__ inline int64 Mirrored(int64 c) {
  int64 at = c - kBefore;
  if (at < 0) at = kSkipped - 1 - at;
  if (at >= kSize) at = 2 * kSize - 1 - kSkipped - at;
  return at;
}
// and the sum of value(c) where c shows element `at`.
template <int64 kSize, int64 kBefore, int64 kAfter, int64 kSkipped, typename V>
__device__ inline auto SumOfMirrored(int64 at, V value) {
  auto sum = value(kBefore + at);
  const int64 left = kBefore + kSkipped - 1 - at;
  if (left >= 0 && left < kBefore) sum += value(left);
  const int64 right = kBefore + 2 * kSize - 1 - kSkipped - at;
  if (right >= kBefore + kSize && right < kBefore + kSize + kAfter) sum += value(right);
  return sum;
}

// ---- matrices
// ------------------------------------------------------------------------------------

constexpr int kTile = 32;     // rows and columns
constexpr int kTileStep = 8;  // rows that the threads of a block reach at once

// out[c * kOutStride + r] = in[r * kInStride + c] for the rows and columns of one tile. Reading and
// writing go along memory.
template <int64 kRows, int64 kColumns, int64 kInStride, int64 kOutStride, typename T>
__device__ inline void TransposeTile(const T* in, T* out, uint32 tile) {
  constexpr uint32 kAcross = (kColumns + kTile - 1) / kTile;
  __shared__ T square[kTile][kTile + 1];  // the one keeps columns in banks of their own
  const int64 row = static_cast<int64>(tile / kAcross) * kTile;
  const int64 column = static_cast<int64>(tile % kAcross) * kTile;
  const int x = threadIdx.x, y = threadIdx.y;
#pragma unroll
  for (int k = 0; k < kTile; k += kTileStep) {
    const int64 r = row + y + k, c = column + x;
    if (r < kRows && c < kColumns) square[y + k][x] = in[r * kInStride + c];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kTile; k += kTileStep) {
    const int64 r = row + x, c = column + y + k;
    if (r < kRows && c < kColumns) out[c * kOutStride + r] = square[x][y + k];
  }
}

// Diagonals kLower to kUpper of matrices, the uppermost first, in rows of the longest one's length;
// shorter ones stand to the left or to the right (see ops/matrix_diag.h).
template <int64 kRows, int64 kColumns, int64 kLower, int64 kUpper, bool kLeftAbove, bool kLeftBelow>
struct Diagonals {
  __device__ static constexpr int64 Min(int64 a, int64 b) { return a < b ? a : b; }
  __device__ static constexpr int64 Max(int64 a, int64 b) { return a > b ? a : b; }

  static constexpr int64 kLength =
      Max(0, Min(kRows + Min(kUpper, 0), kColumns - Max(kLower, 0)));  // of the longest
  static constexpr int64 kSize = (kUpper - kLower + 1) * kLength;

  __device__ static int64 LengthOf(int64 k) {
    return Max(0, Min(kRows + Min(k, 0), kColumns - Max(k, 0)));
  }
  // What is in front of diagonal k in its row.
  __device__ static int64 GapOf(int64 k) {
    const bool left = (k >= 0 && kLeftAbove) || (k <= 0 && kLeftBelow);
    return left ? 0 : kLength - LengthOf(k);
  }

  // Whether there is an element for that of the matrix,
  __device__ static bool Has(int64 row, int64 column) {
    return column - row >= kLower && column - row <= kUpper;
  }
  // and where.
  __device__ static int64 At(int64 row, int64 column) {
    const int64 k = column - row;
    return (kUpper - k) * kLength + GapOf(k) + Min(row, column);
  }
  // Where the element of the matrix is that belongs to place `at` of row `number`; -1: padding.
  __device__ static int64 InMatrix(int64 number, int64 at) {
    const int64 k = kUpper - number, along = at - GapOf(k);
    if (along < 0 || along >= LengthOf(k)) return -1;
    return (along - Min(k, 0)) * kColumns + along + Max(k, 0);
  }
};

// ---- sequences
// -----------------------------------------------------------------------------------

// Integers wrap around.
template <typename V>
__device__ inline V NumberOfRange(V start, V delta, int64 i) {
  if constexpr (Traits<V>::kIsFloating) {
    return start + static_cast<V>(i) * delta;
  } else {
    return static_cast<V>(static_cast<uint64>(start) +
                          static_cast<uint64>(i) * static_cast<uint64>(delta));
  }
}
// Both ends exactly, also where their distance is not finite.
template <int64 kLast, typename V>
__device__ inline V NumberOfLinSpace(V start, V stop, int64 i) {
  if (i == 0) return start;
  if (i == kLast) return stop;
  return start + (stop - start) / static_cast<V>(kLast) * static_cast<V>(i);
}

// ---- numbers of rows
// -----------------------------------------------------------------------------

// The row that indices[0], indices[1], … name in a value whose first dimensions are kSizes; -1, and
// fail(index), if one of them is out of range.
template <int64... kSizes, typename I, typename F>
__device__ inline int64 RowAt(const I* indices, F fail) {
  int64 row = 0, bad = 0;
  bool inside = true;
  const auto next = [&](int64 size) {
    const int64 index = static_cast<int64>(*indices++);
    if (inside && (index < 0 || index >= size)) {
      inside = false;
      bad = index;
    }
    row = row * size + index;
  };
  (next(kSizes), ...);
  if (inside) return row;
  fail(bad);
  return -1;
}

// element(row), if there is such a row.
template <typename E>
__device__ inline auto ElementOf(int64 row, E element) {
  using T = decltype(element(row));
  return row < 0 ? Missing<T>() : element(row);
}

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_MOVE_CUH_
