// SPDX-License-Identifier: Apache-2.0
//
// Index arithmetic for ops that move elements: the source of each output element, and the value of
// elements without a source.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_MOVE_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_MOVE_CUH_

#include "base.cuh"

// ---- Elements ----

template <typename T>
__device__ inline T Zero() {
  return T{};
}

// Returns the value that replaces an element if the data that selects it is invalid: NaN if T has
// one, otherwise zero.
template <typename T>
__device__ inline T Missing() {
  if constexpr (Traits<Value<T>>::kIsFloating) {
    return Store<T>(BitsToFloat(0x7fc00000));
  } else {
    return T{};
  }
}

// Calls put(i, value(i)) for all i < kN. Issues all loads before the first store, because later
// loads cannot move ahead of a store. `value` must not read what `put` writes.
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

// ---- Windows ----

// Coordinates kFirst, kFirst + kStep, … of a dimension correspond to the kCount coordinates of an
// operand. Hits() returns whether `c` is one of them.
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
// Returns the operand's coordinate for `c`. Requires Hits().
template <int64 kFirst, int64 kStep>
__device__ inline int64 Hit(int64 c) {
  if constexpr (kStep == 1) {
    return c - kFirst;
  } else {
    return (c - kFirst) / kStep;
  }
}

// ---- Mirrors ----

// Returns the index of the element at coordinate `c` of a dimension of kSize elements that is
// padded with its mirror image, with kBefore elements in front. kSkipped is 1 if the border
// elements are not repeated, otherwise 0.
template <int64 kSize, int64 kBefore, int64 kSkipped>
__device__ inline int64 Mirrored(int64 c) {
  int64 at = c - kBefore;
  if (at < 0) at = kSkipped - 1 - at;
  if (at >= kSize) at = 2 * kSize - 1 - kSkipped - at;
  return at;
}
// Returns the sum of value(c) over all coordinates `c` of such a padded dimension where element
// `at` appears.
template <int64 kSize, int64 kBefore, int64 kAfter, int64 kSkipped, typename V>
__device__ inline auto SumOfMirrored(int64 at, V value) {
  auto sum = value(kBefore + at);
  const int64 left = kBefore + kSkipped - 1 - at;
  if (left >= 0 && left < kBefore) sum += value(left);
  const int64 right = kBefore + 2 * kSize - 1 - kSkipped - at;
  if (right >= kBefore + kSize && right < kBefore + kSize + kAfter) sum += value(right);
  return sum;
}

// ---- Matrices ----

constexpr int kTile = 32;     // rows and columns
constexpr int kTileStep = 8;  // rows that a block's threads cover at once

// Sets out[c * kOutStride + r] = in[r * kInStride + c] for the rows and columns of one tile. Reads
// and writes are both coalesced.
template <int64 kRows, int64 kColumns, int64 kInStride, int64 kOutStride, typename T>
__device__ inline void TransposeTile(const T* in, T* out, uint32 tile) {
  constexpr uint32 kAcross = (kColumns + kTile - 1) / kTile;
  __shared__ T square[kTile][kTile + 1];  // padded, so that columns are in different banks
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

// Diagonals kLower to kUpper of matrices, uppermost first. Each is stored in a row as long as the
// longest diagonal. Shorter ones are aligned to the left or right (see ops/matrix_diag.h).
template <int64 kRows, int64 kColumns, int64 kLower, int64 kUpper, bool kLeftAbove, bool kLeftBelow>
struct Diagonals {
  __device__ static constexpr int64 Min(int64 a, int64 b) { return a < b ? a : b; }
  __device__ static constexpr int64 Max(int64 a, int64 b) { return a > b ? a : b; }

  static constexpr int64 kLength =
      Max(0, Min(kRows + Min(kUpper, 0), kColumns - Max(kLower, 0)));  // of the longest diagonal
  static constexpr int64 kSize = (kUpper - kLower + 1) * kLength;

  __device__ static int64 LengthOf(int64 k) {
    return Max(0, Min(kRows + Min(k, 0), kColumns - Max(k, 0)));
  }
  // Returns the padding in front of diagonal k in its row.
  __device__ static int64 GapOf(int64 k) {
    const bool left = (k >= 0 && kLeftAbove) || (k <= 0 && kLeftBelow);
    return left ? 0 : kLength - LengthOf(k);
  }

  // Returns whether element (row, column) of the matrix is on one of the diagonals.
  __device__ static bool Has(int64 row, int64 column) {
    return column - row >= kLower && column - row <= kUpper;
  }
  // Returns the index of that element among the stored diagonals.
  __device__ static int64 At(int64 row, int64 column) {
    const int64 k = column - row;
    return (kUpper - k) * kLength + GapOf(k) + Min(row, column);
  }
  // Returns the matrix index of the element at position `at` of stored row `number`, or
  // -1 for padding.
  __device__ static int64 InMatrix(int64 number, int64 at) {
    const int64 k = kUpper - number, along = at - GapOf(k);
    if (along < 0 || along >= LengthOf(k)) return -1;
    return (along - Min(k, 0)) * kColumns + along + Max(k, 0);
  }
};

// ---- Sequences ----

// Returns element `i` of a range. Integers wrap around.
template <typename V>
__device__ inline V NumberOfRange(V start, V delta, int64 i) {
  if constexpr (Traits<V>::kIsFloating) {
    return start + static_cast<V>(i) * delta;
  } else {
    return static_cast<V>(static_cast<uint64>(start) +
                          static_cast<uint64>(i) * static_cast<uint64>(delta));
  }
}
// Returns element `i` of a linear space. Both ends are exact, even if stop - start is not finite.
template <int64 kLast, typename V>
__device__ inline V NumberOfLinSpace(V start, V stop, int64 i) {
  if (i == 0) return start;
  if (i == kLast) return stop;
  return start + (stop - start) / static_cast<V>(kLast) * static_cast<V>(i);
}

// ---- Rows by index ----

// Returns the row that indices[0], indices[1], … select in a value whose first dimensions are
// kSizes. If an index is out of range, calls fail(index) and returns -1.
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

// Returns element(row), or Missing if the row does not exist.
template <typename E>
__device__ inline auto ElementOf(int64 row, E element) {
  using T = decltype(element(row));
  return row < 0 ? Missing<T>() : element(row);
}

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_MOVE_CUH_
