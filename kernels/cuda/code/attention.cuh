// SPDX-License-Identifier: Apache-2.0
//
// Attention and its gradient. A block owns a tile of queries (or of keys) of one head and visits
// the other side tile by tile, without storing the weights. See Dao, "FlashAttention-2", 2023.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_ATTENTION_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_ATTENTION_CUH_

#include "base.cuh"
#include "math.cuh"
#include "reduce.cuh"

namespace attention {

constexpr int kLanes = 8;  // neighbouring threads that share a row of a tile

template <int64 kQueryCount, int64 kKeyCount, int kDepthCount, int kValueDepthCount, bool kIsCausal,
          int kTileRows>
struct Problem {
  static constexpr int64 kQueries = kQueryCount, kKeys = kKeyCount;
  static constexpr int kDepth = kDepthCount, kValueDepth = kValueDepthCount;
  static constexpr bool kCausal = kIsCausal;
  static constexpr int kTile = kTileRows;  // a multiple of 4, so that warps are whole
  static constexpr int64 kQueryTiles = (kQueries + kTile - 1) / kTile;
  static constexpr int64 kKeyTiles = (kKeys + kTile - 1) / kTile;

  __device__ static bool Sees(int64 query, int64 key) {
    return query < kQueries && key < kKeys && (!kCausal || key <= query);
  }
  // The rows of the other side that a tile of keys (or of queries) starting at row `first` visits.
  // A causal tile skips the queries before its keys, and the keys after its queries.
  template <bool kOfKeys>
  __device__ static int64 BeginOfOther(int64 first) {
    return kCausal && kOfKeys ? first : 0;
  }
  template <bool kOfKeys>
  __device__ static int64 EndOfOther(int64 first) {
    constexpr int64 kOther = kOfKeys ? kQueries : kKeys;
    return kCausal && !kOfKeys && first + kTile < kOther ? first + kTile : kOther;
  }
};

// Rows in shared memory, padded by one element so that neighbouring rows start in different banks.
template <typename V, int kRows, int kColumns>
struct Tile {
  V rows[kRows][kColumns + 1];

  // Loads the rows of `from` [count, kColumns] from row `first` on, with zeros beyond the last.
  template <typename T>
  __device__ void Fill(const T* from, int64 first, int64 count) {
    constexpr int kOfRow = kColumns > 0 ? kColumns : 1;
    for (int i = threadIdx.x; i < kRows * kColumns; i += kRows * kLanes) {
      const int r = i / kOfRow, c = i % kOfRow;
      rows[r][c] = first + r < count ? Load(from[(first + r) * kColumns + c]) : V(0);
    }
  }
  __device__ V Dot(int row, const Tile& other, int other_row) const {
    V sum = 0;
#pragma unroll 8
    for (int c = 0; c < kColumns; ++c) sum += rows[row][c] * other.rows[other_row][c];
    return sum;
  }
};

// Combines the values of the lanes of a row; every lane gets the result.
template <typename Op>
__device__ inline typename Op::Type CombineLanes(typename Op::Type value) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2)
    value = Op::Combine(value, ShuffleXor(value, mask));
  return value;
}

// A row of results. Each lane holds every kLanes-th column.
template <typename V, int kColumns>
class RowSums {
 public:
  __device__ RowSums() {
#pragma unroll
    for (int j = 0; j < kOfLane; ++j) sums_[j] = V(0);
  }
  __device__ void Scale(V factor) {
#pragma unroll
    for (int j = 0; j < kOfLane; ++j) sums_[j] *= factor;
  }
  // Adds weights[k] * row k of the tile, for all k.
  template <int kRows>
  __device__ void Add(int lane, const V* weights, const Tile<V, kRows, kColumns>& tile) {
    for (int k = 0; k < kRows; ++k) {
      const V weight = weights[k];
#pragma unroll
      for (int j = 0; j < kOfLane; ++j) {
        const int c = lane + j * kLanes;
        if (c < kColumns) sums_[j] += weight * tile.rows[k][c];
      }
    }
  }
  template <typename T>
  __device__ void Write(int lane, T* row) const {
#pragma unroll
    for (int j = 0; j < kOfLane; ++j) {
      const int c = lane + j * kLanes;
      if (c < kColumns) row[c] = Store<T>(sums_[j]);
    }
  }

 private:
  static constexpr int kOfLane = kColumns > 0 ? (kColumns + kLanes - 1) / kLanes : 1;
  V sums_[kOfLane];
};

