// SPDX-License-Identifier: Apache-2.0
//
// Attention and its gradient. A block owns a tile of queries (or of keys) of one head and visits
// the keys (or the queries) tile by tile, without storing the weights.
// Source: Dao, "FlashAttention-2", 2023.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_ATTENTION_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_ATTENTION_CUH_

#include "base.cuh"
#include "math.cuh"
#include "reduce.cuh"

namespace attention {

constexpr int kLanes = 8;  // neighbouring threads that share a row of a tile

// A range of columns in a tile.
struct Range {
  int begin, end;
  __device__ bool Has(int column) const { return begin <= column && column < end; }
};

// The rows of a head begin kRowSpread rows apart. This is 1 if they are adjacent; if the rows of
// all heads are interleaved, it is the number of heads.
template <int64 kQueryCount, int64 kKeyCount, int kDepthCount, int kValueDepthCount, bool kIsCausal,
          int kTileRows, int kRowSpread>
struct Problem {
  static constexpr int64 kQueries = kQueryCount, kKeys = kKeyCount;
  static constexpr int kDepth = kDepthCount, kValueDepth = kValueDepthCount;
  static constexpr bool kCausal = kIsCausal;
  static constexpr int kSpread = kRowSpread;
  static constexpr int kTile = kTileRows;  // a multiple of 4, so that all warps are full
  // Returns the offset of the first element of a head with `count` rows of kColumns elements each.
  template <int kColumns>
  __device__ static int64 Begin(int64 head, int64 count) {
    return (head / kSpread * kSpread * count + head % kSpread) * kColumns;
  }
  static constexpr int64 kQueryTiles = (kQueries + kTile - 1) / kTile;
  static constexpr int64 kKeyTiles = (kKeys + kTile - 1) / kTile;

  // Returns whether all rows [first, first + rows) see all rows [at, at + columns) of the other
  // side. The result is a constant if tiles are whole and attention is not causal.
  template <bool kOfKeys>
  __device__ static bool SeesAll(int64 first, int rows, int64 at, int columns) {
    constexpr int64 kOwn = kOfKeys ? kKeys : kQueries, kOther = kOfKeys ? kQueries : kKeys;
    const bool within = (kOwn % kTile == 0 || first + rows <= kOwn) &&
                        (kOther % kTile == 0 || at + columns <= kOther);
    return within && (!kCausal || (kOfKeys ? first + rows <= at + 1 : at + columns <= first + 1));
  }
  // Returns the columns that row `row` sees in the tile of the other side that starts at row `at`.
  template <bool kOfKeys>
  __device__ static Range Seen(int64 row, int64 at) {
    constexpr int64 kOwn = kOfKeys ? kKeys : kQueries, kOther = kOfKeys ? kQueries : kKeys;
    const int begin = kCausal && kOfKeys ? WithinTile(row - at) : 0;
    int end = kOther % kTile == 0 ? kTile : WithinTile(kOther - at);
    if (kCausal && !kOfKeys && row + 1 < kOther) end = WithinTile(row + 1 - at);
    return {begin, kOwn % kTile == 0 || row < kOwn ? end : 0};
  }
  // Return the range of rows on the other side that a tile of keys (or of queries) starting
  // at row `first` visits. A causal tile skips the queries before its keys, and the keys
  // after its queries.
  template <bool kOfKeys>
  __device__ static int64 BeginOfOther(int64 first) {
    return kCausal && kOfKeys ? first : 0;
  }
  template <bool kOfKeys>
  __device__ static int64 EndOfOther(int64 first) {
    constexpr int64 kOther = kOfKeys ? kQueries : kKeys;
    return kCausal && !kOfKeys && first + kTile < kOther ? first + kTile : kOther;
  }

