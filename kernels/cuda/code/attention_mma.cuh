// SPDX-License-Identifier: Apache-2.0
//
// A version of attention.cuh that computes products on tensor cores, for 16-bit floats and for
// floats that may be rounded to TensorFloat-32. Weights are rounded for the products; sums and
// exponentials are computed in float.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_ATTENTION_MMA_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_ATTENTION_MMA_CUH_

#include "attention.cuh"
#include "mma.cuh"

namespace attention {

// Combines the values of the four neighbouring threads that share a row. Each thread gets the
// result. A tile has 16 rows per warp of the block.
template <typename Op>
__device__ inline typename Op::Type CombineThreadsOfRow(typename Op::Type value) {
  value = Op::Combine(value, ShuffleXor(value, 1));
  return Op::Combine(value, ShuffleXor(value, 2));
}

// How many rows of the other side a block visits at once. Shared memory holds two stages of such
// rows: while the block computes with one stage, the other is filled. One row of each operand takes
// kRowBytes in total.
template <int kRowBytes>
constexpr int kStageRows = 2 * 64 * kRowBytes <= (46 << 10) ? 64 : 32;

template <typename P, typename T, typename Mask>
__device__ inline void ForwardOnTensorCores(const T* q, const T* k, const T* v, T* y,
                                            float* log_sums, float scale, Mask mask) {
  constexpr int kTile = P::kTile, kThreads = kTile / mma::kWarpRows * 32;
  constexpr int kRows = 32;  // with 64, the scores of a stage would spill
  // Memory for both stages. The queries, and later the results, also use it.
  __shared__ mma::Tile<T, 2 * kRows, P::kDepth> keys;
  __shared__ mma::Tile<T, 2 * kRows, P::kValueDepth> values;
  const int64 head = blockIdx.x / P::kQueryTiles, first = blockIdx.x % P::kQueryTiles * kTile;
  const int warp_row = mma::Warp() * mma::kWarpRows;
  const int64 first_query = first + warp_row, end = P::template EndOfOther<false>(first);
  const float nothing = Traits<float>::Lowest();
  keys.template StartFill<kTile, kThreads, P::kSpread>(
      0, q + P::template Begin<P::kDepth>(head, P::kQueries), first, P::kQueries);
  WaitForCopies();
  __syncthreads();
  const mma::Rows<T, P::kDepth> queries(keys, warp_row);
  __syncthreads();
  const auto start_fill = [&](int stage, int64 begin) {
    keys.template StartFill<kRows, kThreads, P::kSpread>(
        stage, k + P::template Begin<P::kDepth>(head, P::kKeys), begin, P::kKeys);
    values.template StartFill<kRows, kThreads, P::kSpread>(
        stage, v + P::template Begin<P::kValueDepth>(head, P::kKeys), begin, P::kKeys);
  };
  mma::Sums<P::kValueDepth> sums;
  const Scores<float, Mask> scores(scale, mask);
  // Each thread adds the weights of its own columns; the four sums of a row are added at the end.
  float largest[2] = {nothing, nothing}, sum[2] = {};
  const auto pivot_of = [&](float best) {
    return best == nothing ? 0.0f : best * scores.Delayed();
  };
  int stage = 0;  // first row of the current stage
  if (end > 0) start_fill(stage, 0);
  for (int64 begin = 0; begin < end; begin += kRows, stage = kRows - stage) {
    WaitForCopies();
    __syncthreads();  // this stage has arrived, and no warp still needs the other one
    if (begin + kRows < end) start_fill(kRows - stage, begin + kRows);
    float weights[kRows / 8][4] = {};
#pragma unroll
    for (int n = 0; n < kRows / 8; n += 2)
      queries.DotRows(keys, stage + 8 * n, weights[n], weights[n + 1]);
    const float before[2] = {largest[0], largest[1]};
    const auto weigh = [&](auto sees) {
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
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
    if (P::template SeesAll<false>(first_query, mma::kWarpRows, begin, kRows)) {
      weigh([](int, int) { return true; });
    } else {
      const Range seen[2] = {P::template Seen<false>(first_query + mma::RowOf(0), begin),
                             P::template Seen<false>(first_query + mma::RowOf(2), begin)};
      weigh([&](int h, int column) { return seen[h].Has(column); });
    }
    float pivot[2], shrink[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      largest[h] = CombineThreadsOfRow<Largest<float>>(largest[h]);
      pivot[h] = pivot_of(largest[h]);
      shrink[h] = Base<float>::Power(before[h] * scores.Delayed() - pivot[h]);
      sum[h] *= shrink[h];
    }
    sums.Scale(shrink);
#pragma unroll
    for (int n = 0; n < kRows / 8; n += 2) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        float& weight = weights[n + e / 4][e % 4];
        weight = Base<float>::Power(weight * scores.Delayed() - pivot[e % 4 / 2]);
        sum[e % 4 / 2] += weight;
      }
      sums.AddProduct(weights[n], weights[n + 1], values, stage + 8 * n);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) sum[h] = CombineThreadsOfRow<Sum<float>>(sum[h]);
  const float factors[2] = {1 / sum[0], 1 / sum[1]};
  if (P::kKeys > 0) sums.Scale(factors);
  __syncthreads();
  sums.template Write<P::kSpread>(values, warp_row,
                                  y + P::template Begin<P::kValueDepth>(head, P::kQueries),
                                  first_query, P::kQueries);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64 query = first_query + mma::RowOf(2 * h);
    if (mma::ColumnOf(0) != 0 || query >= P::kQueries) continue;
    const bool blind = P::kKeys > 0 && sum[h] == 0;
    log_sums[head * P::kQueries + query] =
        blind ? BitsToFloat(0x7fc00000)
              : pivot_of(largest[h]) * Base<float>::kNaturalLog + log(sum[h]);
  }
}