// Computes y and log_sums. mask(i) is added to score i of [heads, queries, keys]. Until a query has
// seen a key, its scores are relative to 0. A query that sees no key becomes NaN, or 0 if there are
// no keys at all.
template <typename P, typename V, typename T, typename Mask>
__device__ inline void Forward(const T* q, const T* k, const T* v, T* y, V* log_sums, V scale,
                               Mask mask) {
  constexpr int kTile = P::kTile;
  // Keys and values take turns in the same memory.
  __shared__ Tile<V, kTile, P::kDepth> queries;
  __shared__ union {
    Tile<V, kTile, P::kDepth> keys;
    Tile<V, kTile, P::kValueDepth> values;
  } other;
  __shared__ V weights[kTile][kTile + 1];
  const int row = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int64 head = blockIdx.x / P::kQueryTiles, first = blockIdx.x % P::kQueryTiles * kTile;
  const int64 query = first + row, end = P::template EndOfOther<false>(first);
  const V nothing = Traits<V>::Lowest();
  queries.Fill(q + head * P::kQueries * P::kDepth, first, P::kQueries);
  RowSums<V, P::kValueDepth> sums;
  V largest = nothing, pivot = 0, sum = 0;
  for (int64 begin = 0; begin < end; begin += kTile) {
    __syncthreads();
    other.keys.Fill(k + head * P::kKeys * P::kDepth, begin, P::kKeys);
    __syncthreads();
    const V before = largest;
    for (int j = lane; j < kTile; j += kLanes) {
      const int64 key = begin + j;
      V score = nothing;
      if (P::Sees(query, key)) {
        score = queries.Dot(row, other.keys, j) * scale +
                mask((head * P::kQueries + query) * P::kKeys + key);
      }
      weights[row][j] = score;
      largest = op::Maximum(score, largest);
    }
    largest = CombineLanes<Largest<V>>(largest);
    pivot = largest == nothing ? V(0) : largest;
    V more = 0;
    for (int j = lane; j < kTile; j += kLanes) {
      const V weight = exp(weights[row][j] - pivot);
      weights[row][j] = weight;
      more += weight;
    }
    const V shrink = exp(before - pivot);
    sum = sum * shrink + CombineLanes<Sum<V>>(more);
    sums.Scale(shrink);
    __syncthreads();
    other.values.Fill(v + head * P::kKeys * P::kValueDepth, begin, P::kKeys);
    __syncthreads();
    sums.Add(lane, weights[row], other.values);
  }
  if (query >= P::kQueries) return;
  if (P::kKeys > 0) sums.Scale(V(1) / sum);
  sums.Write(lane, y + (head * P::kQueries + query) * P::kValueDepth);
  if (lane != 0) return;
  const bool blind = P::kKeys > 0 && sum == 0;
  log_sums[head * P::kQueries + query] = blind ? BitsToFloat(0x7fc00000) : pivot + log(sum);
}

// The gradient of the rows of one side, which visit the rows of the other side. A score is a dot
// product of rows of `own` and `other`; the gradient of its weight is one of `own2` and `other2`:
//   queries   own is q, own2 is dy, other is k, other2 is v; the result is dq
//   keys      own is k, own2 is v, other is q, other2 is dy; the results are dk and dv
// products[i] is dy · y of query i.
template <typename P, bool kOfKeys, int kColumns, int kColumns2, typename V, typename T,
          typename Mask>
__device__ inline void Backward(const T* own, const T* own2, const T* other, const T* other2,
                                const V* log_sums, const V* products, T* result, T* result2,
                                V scale, Mask mask) {
  constexpr int kTile = P::kTile;
  constexpr int64 kOwn = kOfKeys ? P::kKeys : P::kQueries;
  constexpr int64 kOther = kOfKeys ? P::kQueries : P::kKeys;
  constexpr int64 kTiles = kOfKeys ? P::kKeyTiles : P::kQueryTiles;
  __shared__ Tile<V, kTile, kColumns> own_rows, other_rows;
  __shared__ Tile<V, kTile, kColumns2> own_rows2, other_rows2;
  __shared__ V weights[kOfKeys ? kTile : 1][kTile + 1], slopes[kTile][kTile + 1];
  const int row = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int64 head = blockIdx.x / kTiles, first = blockIdx.x % kTiles * kTile,
              own_index = first + row;
  own_rows.Fill(own + head * kOwn * kColumns, first, kOwn);
  own_rows2.Fill(own2 + head * kOwn * kColumns2, first, kOwn);
  RowSums<V, kColumns> sums;
  RowSums<V, kOfKeys ? kColumns2 : 0> sums2;
  const int64 end = P::template EndOfOther<kOfKeys>(first);
  for (int64 at = P::template BeginOfOther<kOfKeys>(first); at < end; at += kTile) {
    __syncthreads();
    other_rows.Fill(other + head * kOther * kColumns, at, kOther);
    other_rows2.Fill(other2 + head * kOther * kColumns2, at, kOther);
    __syncthreads();
    for (int j = lane; j < kTile; j += kLanes) {
      const int64 query = kOfKeys ? at + j : own_index, key = kOfKeys ? own_index : at + j;
      V weight = 0, slope = 0;
      if (P::Sees(query, key)) {
        const int64 i = head * P::kQueries + query;
        weight =
            exp(own_rows.Dot(row, other_rows, j) * scale + mask(i * P::kKeys + key) - log_sums[i]);
        slope = weight * (own_rows2.Dot(row, other_rows2, j) - products[i]) * scale;
      }
      if constexpr (kOfKeys) weights[row][j] = weight;
      slopes[row][j] = slope;
    }
    __syncthreads();
    sums.Add(lane, slopes[row], other_rows);
    if constexpr (kOfKeys) sums2.Add(lane, weights[row], other_rows2);
  }
  if (own_index >= kOwn) return;
  sums.Write(lane, result + (head * kOwn + own_index) * kColumns);
  if constexpr (kOfKeys) sums2.Write(lane, result2 + (head * kOwn + own_index) * kColumns2);
}

}  // namespace attention

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_ATTENTION_CUH_