 private:
  __device__ static int WithinTile(int64 column) {
    return static_cast<int>(column < 0 ? 0 : column > kTile ? kTile : column);
  }
};

// The base of the exponentials: 2 for float, because GPUs have an instruction for powers of 2,
// otherwise e.
template <typename V>
struct Base {
  static constexpr V kLogOfE = 1, kNaturalLog = 1;
  __device__ static V Power(V x) { return exp(x); }
};
template <>
struct Base<float> {
  static constexpr float kLogOfE = 1.44269504088896340736f, kNaturalLog = 0.69314718055994530942f;
  __device__ static float Power(float x) {
#ifdef __CUDA_ARCH__
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
#else
    return exp2(x);
#endif
  }
};

// The type of `mask` if there is no mask.
struct NoMask {};

// Turns dot products of queries and keys into scores. The weight of a score is proportional to
// Base<V>::Power(score).
template <typename V, typename Mask>
class Scores {
 public:
  __device__ Scores(V scale, Mask mask) : factor_(scale * Base<V>::kLogOfE), mask_(mask) {}
  // Returns the score of pair `i` of [heads, queries, keys].
  __device__ V Of(V product, int64 i) const {
    if constexpr (kMasked) {
      return product * factor_ + mask_(i) * Base<V>::kLogOfE;
    } else {
      return product * factor_;
    }
  }
  // The search for the largest score can use plain products if they are in the same order as the
  // scores. In that case, a score is Delayed() times Early(); otherwise, Early() is the score
  // itself.
  __device__ V Early(V product, int64 i) const { return IsDelayed() ? product : Of(product, i); }
  __device__ V Delayed() const { return IsDelayed() ? factor_ : V(1); }

 private:
  static constexpr bool kMasked = !Same<Mask, NoMask>::kValue;
  __device__ bool IsDelayed() const { return !kMasked && factor_ > 0; }

  V factor_;
  Mask mask_;
};

// Returns the maximum of two numbers. Ignores NaNs, which the weights propagate.
template <typename V>
__device__ inline V Larger(V x, V y) {
  return fmax(x, y);
}

// The number of elements of a row that are loaded or stored together. Rows whose size is a multiple
// of 16 bytes are aligned to 16 bytes, so 16 bytes are moved at a time; in other rows, one element.
template <typename T, int kColumns>
constexpr int kPackWidth = kColumns % (16 / sizeof(T)) == 0 ? 16 / sizeof(T) : 1;

// Rows in shared memory, padded by one element so that neighbouring rows start in different banks.
template <typename V, int kRows, int kColumns>
struct Tile {
  V rows[kRows][kColumns + 1];

  // Loads rows of `from`, starting at row `first` of `count`. Fills rows beyond the last with
  // zeros. The rows of `from` begin kSpread rows apart.
  template <int kSpread, typename T>
  __device__ void Fill(const T* from, int64 first, int64 count) {
    constexpr int kWidth = kPackWidth<T, kColumns>, kPacks = kColumns / kWidth;
    constexpr int kOfRow = kPacks > 0 ? kPacks : 1;
    for (int i = threadIdx.x; i < kRows * kPacks; i += kRows * kLanes) {
      const int r = i / kOfRow, c = i % kOfRow * kWidth;
      PackOf<T, kWidth> pack = {};
      if (first + r < count) {
        pack = LoadPack<kWidth>(from + (first + r) * (kSpread * kColumns) + c);
      }
#pragma unroll
      for (int j = 0; j < kWidth; ++j) rows[r][c + j] = Load(pack[j]);
    }
  }
  __device__ V Dot(int row, const Tile& other, int other_row) const {
    V sum = 0;
#pragma unroll 8
    for (int c = 0; c < kColumns; ++c) sum += rows[row][c] * other.rows[other_row][c];
    return sum;
  }
};

// Combines the values of a row's lanes. Every lane gets the result.
template <typename Op>
__device__ inline typename Op::Type CombineLanes(typename Op::Type value) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2)
    value = Op::Combine(value, ShuffleXor(value, mask));
  return value;
}

// A row of results. Each lane holds every kLanes-th pack of its columns.
template <typename V, int kColumns>
class RowSums {
 public:
  __device__ RowSums() {
#pragma unroll
    for (int j = 0; j < kOfLane * kWidth; ++j) sums_[j] = V(0);
  }
  __device__ void Scale(V factor) {
#pragma unroll
    for (int j = 0; j < kOfLane * kWidth; ++j) sums_[j] *= factor;
  }
  // Adds weights[k] * row k of the tile for all k.
  template <int kRows>
  __device__ void Add(int lane, const V* weights, const Tile<V, kRows, kColumns>& tile) {
    for (int k = 0; k < kRows; ++k) {
      const V weight = weights[k];
#pragma unroll
      for (int j = 0; j < kOfLane * kWidth; ++j) {
        const int c = ColumnOf(lane, j);
        if (c < kColumns) sums_[j] += weight * tile.rows[k][c];
      }
    }
  }
  template <typename T>
  __device__ void Write(int lane, T* row) const {
#pragma unroll
    for (int j = 0; j < kOfLane; ++j) {
      const int c = ColumnOf(lane, j * kWidth);
      if (c >= kColumns) continue;
      PackOf<T, kWidth> pack;
#pragma unroll
      for (int w = 0; w < kWidth; ++w) pack.values[w] = Store<T>(sums_[j * kWidth + w]);
      StorePack(row + c, pack);
    }
  }

