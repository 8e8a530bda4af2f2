// SPDX-License-Identifier: Apache-2.0
//
// Matrix products on tensor cores, computed by whole warps, for 16-bit floats and for floats that
// are rounded to TensorFloat-32. A warp holds 16 rows of the left operand and of the sums, which
// are floats. The PTX ISA, "Matrix Fragments for mma.m16n8k16" and "for mma.m16n8k8", defines which
// thread holds which elements: with lane = 4 * g + t, thread (g, t) holds columns 2t and 2t+1 of
// rows g and g+8. For floats, it holds columns t and t+4 of the left operand.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_MMA_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_MMA_CUH_

#include "async_copy.cuh"
#include "base.cuh"

namespace mma {

constexpr int kWarpRows = 16;

__device__ inline int Warp() { return threadIdx.x / 32; }
// Return the position of the thread's sum with index `e`, from 0 to 3: the row within the warp's
// rows, and the column within a block of 8 columns.
__device__ inline int RowOf(int e) { return threadIdx.x % 32 / 4 + e / 2 * 8; }
__device__ inline int ColumnOf(int e) { return threadIdx.x % 4 * 2 + e % 2; }

// How many columns of the left operand one product uses.
template <typename T>
constexpr int kStep = 32 / sizeof(T);

// Rounds the number with the given bits to 10 bits of fraction, to nearest, ties away from zero.
__device__ inline uint32 RoundToTf32(uint32 bits) {
#ifdef __CUDA_ARCH__
  asm("cvt.rna.tf32.f32 %0, %0;" : "+r"(bits));
  return bits;
#else
  const float number = BitsToFloat(bits);
  return number - number == 0 ? (bits + 0x1000u) & ~0x1fffu : bits;
#endif
}

// Computes sums += a * b, where a is [16, kStep] and b is [kStep, 8].
template <typename T>
__device__ inline void MultiplyAdd(const uint32 (&a)[4], uint32 b0, uint32 b1, float (&sums)[4]) {
#ifdef __CUDA_ARCH__
#define MF_MMA(shape, type)                                                 \
  asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type      \
               ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]) \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
  if constexpr (Same<T, half>::kValue) {
    MF_MMA("m16n8k16", "f16");
  } else if constexpr (Same<T, bfloat16>::kValue) {
    MF_MMA("m16n8k16", "bf16");
  } else {
    MF_MMA("m16n8k8", "tf32");
  }
#undef MF_MMA
#else
  if constexpr (Same<T, float>::kValue) {
    // Tensor cores ignore the cleared bits.
    MfMultiplyAdd<uint32>(a, b0, b1, sums,
                          [](uint32 bits) { return BitsToFloat(bits & ~0x1fffu); });
  } else {
    MfMultiplyAdd<unsigned short>(a, b0, b1, sums,
                                  [](unsigned short bits) { return Load(T{bits}); });
  }
#endif
}

// Packs two floats, rounded to T, in memory order.
template <typename T>
__device__ inline uint32 Pack(float first, float second) {
#ifdef __CUDA_ARCH__
  uint32 numbers;
  if constexpr (Same<T, half>::kValue) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(numbers) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(numbers) : "f"(second), "f"(first));
  }
  return numbers;
#else
  return Store<T>(first).bits | static_cast<uint32>(Store<T>(second).bits) << 16;
#endif
}

// Rows in shared memory, each padded by 16 bytes so that eight consecutive rows are in different
// banks. Rows in global memory have a size that is a multiple of 32 bytes, and are aligned to 16
// bytes.
template <typename T, int kRows, int kColumns>
struct Tile {
  static constexpr int kPerLoad = 16 / sizeof(T), kLoads = kColumns / kPerLoad;

  struct alignas(16) Numbers {
    T of[kPerLoad];
  };
  Numbers rows[kRows][kLoads + 1];

