// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/product.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/float_vectors.h"
#include "kernels/cpu/transpose8.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

// Sizes of packed blocks. The block of b, which all rows read, fills a quarter of a small L2 cache;
// the block of a fills half of it.
constexpr int64_t kNearFloats = 32 << 10;
constexpr int64_t kLeftFloats = 64 << 10;
constexpr int64_t kMaxColumns = 2048;  // per block
constexpr int kMaxRows = 12;           // per tile

// Packs `lanes` rows of a or columns of b into a panel [depth, kLanes], padded with zeros. Element
// (d, lane) is from[d * step + lane * lane_step].
template <int kLanes>
MF_INLINE inline void PackPanel(const float* from, int64_t step, int64_t lane_step, int64_t depth,
                                int64_t lanes, float* to) {
  if (lanes < kLanes) {
    for (int64_t d = 0; d < depth; ++d) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        to[d * kLanes + lane] = lane < lanes ? from[d * step + lane * lane_step] : 0.0f;
      }
    }
    return;
  }
  int64_t d = 0;
  if (lane_step == 1) {
    for (; d < depth; ++d) {
      for (int lane = 0; lane < kLanes; ++lane) to[d * kLanes + lane] = from[d * step + lane];
    }
  } else if (kLanes % 8 == 0 && step == 1) {
    for (; d + 8 <= depth; d += 8) {
      for (int lane = 0; lane < kLanes; lane += 8) {
        Transpose8(from + d + lane * lane_step, lane_step, to + d * kLanes + lane, kLanes);
      }
    }
  }
  for (; d < depth; ++d) {
    for (int lane = 0; lane < kLanes; ++lane) {
      to[d * kLanes + lane] = from[d * step + lane * lane_step];
    }
  }
}

// Visits the range [first, first + depth) of the concatenated k of all terms. Calls pack(term,
// begin in the term, count, offset in the range) for each term that overlaps the range.
template <typename Pack>
MF_INLINE inline void ForEachTerm(absl::Span<const ProductTerm> terms, int64_t first, int64_t depth,
                                  const Pack pack) {
  int64_t before = 0;
  for (const ProductTerm& term : terms) {
    const int64_t begin = std::max(first, before);
    const int64_t end = std::min(first + depth, before + term.k);
    if (begin < end) pack(term, begin - before, end - begin, begin - first);
    before += term.k;
  }
}

// Computes a tile and calls finish(at, j, sum) for each of its vectors. The tile begins at element
// `at` of the result, in column `j`; rows have `n` elements. If kWhole is false, only the first
// `columns` columns of the tile exist.
template <int kFloats, int kRows, bool kWhole, typename Finish>
MF_INLINE inline void Tile(const float* a, const float* b, int64_t depth, int64_t at, int64_t j,
                           int64_t n, int64_t columns, const Finish finish) {
  using Vector = typename VectorOf<kFloats>::type;
  // Two arrays, because GCC would keep an array of two arrays in memory.
  Vector left[kRows] = {}, right[kRows] = {};
  // Unrolled because issuing instructions is the bottleneck when two threads share the core.
#pragma GCC unroll 4
  for (int64_t d = 0; d < depth; ++d, a += kRows, b += 2 * kFloats) {
    const auto* const row = reinterpret_cast<const Vector*>(b);
    const Vector b_left = row[0], b_right = row[1];
    for (int r = 0; r < kRows; ++r) {
      left[r] += a[r] * b_left;
      right[r] += a[r] * b_right;
    }
  }
  // Forces GCC to compute addresses here. Otherwise it keeps one address per row in registers that
  // the sums need.
  asm("" : "+r"(at));
  for (int r = 0; r < kRows; ++r, at += n) {
    if (kWhole) {
      finish(at, j, left[r]);
      finish(at + kFloats, j + kFloats, right[r]);
    } else {
      const Vector both[2] = {left[r], right[r]};
      for (int64_t c = 0; c < columns; ++c) {
        finish(at + c, j + c, VectorOf<1>::type{both[c / kFloats][c % kFloats]});
      }
    }
  }
}

// Packed blocks of a and b, and the position of their product in the result.
struct Block {
  const float* a;  // panels, each with the rows of one tile
  const float* b;  // panels of 2 * kFloats columns
  int64_t depth;
  int64_t first_row, rows;
  int64_t first_column, columns;
  int64_t n;  // between rows of the result
};