template <typename P, bool kOfKeys, int kColumns, int kColumns2, typename T, typename Mask>
__device__ inline void BackwardOnTensorCores(const T* own, const T* own2, const T* other,
                                             const T* other2, const Query<float>* queries,
                                             T* result, T* result2, float scale, Mask mask) {
  constexpr int kTile = P::kTile, kThreads = kTile / mma::kWarpRows * 32;
  constexpr int kRows = kStageRows<mma::kRowBytes<T, kColumns> + mma::kRowBytes<T, kColumns2>>;
  constexpr int64 kOwn = kOfKeys ? P::kKeys : P::kQueries;
  constexpr int64 kOther = kOfKeys ? P::kQueries : P::kKeys;
  constexpr int64 kTiles = kOfKeys ? P::kKeyTiles : P::kQueryTiles;
  // Memory for both stages. The block's own rows, and later the results, also use it.
  __shared__ mma::Tile<T, 2 * kRows, kColumns> rows;
  __shared__ mma::Tile<T, 2 * kRows, kColumns2> rows2;
  __shared__ Query<float> queries_of_stage[kOfKeys ? 2 * kRows : 1];
  const int64 head = blockIdx.x / kTiles, first = blockIdx.x % kTiles * kTile;
  const int warp_row = mma::Warp() * mma::kWarpRows;
  const Query<float>* const queries_of_head = queries + head * P::kQueries;
  rows.template StartFill<kTile, kThreads, P::kSpread>(
      0, own + P::template Begin<kColumns>(head, kOwn), first, kOwn);
  rows2.template StartFill<kTile, kThreads, P::kSpread>(
      0, own2 + P::template Begin<kColumns2>(head, kOwn), first, kOwn);
  Query<float> own_queries[2] = {};
  if constexpr (!kOfKeys) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int64 query = first + warp_row + mma::RowOf(2 * h);
      if (query < P::kQueries) own_queries[h] = queries_of_head[query];
    }
  }
  WaitForCopies();
  __syncthreads();
  const mma::Rows<T, kColumns> own_rows(rows, warp_row);
  const mma::Rows<T, kColumns2> own_rows2(rows2, warp_row);
  __syncthreads();
  const auto start_fill = [&](int stage, int64 at) {
    rows.template StartFill<kRows, kThreads, P::kSpread>(
        stage, other + P::template Begin<kColumns>(head, kOther), at, kOther);
    rows2.template StartFill<kRows, kThreads, P::kSpread>(
        stage, other2 + P::template Begin<kColumns2>(head, kOther), at, kOther);
    if constexpr (kOfKeys) {
      const int r = threadIdx.x;
      const bool exists = at + r < P::kQueries;
      if (r < kRows) {
        StartCopy<sizeof(Query<float>)>(&queries_of_stage[stage + r], queries_of_head + at + r,
                                        exists);
      }
    }
  };
  mma::Sums<kColumns> sums;
  mma::Sums<kOfKeys ? kColumns2 : 16> sums2;
  const Scores<float, Mask> scores(scale, mask);
  const int64 begin = P::template BeginOfOther<kOfKeys>(first),
              end = P::template EndOfOther<kOfKeys>(first);
  int stage = 0;  // first row of the current stage
  if (begin < end) start_fill(stage, begin);
  for (int64 at = begin; at < end; at += kRows, stage = kRows - stage) {
    WaitForCopies();
    __syncthreads();  // this stage has arrived, and no warp still needs the other one
    if (at + kRows < end) start_fill(kRows - stage, at + kRows);
    const int64 own_index = first + warp_row;
    const bool sees_all = P::template SeesAll<kOfKeys>(own_index, mma::kWarpRows, at, kRows);
#pragma unroll 1  // to save registers
    for (int part = 0; part < kRows; part += 16) {
      float weights[2][4] = {}, slopes[2][4] = {};
      own_rows.DotRows(rows, stage + part, weights[0], weights[1]);
      own_rows2.DotRows(rows2, stage + part, slopes[0], slopes[1]);
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
              const Query<float> of =
                  kOfKeys ? queries_of_stage[stage + column] : own_queries[e / 2];
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
        const Range seen[2] = {P::template Seen<kOfKeys>(own_index + mma::RowOf(0), at),
                               P::template Seen<kOfKeys>(own_index + mma::RowOf(2), at)};
        weigh([&](int h, int column) { return seen[h].Has(column); });
      }
      sums.AddProduct(slopes[0], slopes[1], rows, stage + part);
      if constexpr (kOfKeys) sums2.AddProduct(weights[0], weights[1], rows2, stage + part);
    }
  }
  __syncthreads();
  sums.template Write<P::kSpread>(rows, warp_row, result + P::template Begin<kColumns>(head, kOwn),
                                  first + warp_row, kOwn);
  if constexpr (kOfKeys) {
    sums2.template Write<P::kSpread>(rows2, warp_row,
                                     result2 + P::template Begin<kColumns2>(head, kOwn),
                                     first + warp_row, kOwn);
  }
}

}  // namespace attention

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_ATTENTION_MMA_CUH_