  // Starts to copy kCopied rows of `from`, beginning with row `first` (a multiple of kCopied), to
  // this tile, beginning with row `row`. `from` has `count` rows, which begin kSpread rows apart;
  // rows beyond the last are filled with zeros. All kThreads threads of the block share the work.
  template <int kCopied, int kThreads, int kSpread>
  __device__ void StartFill(int row, const T* from, int64 first, int64 count) {
    const int left = count - first < kCopied ? static_cast<int>(count - first) : kCopied;
    const auto exists = [&](int r) { return count % kCopied == 0 || r < left; };
    from += first * (kSpread * kColumns);
#pragma unroll
    for (int at = 0; at < kCopied * kLoads; at += kThreads) {
      const int i = at + threadIdx.x, r = i / kLoads, c = i % kLoads;
      if (kCopied * kLoads % kThreads != 0 && i >= kCopied * kLoads) break;
      StartCopy<sizeof(Numbers)>(&rows[row + r][c], from + r * (kSpread * kColumns) + c * kPerLoad,
                                 exists(r));
    }
  }

  // Writes the warp's 16 rows of this tile, beginning with row `row`, to `to`, beginning with row
  // `first`. `to` has `count` rows, which begin kSpread rows apart; rows beyond the last are not
  // written.
  template <int kSpread>
  __device__ void Write(int row, T* to, int64 first, int64 count) const {
    to += first * (kSpread * kColumns);
#pragma unroll
    for (int at = 0; at < kWarpRows * kLoads; at += 32) {
      const int i = at + threadIdx.x % 32, r = i / kLoads, c = i % kLoads;
      if (first + r >= count) continue;
      *reinterpret_cast<Numbers*>(to + r * (kSpread * kColumns) + c * kPerLoad) = rows[row + r][c];
    }
  }

  __device__ T* At(int row, int column) {
    return &rows[row][column / kPerLoad].of[column % kPerLoad];
  }
  __device__ const T* At(int row, int column) const {
    return &rows[row][column / kPerLoad].of[column % kPerLoad];
  }

  // Loads the four quarters of the [16, kStep] block at a row and a column: the left quarters first
  // with kLeftFirst, otherwise the upper ones. With kTransposed, a thread gets two numbers of a
  // column instead of two of a row. Rounds floats to TensorFloat-32.
  template <bool kLeftFirst, bool kTransposed>
  __device__ void LoadQuarters(int row, int column, uint32 (&quarters)[4]) const {
    const int lane = threadIdx.x % 32, quarter = lane / 8;
    const int right = kLeftFirst ? quarter / 2 : quarter % 2;
    const int below = kLeftFirst ? quarter % 2 : quarter / 2;
    const Numbers* const at = &rows[row + below * 8 + lane % 8][column / kPerLoad + right];
#ifdef __CUDA_ARCH__
    const uint32 address = static_cast<uint32>(__cvta_generic_to_shared(at));
#define MF_LDMATRIX(how)                                                                    \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4" how ".shared.b16 {%0,%1,%2,%3}, [%4];"       \
               : "=r"(quarters[0]), "=r"(quarters[1]), "=r"(quarters[2]), "=r"(quarters[3]) \
               : "r"(address)                                                               \
               : "memory")
    if constexpr (kTransposed) {
      MF_LDMATRIX(".trans");
    } else {
      MF_LDMATRIX("");
    }
#undef MF_LDMATRIX
#else
    MfLoadMatrices(at, kTransposed, quarters);
#endif
    if constexpr (Same<T, float>::kValue) {
      static_assert(!kTransposed);  // ldmatrix transposes only 16-bit elements
#pragma unroll
      for (int i = 0; i < 4; ++i) quarters[i] = RoundToTf32(quarters[i]);
    }
  }
};

// The size of a tile row in bytes.
template <typename T, int kColumns>
constexpr int kRowBytes = sizeof(Tile<T, 1, kColumns>);