// Computes the row of tiles that begins at `row`; each tile has kRows rows. `sink` determines where
// the tiles are written.
template <int kFloats, int kRows, typename Sink>
MF_INLINE inline void TilesOf(const Block p, const float* a, int64_t row, const Sink sink) {
  constexpr int64_t kWidth = 2 * kFloats;
  const int64_t at = row * p.n + p.first_column;
  const int64_t first = sink.First(at), n = sink.Stride(p.n, p.columns);
  const auto finish = sink.finish();
  int64_t j = 0;
  for (; j + kWidth <= p.columns; j += kWidth) {
    Tile<kFloats, kRows, true>(a, p.b + j * p.depth, p.depth, first + j, p.first_column + j, n,
                               kWidth, finish);
  }
  if (j < p.columns) {
    Tile<kFloats, kRows, false>(a, p.b + j * p.depth, p.depth, first + j, p.first_column + j, n,
                                p.columns - j, finish);
  }
  sink.Done(at, p.n, kRows, p.columns);
}

// Splits `rows` into panels of kRows rows, the rest into panels of 4 rows and the last rows into
// panels of 1, and calls some(rows, i) for each. `i` is the panel's first row.
template <int kRows, typename Some>
MF_INLINE inline void ForEachPanel(int64_t rows, const Some some) {
  int64_t i = 0;
  for (; i + kRows <= rows; i += kRows) some(std::integral_constant<int, kRows>(), i);
  for (; i + 4 <= rows; i += 4) some(std::integral_constant<int, 4>(), i);
  for (; i < rows; ++i) some(std::integral_constant<int, 1>(), i);
}

template <int kFloats, int kRows, typename Sink>
MF_INLINE inline void All(const Product& p, int64_t max_depth, Sink sink) {
  constexpr int64_t kWidth = 2 * kFloats;
  alignas(64) float left[kLeftFloats];
  alignas(64) float near[kNearFloats];
  int64_t k = 0;
  for (const ProductTerm& term : p.terms) k += term.k;
  const int64_t depth = Product::BlockDepth(k, max_depth);
  const int64_t turns = std::max<int64_t>((k + depth - 1) / depth, 1);
  const int64_t max_rows = kLeftFloats / depth / kRows * kRows;
  const int64_t max_columns = std::min(kNearFloats / depth / kWidth * kWidth, kMaxColumns);
  Block block = {.a = left, .b = near, .n = p.out_stride};
  for (block.first_row = 0; block.first_row < p.m; block.first_row += max_rows) {
    block.rows = std::min(max_rows, p.m - block.first_row);
    for (int64_t turn = 0; turn < turns; ++turn) {
      const int64_t first = turn * depth;
      block.depth = std::min(depth, k - first);
      sink.Begin(turn == 0, turn == turns - 1);
      ForEachTerm(p.terms, first, block.depth,
                  [&](const ProductTerm& t, int64_t at, int64_t count, int64_t to) MF_INLINE {
                    ForEachPanel<kRows>(block.rows, [&](auto rows, int64_t i) MF_INLINE {
                      constexpr int kSome = decltype(rows)::value;
                      PackPanel<kSome>(
                          t.a.data + (block.first_row + i) * t.a.row_step + at * t.a.column_step,
                          t.a.column_step, t.a.row_step, count, kSome,
                          left + i * block.depth + to * kSome);
                    });
                  });
      for (block.first_column = 0; block.first_column < p.n; block.first_column += max_columns) {
        block.columns = std::min(max_columns, p.n - block.first_column);
        ForEachTerm(p.terms, first, block.depth,
                    [&](const ProductTerm& t, int64_t at, int64_t count, int64_t to) MF_INLINE {
                      for (int64_t j = 0; j < block.columns; j += kWidth) {
                        PackPanel<kWidth>(t.b.data + at * t.b.row_step +
                                              (block.first_column + j) * t.b.column_step,
                                          t.b.row_step, t.b.column_step, count,
                                          std::min(kWidth, block.columns - j),
                                          near + j * block.depth + to * kWidth);
                      }
                    });
        ForEachPanel<kRows>(block.rows, [&](auto rows, int64_t i) MF_INLINE {
          TilesOf<kFloats, decltype(rows)::value>(block, left + i * block.depth,
                                                  block.first_row + i, sink);
        });
      }
    }
  }
}

