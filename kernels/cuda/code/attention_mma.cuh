// SPDX-License-Identifier: Apache-2.0
//
// attention.cuh for 16-bit floats, with products on tensor cores. Weights are rounded to 16 bits
// for the products; sums and exponentials are computed in float.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_ATTENTION_MMA_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_ATTENTION_MMA_CUH_

#include "attention.cuh"
#include "mma.cuh"

namespace attention {

// Combines the values of the four neighbouring threads that share a row; each of them gets the
// result. A tile has 16 rows for each warp of the block.
template <typename Op>
__device__ inline typename Op::Type CombineThreadsOfRow(typename Op::Type value) {
  value = Op::Combine(value, ShuffleXor(value, 1));
  return Op::Combine(value, ShuffleXor(value, 2));
}

template <typename P, typename T, typename Mask>
__device__ inline void ForwardOnTensorCores(const T* q, const T* k, const T* v, T* y,
                                            float* log_sums, float scale, Mask mask) {
  constexpr int kTile = P::kTile;
  __shared__ mma::Tile<T, kTile, P::kDepth> keys;
  __shared__ mma::Tile<T, kTile, P::kValueDepth> values;
  const int64 head = blockIdx.x / P::kQueryTiles, first = blockIdx.x % P::kQueryTiles * kTile;
  const int64 first_query = first + mma::Warp() * mma::kWarpRows,
              end = P::template EndOfOther<false>(first);
  const float nothing = Traits<float>::Lowest();
  keys.Fill(q + head * P::kQueries * P::kDepth, first, P::kQueries);
  __syncthreads();
  const mma::Rows<T, P::kDepth> queries(keys, mma::Warp() * mma::kWarpRows);
  mma::Sums<P::kValueDepth> sums;
  float largest[2] = {nothing, nothing}, pivot[2] = {}, sum[2] = {};
  for (int64 begin = 0; begin < end; begin += kTile) {
    __syncthreads();
    keys.Fill(k + head * P::kKeys * P::kDepth, begin, P::kKeys);
    values.Fill(v + head * P::kKeys * P::kValueDepth, begin, P::kKeys);
    __syncthreads();
    float weights[kTile / 8][4] = {};
#pragma unroll
    for (int n = 0; n < kTile / 8; n += 2) queries.DotRows(keys, 8 * n, weights[n], weights[n + 1]);
    const float before[2] = {largest[0], largest[1]};
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64 query = first_query + mma::RowOf(e), key = begin + 8 * n + mma::ColumnOf(e);
        float& score = weights[n][e];
        score = P::Sees(query, key)
                    ? score * scale + mask((head * P::kQueries + query) * P::kKeys + key)
                    : nothing;
        largest[e / 2] = op::Maximum(score, largest[e / 2]);
      }
    }
    float more[2] = {}, shrink[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      largest[h] = CombineThreadsOfRow<Largest<float>>(largest[h]);
      pivot[h] = largest[h] == nothing ? 0.0f : largest[h];
      shrink[h] = exp(before[h] - pivot[h]);
    }
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        weights[n][e] = exp(weights[n][e] - pivot[e / 2]);
        more[e / 2] += weights[n][e];
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sum[h] = sum[h] * shrink[h] + CombineThreadsOfRow<Sum<float>>(more[h]);
    }
    sums.Scale(shrink);
#pragma unroll
    for (int n = 0; n < kTile / 8; n += 2) {
      sums.AddProduct(weights[n], weights[n + 1], values, 8 * n);
    }
  }
  const float factors[2] = {1 / sum[0], 1 / sum[1]};
  if (P::kKeys > 0) sums.Scale(factors);
  sums.Write(y + head * P::kQueries * P::kValueDepth, first_query, P::kQueries);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64 query = first_query + mma::RowOf(2 * h);
    if (mma::ColumnOf(0) != 0 || query >= P::kQueries) continue;
    const bool blind = P::kKeys > 0 && sum[h] == 0;
    log_sums[head * P::kQueries + query] = blind ? BitsToFloat(0x7fc00000) : pivot[h] + log(sum[h]);
  }
}

template <typename P, bool kOfKeys, int kColumns, int kColumns2, typename T, typename Mask>
__device__ inline void BackwardOnTensorCores(const T* own, const T* own2, const T* other,
                                             const T* other2, const float* log_sums,
                                             const float* products, T* result, T* result2,
                                             float scale, Mask mask) {
  constexpr int kTile = P::kTile;
  constexpr int64 kOwn = kOfKeys ? P::kKeys : P::kQueries;
  constexpr int64 kOther = kOfKeys ? P::kQueries : P::kKeys;
  constexpr int64 kTiles = kOfKeys ? P::kKeyTiles : P::kQueryTiles;
  __shared__ mma::Tile<T, kTile, kColumns> rows;
  __shared__ mma::Tile<T, kTile, kColumns2> rows2;
  const int64 head = blockIdx.x / kTiles, first = blockIdx.x % kTiles * kTile;
  const int warp_row = mma::Warp() * mma::kWarpRows;
  rows.Fill(own + head * kOwn * kColumns, first, kOwn);
  rows2.Fill(own2 + head * kOwn * kColumns2, first, kOwn);
  __syncthreads();
  const mma::Rows<T, kColumns> own_rows(rows, warp_row);
  const mma::Rows<T, kColumns2> own_rows2(rows2, warp_row);
  mma::Sums<kColumns> sums;
  mma::Sums<kOfKeys ? kColumns2 : 16> sums2;
  const int64 end = P::template EndOfOther<kOfKeys>(first);
  for (int64 at = P::template BeginOfOther<kOfKeys>(first); at < end; at += kTile) {
    __syncthreads();
    rows.Fill(other + head * kOther * kColumns, at, kOther);
    rows2.Fill(other2 + head * kOther * kColumns2, at, kOther);
    __syncthreads();
    for (int part = 0; part < kTile; part += 16) {
      float weights[2][4] = {}, slopes[2][4] = {};
      own_rows.DotRows(rows, part, weights[0], weights[1]);
      own_rows2.DotRows(rows2, part, slopes[0], slopes[1]);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int64 own_index = first + warp_row + mma::RowOf(e),
                      other_index = at + part + 8 * n + mma::ColumnOf(e);
          const int64 query = kOfKeys ? other_index : own_index,
                      key = kOfKeys ? own_index : other_index;
          float &weight = weights[n][e], &slope = slopes[n][e];
          if (P::Sees(query, key)) {
            const int64 i = head * P::kQueries + query;
            weight = exp(weight * scale + mask(i * P::kKeys + key) - log_sums[i]);
            slope = weight * (slope - products[i]) * scale;
          } else {
            weight = slope = 0;
          }
        }
      }
      sums.AddProduct(slopes[0], slopes[1], rows, part);
      if constexpr (kOfKeys) sums2.AddProduct(weights[0], weights[1], rows2, part);
    }
  }
  sums.Write(result + head * kOwn * kColumns, first + warp_row, kOwn);
  if constexpr (kOfKeys) sums2.Write(result2 + head * kOwn * kColumns2, first + warp_row, kOwn);
}

}  // namespace attention

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_ATTENTION_MMA_CUH_