// A warp's 16 rows, used as the left operand of products.
template <typename T, int kColumns>
class Rows {
 public:
  template <int kRows>
  __device__ Rows(const Tile<T, kRows, kColumns>& tile, int row) {
#pragma unroll
    for (int c = 0; c < kColumns / kStep<T>; ++c) {
      tile.template LoadQuarters<true, false>(row, kStep<T> * c, numbers_[c]);
    }
  }
  // Computes [left, right] += A * Bᵀ, where A is these rows and B is the 16 rows of the tile that
  // begin with row `row`.
  template <int kRows>
  __device__ void DotRows(const Tile<T, kRows, kColumns>& tile, int row, float (&left)[4],
                          float (&right)[4]) const {
#pragma unroll
    for (int c = 0; c < kColumns / kStep<T>; ++c) {
      uint32 b[4];
      tile.template LoadQuarters<false, false>(row, kStep<T> * c, b);
      MultiplyAdd<T>(numbers_[c], b[0], b[1], left);
      MultiplyAdd<T>(numbers_[c], b[2], b[3], right);
    }
  }

 private:
  uint32 numbers_[kColumns / kStep<T>][4];
};

// Adjacent numbers that are stored at once.
struct alignas(8) TwoFloats {
  float first, second;
};

// A warp's 16 rows of sums.
template <int kColumns>
class Sums {
 public:
  __device__ void Scale(const float (&by_row)[2]) {
#pragma unroll
    for (int c = 0; c < kColumns / 8; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums_[c][e] *= by_row[e / 2];
    }
  }
  // Adds the product of [16, 16] weights, rounded to T, and the 16 rows of the tile that begin with
  // row `row`.
  template <typename T, int kRows>
  __device__ void AddProduct(const float (&left)[4], const float (&right)[4],
                             const Tile<T, kRows, kColumns>& tile, int row) {
    if constexpr (Same<T, float>::kValue) {
      AddHalf(left, tile, row);
      AddHalf(right, tile, row + 8);
    } else {
      const uint32 a[4] = {Pack<T>(left[0], left[1]), Pack<T>(left[2], left[3]),
                           Pack<T>(right[0], right[1]), Pack<T>(right[2], right[3])};
#pragma unroll
      for (int c = 0; c < kColumns / 16; ++c) {
        uint32 b[4];
        tile.template LoadQuarters<true, true>(row, 16 * c, b);
        MultiplyAdd<T>(a, b[0], b[1], sums_[2 * c]);
        MultiplyAdd<T>(a, b[2], b[3], sums_[2 * c + 1]);
      }
    }
  }
  // Writes the sums to `to`, which has `count` rows that begin kSpread rows apart. The warp's first
  // row is row `first` of `to`. The sums pass through 16 rows of the tile, beginning with row
  // `row`, which only this warp uses.
  template <int kSpread, typename T, int kRows>
  __device__ void Write(Tile<T, kRows, kColumns>& tile, int row, T* to, int64 first,
                        int64 count) const {
#pragma unroll
    for (int c = 0; c < kColumns / 8; ++c) {
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        T* const two = tile.At(row + RowOf(e), 8 * c + ColumnOf(e));
        if constexpr (Same<T, float>::kValue) {
          *reinterpret_cast<TwoFloats*>(two) = {sums_[c][e], sums_[c][e + 1]};
        } else {
          *reinterpret_cast<uint32*>(two) = Pack<T>(sums_[c][e], sums_[c][e + 1]);
        }
      }
    }
    __syncwarp();
    tile.template Write<kSpread>(row, to, first, count);
  }

 private:
  // Adds the product of [16, 8] weights and the 8 rows of the tile that begin with row `row`. A
  // thread holds columns 2t and 2t+1 of the weights instead of t and t+4, so the products use the
  // tile's rows in the same order.
  template <int kRows>
  __device__ void AddHalf(const float (&weights)[4], const Tile<float, kRows, kColumns>& tile,
                          int row) {
    const uint32 a[4] = {RoundToTf32(FloatToBits(weights[0])), RoundToTf32(FloatToBits(weights[2])),
                         RoundToTf32(FloatToBits(weights[1])),
                         RoundToTf32(FloatToBits(weights[3]))};
#pragma unroll
    for (int c = 0; c < kColumns / 8; ++c) {
      uint32 b[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        b[j] = RoundToTf32(FloatToBits(*tile.At(row + ColumnOf(j), 8 * c + RowOf(0))));
      }
      MultiplyAdd<float>(a, b[0], b[1], sums_[c]);
    }
  }

  float sums_[kColumns / 8][4] = {};
};

}  // namespace mma

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_MMA_CUH_