template <typename Sink>
MF_AVX512 void AllWithAvx512(const Product& p, int64_t max_depth, const Sink sink) {
  All<16, kMaxRows>(p, max_depth, sink);
}

template <typename Sink>
void Run(const Product& p, int64_t max_depth, const Sink sink) {
  if (HasAvx512()) {
    AllWithAvx512(p, max_depth, sink);
  } else {
    All<8, 6>(p, max_depth, sink);
  }
}

struct PutTo {
  float* out;
  const float* bias;  // or null
  bool add;
  template <typename Vector>
  MF_INLINE void operator()(int64_t at, int64_t j, const Vector& product) const {
    using In = Unaligned<sizeof(Vector) / sizeof(float)>;
    In* const to = reinterpret_cast<In*>(out + at);
    Vector sum = product;
    if (add) sum += to->vector;
    if (bias != nullptr) sum += reinterpret_cast<const In*>(bias + j)->vector;
    to->vector = sum;
  }
};

struct SubtractFrom {
  float* out;
  float alpha;
  template <typename Vector>
  MF_INLINE void operator()(int64_t at, int64_t, const Vector& sum) const {
    auto* to = reinterpret_cast<Unaligned<sizeof(Vector) / sizeof(float)>*>(out + at);
    // Forces GCC to load alpha here. Otherwise it keeps a vector of copies of alpha in a register.
    float by = alpha;
    asm volatile("" : "+x"(by));
    to->vector = to->vector - by * sum;
  }
};

// Base of sinks that write each element directly to its position in the result.
struct InPlace {
  MF_INLINE int64_t First(int64_t at) const { return at; }
  MF_INLINE int64_t Stride(int64_t n, int64_t) const { return n; }
  MF_INLINE void Done(int64_t, int64_t, int64_t, int64_t) const {}
};

struct Stored : InPlace {
  float* out;
  const float* bias;
  PutTo to = {};
  Stored(float* out, const float* bias) : out(out), bias(bias) {}
  // Stores the sums over the first block of k, adds the sums over the other blocks, and adds the
  // bias together with the last block.
  MF_INLINE void Begin(bool first, bool last) { to = {out, last ? bias : nullptr, !first}; }
  MF_INLINE PutTo finish() const { return to; }
};

struct Subtracted : InPlace {
  SubtractFrom from;
  explicit Subtracted(const SubtractFrom& from) : from(from) {}
  MF_INLINE void Begin(bool, bool) const {}
  MF_INLINE SubtractFrom finish() const { return from; }
};

// Collects the rows of a panel, then passes each of them to `use`.
struct InPieces {
  float* piece;
  absl::FunctionRef<void(int64_t, const float*, int64_t)> use;
  MF_INLINE void Begin(bool, bool) const {}
  MF_INLINE int64_t First(int64_t) const { return 0; }
  MF_INLINE int64_t Stride(int64_t, int64_t columns) const { return columns; }
  MF_INLINE PutTo finish() const { return {piece, nullptr, false}; }
  MF_INLINE void Done(int64_t at, int64_t n, int64_t rows, int64_t columns) const {
    for (int64_t r = 0; r < rows; ++r) use(at + r * n, piece + r * columns, columns);
  }
};

}  // namespace

bool Product::IsFastest(int64_t m, int64_t n, int64_t k, bool transposed) {
  return !HasAvx512() || (transposed && n >= 32 && m >= 12 && k * n <= int64_t{1} << 17);
}

int64_t Product::BlockDepth(int64_t k, int64_t max_depth) {
  const int64_t blocks = std::max<int64_t>((k + max_depth - 1) / max_depth, 1);
  return std::max<int64_t>((k + blocks - 1) / blocks, 1);
}

int64_t Product::PieceFloats() { return kMaxRows * kMaxColumns; }

void Product::Store(float* out, const float* bias) const {
  Run(*this, kMaxDepth, Stored(out, bias));
}

void Product::Subtract(float alpha, float* out) const {
  Run(*this, kMaxDepth, Subtracted({out, alpha}));
}

void Product::ForEachPiece(float* scratch,
                           absl::FunctionRef<void(int64_t, const float*, int64_t)> use) const {
  Run(*this, kMaxDepthOfPieces, InPieces{scratch, use});
}

}  // namespace mirrorflow