 private:
  static constexpr int kWidth = kPackWidth<V, kColumns>, kPacks = kColumns / kWidth;
  static constexpr int kOfLane = kPacks > 0 ? (kPacks + kLanes - 1) / kLanes : 1;
  // Returns the column of a lane's sum `j`.
  __device__ static int ColumnOf(int lane, int j) {
    return (lane + j / kWidth * kLanes) * kWidth + j % kWidth;
  }
  V sums_[kOfLane * kWidth];
};

// Computes y and log_sums, which are natural logarithms. Unless `mask` is NoMask, mask(i) is added
// to score i of [heads, queries, keys], in natural units. Until a query has seen a key, its scores
// are relative to 0. The result for a query that sees no key is NaN, or 0 if no keys exist.
template <typename P, typename V, typename T, typename Mask>
__device__ inline void Forward(const T* q, const T* k, const T* v, T* y, V* log_sums, V scale,
                               Mask mask) {
  constexpr int kTile = P::kTile;
  // Keys and values alternately use the same memory.
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
  const Scores<V, Mask> scores(scale, mask);
  queries.template Fill<P::kSpread>(q + P::template Begin<P::kDepth>(head, P::kQueries), first,
                                    P::kQueries);
  RowSums<V, P::kValueDepth> sums;
  V largest = nothing, pivot = 0, sum = 0;
  for (int64 begin = 0; begin < end; begin += kTile) {
    __syncthreads();
    other.keys.template Fill<P::kSpread>(k + P::template Begin<P::kDepth>(head, P::kKeys), begin,
                                         P::kKeys);
    __syncthreads();
    const V before = largest;
    const int64 pair = (head * P::kQueries + query) * P::kKeys + begin;
    const auto weigh = [&](auto sees) {
      for (int j = lane; j < kTile; j += kLanes) {
        const V score = sees(j) ? scores.Early(queries.Dot(row, other.keys, j), pair + j) : nothing;
        weights[row][j] = score;
        largest = Larger(score, largest);
      }
    };
    if (P::template SeesAll<false>(first, kTile, begin, kTile)) {
      weigh([](int) { return true; });
    } else {
      const Range seen = P::template Seen<false>(query, begin);
      weigh([&](int j) { return seen.Has(j); });
    }
    largest = CombineLanes<Largest<V>>(largest);
    pivot = largest == nothing ? V(0) : largest * scores.Delayed();
    for (int j = lane; j < kTile; j += kLanes) {
      weights[row][j] = Base<V>::Power(weights[row][j] * scores.Delayed() - pivot);
    }
    const V shrink = Base<V>::Power(before * scores.Delayed() - pivot);
    sum *= shrink;
    for (int j = lane; j < kTile; j += kLanes) sum += weights[row][j];
    sums.Scale(shrink);
    __syncthreads();
    other.values.template Fill<P::kSpread>(v + P::template Begin<P::kValueDepth>(head, P::kKeys),
                                           begin, P::kKeys);
    __syncthreads();
    sums.Add(lane, weights[row], other.values);
  }
  sum = CombineLanes<Sum<V>>(sum);
  if (query >= P::kQueries) return;
  if (P::kKeys > 0) sums.Scale(V(1) / sum);
  sums.Write(lane, y + P::template Begin<P::kValueDepth>(head, P::kQueries) +
                       query * (P::kSpread * P::kValueDepth));
  if (lane != 0) return;
  const bool blind = P::kKeys > 0 && sum == 0;
  log_sums[head * P::kQueries + query] =
      blind ? BitsToFloat(0x7fc00000) : pivot * Base<V>::kNaturalLog + log(sum);
}

// The terms of the score gradients that depend only on the query, computed once for all scores.
template <typename V>
struct alignas(2 * sizeof(V)) Query {
  V log_sum;  // logarithm to the base of Base<V>
  V product;  // dy · y * scale

  __device__ static Query Of(V log_sum, V product, V scale) {
    return {log_sum * Base<V>::kLogOfE, product * scale};
  }
};

