// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of any type, in tiles that are loaded into shared memory.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_PRODUCT_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_PRODUCT_CUH_

#include "base.cuh"

namespace product {

constexpr int kTile = 16;  // rows and columns; a block has one thread per element of a tile

// A matrix whose element (i, j) is at offset i * kRowStep + j * kColumnStep, in elements.
template <int64 kRowCount, int64 kColumnCount, int64 kRowStep, int64 kColumnStep>
struct Matrix {
  static constexpr int64 kRows = kRowCount, kColumns = kColumnCount;

  // Loads the tile at (row, column), with zeros outside the matrix. Neighbouring threads read
  // adjacent elements.
  template <typename T, typename V>
  __device__ static void LoadTile(const T* data, int64 row, int64 column,
                                  V (&tile)[kTile][kTile + 1]) {
    constexpr bool kByRows = kColumnStep == 1;
    const int r = kByRows ? threadIdx.y : threadIdx.x, c = kByRows ? threadIdx.x : threadIdx.y;
    const int64 i = row + r, j = column + c;
    tile[r][c] = i < kRows && j < kColumns ? Load(data[i * kRowStep + j * kColumnStep]) : V(0);
  }
};

template <typename A, typename B>
constexpr int64 kTilesOfRow = (B::kColumns + kTile - 1) / kTile;
template <typename A, typename B>
constexpr int64 kTilesOfMatrix = (A::kRows + kTile - 1) / kTile* kTilesOfRow<A, B>;

// Returns the index of the product in the batch that this block works on.
template <typename A, typename B>
__device__ inline int64 Batch() {
  return blockIdx.x / kTilesOfMatrix<A, B>;
}

// Computes this block's tile of out = a * b. `out` is row-major and contiguous.
template <typename A, typename B, typename T>
__device__ inline void Multiply(const T* a, const T* b, T* out) {
  using V = Value<T>;
  // Padded by one column, so that the elements of a column are in different banks, just like the
  // elements of a row.
  __shared__ V left[kTile][kTile + 1], right[kTile][kTile + 1];
  const int64 tile = blockIdx.x % kTilesOfMatrix<A, B>;
  const int64 row = tile / kTilesOfRow<A, B> * kTile, column = tile % kTilesOfRow<A, B> * kTile;
  V sum = 0;
  for (int64 k = 0; k < A::kColumns; k += kTile) {
    A::LoadTile(a, row, k, left);
    B::LoadTile(b, k, column, right);
    __syncthreads();
#pragma unroll
    for (int q = 0; q < kTile; ++q) {
      sum = static_cast<V>(sum + left[threadIdx.y][q] * right[q][threadIdx.x]);
    }
    __syncthreads();
  }
  const int64 i = row + threadIdx.y, j = column + threadIdx.x;
  if (i < A::kRows && j < B::kColumns) out[i * B::kColumns + j] = Store<T>(sum);
}

}  // namespace product

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_PRODUCT_CUH_
