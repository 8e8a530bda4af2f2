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
  const Scores<float, Mask> scores(scale, mask);
  // Each thread adds the weights of its columns; the four sums of a row are added at the end.
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
    const auto weigh = [&](auto sees) {
#pragma unroll
      for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int column = 8 * n + mma::ColumnOf(e);
          const int64 query = first_query + mma::RowOf(e);
          float& score = weights[n][e];
          score =
              sees(e / 2, column)
                  ? scores.Early(score, (head * P::kQueries + query) * P::kKeys + begin + column)
                  : nothing;
          largest[e / 2] = Larger(score, largest[e / 2]);
        }
      }
    };
    if (P::template SeesAll<false>(first_query, mma::kWarpRows, begin, kTile)) {
      weigh([](int, int) { return true; });
    } else {
      const Range seen[2] = {P::template Seen<false>(first_query + mma::RowOf(0), begin),
                             P::template Seen<false>(first_query + mma::RowOf(2), begin)};
      weigh([&](int h, int column) { return seen[h].Has(column); });
    }
    float shrink[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      largest[h] = CombineThreadsOfRow<Largest<float>>(largest[h]);
      pivot[h] = largest[h] == nothing ? 0.0f : largest[h] * scores.Delayed();
      shrink[h] = Base<float>::Power(before[h] * scores.Delayed() - pivot[h]);
      sum[h] *= shrink[h];
    }
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        weights[n][e] = Base<float>::Power(weights[n][e] * scores.Delayed() - pivot[e / 2]);
        sum[e / 2] += weights[n][e];
      }
    }
    sums.Scale(shrink);
#pragma unroll
    for (int n = 0; n < kTile / 8; n += 2) {
      sums.AddProduct(weights[n], weights[n + 1], values, 8 * n);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) sum[h] = CombineThreadsOfRow<Sum<float>>(sum[h]);
  const float factors[2] = {1 / sum[0], 1 / sum[1]};
  if (P::kKeys > 0) sums.Scale(factors);
  sums.Write(y + head * P::kQueries * P::kValueDepth, first_query, P::kQueries);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64 query = first_query + mma::RowOf(2 * h);
    if (mma::ColumnOf(0) != 0 || query >= P::kQueries) continue;
    const bool blind = P::kKeys > 0 && sum[h] == 0;
    log_sums[head * P::kQueries + query] =
        blind ? BitsToFloat(0x7fc00000) : pivot[h] * Base<float>::kNaturalLog + log(sum[h]);
  }
}

template <typename P, bool kOfKeys, int kColumns, int kColumns2, typename T, typename Mask>
__device__ inline void BackwardOnTensorCores(const T* own, const T* own2, const T* other,
                                             const T* other2, const Query<float>* queries,
                                             T* result, T* result2, float scale, Mask mask) {
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
  const Scores<float, Mask> scores(scale, mask);
  __shared__ Query<float> queries_of_tile[kOfKeys ? kTile : 1];
  Query<float> own_queries[2] = {};
  if constexpr (!kOfKeys) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int64 query = first + warp_row + mma::RowOf(2 * h);
      if (query < P::kQueries) own_queries[h] = queries[head * P::kQueries + query];
    }
  }
  const int64 end = P::template EndOfOther<kOfKeys>(first);
  for (int64 at = P::template BeginOfOther<kOfKeys>(first); at < end; at += kTile) {
    __syncthreads();
    rows.Fill(other + head * kOther * kColumns, at, kOther);
    rows2.Fill(other2 + head * kOther * kColumns2, at, kOther);
    if constexpr (kOfKeys) {
      if (threadIdx.x < kTile && at + threadIdx.x < P::kQueries) {
        queries_of_tile[threadIdx.x] = queries[head * P::kQueries + at + threadIdx.x];
      }
    }
    __syncthreads();
    const int64 own_index = first + warp_row;
    const bool sees_all = P::template SeesAll<kOfKeys>(own_index, mma::kWarpRows, at, kTile);
    const Range seen[2] = {P::template Seen<kOfKeys>(own_index + mma::RowOf(0), at),
                           P::template Seen<kOfKeys>(own_index + mma::RowOf(2), at)};
    for (int part = 0; part < kTile; part += 16) {
      float weights[2][4] = {}, slopes[2][4] = {};
      own_rows.DotRows(rows, part, weights[0], weights[1]);
      own_rows2.DotRows(rows2, part, slopes[0], slopes[1]);
      const auto weigh = [&](auto sees) {
#pragma unroll
        for (int n = 0; n < 2; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int column = part + 8 * n + mma::ColumnOf(e);
            const int64 own_index = first + warp_row + mma::RowOf(e), other_index = at + column;
            const int64 query = kOfKeys ? other_index : own_index,
                        key = kOfKeys ? own_index : other_index;
            float &weight = weights[n][e], &slope = slopes[n][e];
            if (sees(e / 2, column)) {
              const Query<float> of = kOfKeys ? queries_of_tile[column] : own_queries[e / 2];
              weight = Base<float>::Power(
                  scores.Of(weight, (head * P::kQueries + query) * P::kKeys + key) - of.log_sum);
              slope = weight * (slope * scale - of.product);
            } else {
              weight = slope = 0;
            }
          }
        }
      };
      if (sees_all) {
        weigh([](int, int) { return true; });
      } else {
        weigh([&](int h, int column) { return seen[h].Has(column); });
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