// Computes the gradients for a tile of rows of `own`, in a loop over the rows of `other`. A score
// is a dot product of rows of `own` and `other`; the gradient of its weight is a dot product of
// rows of `own2` and `other2`:
//   queries   own is q, own2 is dy, other is k, other2 is v; the result is dq
//   keys      own is k, own2 is v, other is q, other2 is dy; the results are dk and dv
template <typename P, bool kOfKeys, int kColumns, int kColumns2, typename V, typename T,
          typename Mask>
__device__ inline void Backward(const T* own, const T* own2, const T* other, const T* other2,
                                const Query<V>* queries, T* result, T* result2, V scale,
                                Mask mask) {
  constexpr int kTile = P::kTile;
  constexpr int64 kOwn = kOfKeys ? P::kKeys : P::kQueries;
  constexpr int64 kOther = kOfKeys ? P::kQueries : P::kKeys;
  constexpr int64 kTiles = kOfKeys ? P::kKeyTiles : P::kQueryTiles;
  __shared__ Tile<V, kTile, kColumns> own_rows, other_rows;
  __shared__ Tile<V, kTile, kColumns2> own_rows2, other_rows2;
  __shared__ V weights[kOfKeys ? kTile : 1][kTile + 1], slopes[kTile][kTile + 1];
  __shared__ Query<V> queries_of_tile[kTile];
  const int row = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int64 head = blockIdx.x / kTiles, first = blockIdx.x % kTiles * kTile,
              own_index = first + row;
  const Scores<V, Mask> scores(scale, mask);
  const auto read_queries = [&](int64 from) {
    for (int j = threadIdx.x; j < kTile && from + j < P::kQueries; j += kTile * kLanes) {
      queries_of_tile[j] = queries[head * P::kQueries + from + j];
    }
  };
  if constexpr (!kOfKeys) read_queries(first);
  own_rows.template Fill<P::kSpread>(own + P::template Begin<kColumns>(head, kOwn), first, kOwn);
  own_rows2.template Fill<P::kSpread>(own2 + P::template Begin<kColumns2>(head, kOwn), first, kOwn);
  RowSums<V, kColumns> sums;
  RowSums<V, kOfKeys ? kColumns2 : 0> sums2;
  const int64 end = P::template EndOfOther<kOfKeys>(first);
  for (int64 at = P::template BeginOfOther<kOfKeys>(first); at < end; at += kTile) {
    __syncthreads();
    other_rows.template Fill<P::kSpread>(other + P::template Begin<kColumns>(head, kOther), at,
                                         kOther);
    other_rows2.template Fill<P::kSpread>(other2 + P::template Begin<kColumns2>(head, kOther), at,
                                          kOther);
    if constexpr (kOfKeys) read_queries(at);
    __syncthreads();
    const auto weigh = [&](auto sees) {
      for (int j = lane; j < kTile; j += kLanes) {
        const Query<V> query = queries_of_tile[kOfKeys ? j : row];
        const int64 query_index = kOfKeys ? at + j : own_index, key = kOfKeys ? own_index : at + j;
        V weight = 0, slope = 0;
        if (sees(j)) {
          const V score = scores.Of(own_rows.Dot(row, other_rows, j),
                                    (head * P::kQueries + query_index) * P::kKeys + key);
          weight = Base<V>::Power(score - query.log_sum);
          slope = weight * (own_rows2.Dot(row, other_rows2, j) * scale - query.product);
        }
        if constexpr (kOfKeys) weights[row][j] = weight;
        slopes[row][j] = slope;
      }
    };
    if (P::template SeesAll<kOfKeys>(first, kTile, at, kTile)) {
      weigh([](int) { return true; });
    } else {
      const Range seen = P::template Seen<kOfKeys>(own_index, at);
      weigh([&](int j) { return seen.Has(j); });
    }
    __syncthreads();
    sums.Add(lane, slopes[row], other_rows);
    if constexpr (kOfKeys) sums2.Add(lane, weights[row], other_rows2);
  }
  if (own_index >= kOwn) return;
  sums.Write(
      lane, result + P::template Begin<kColumns>(head, kOwn) + own_index * (P::kSpread * kColumns));
  if constexpr (kOfKeys)
    sums2.Write(lane, result2 + P::template Begin<kColumns2>(head, kOwn) +
                          own_index * (P::kSpread * kColumns2));
}

}  // namespace attention

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_ATTENTION_CUH_
