// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/transposed_product.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

constexpr int64_t kNearFloats = 32 << 10;  // a quarter of a small L2: 128 KB
constexpr int64_t kMaxTogether = 512;      // of k
constexpr int64_t kMostColumns = 2048;     // at once
constexpr int kMostRows = 12;

template <int kFloats>
struct VectorOf {
  typedef float type __attribute__((vector_size(kFloats * sizeof(float))));
};

// From and to any address.
template <int kFloats>
struct Unaligned {
  typename VectorOf<kFloats>::type vector;
} __attribute__((packed));

// What a tile is made of: a [k, rows] and b [k, columns], whose rows are so many floats apart.
struct Operands {
  const float* a;
  const float* b;
  int64_t a_stride;
  int64_t b_stride;
  int64_t k;
};

// Everything goes by value: what a reference leads to might change with every number that is
// stored. `finish(at, sum)` for kRows x kVectors vectors of the product, of which the first belongs
// to element `at` of the result, whose rows are n elements.
template <int kFloats, int kRows, int kVectors, typename Finish>
MF_INLINE inline void Tile(const Operands p, int64_t at, int64_t n, const Finish finish) {
  static_assert(kVectors == 1 || kVectors == 2);
  using Vector = typename VectorOf<kFloats>::type;
  // Two arrays and two numbers, not arrays of two: GCC would keep those in memory.
  Vector left[kRows] = {}, right[kRows] = {};
  const float* a = p.a;
  const float* b = p.b;
  for (int64_t k = 0; k < p.k; ++k, a += p.a_stride, b += p.b_stride) {
    const auto* const row = reinterpret_cast<const Unaligned<kFloats>*>(b);
    const Vector b_left = row[0].vector, b_right = row[kVectors - 1].vector;
    for (int r = 0; r < kRows; ++r) {
      left[r] += a[r] * b_left;
      if (kVectors == 2) right[r] += a[r] * b_right;
    }
  }
  // Where the numbers go is worked out here and not before: GCC would keep an address a row in the
  // registers that it needs for the sums.
  asm("" : "+r"(at));
  for (int r = 0; r < kRows; ++r) {
    finish(at + r * n, left[r]);
    if (kVectors == 2) finish(at + r * n + kFloats, right[r]);
  }
}

// `columns` columns of kRows rows, which go to `at`: whole tiles, then a few columns at a time.
template <int kFloats, int kRows, typename Finish>
MF_INLINE inline void Rows(Operands p, int64_t columns, int64_t at, int64_t n,
                           const Finish finish) {
  float rows[kMaxTogether * kRows];
  if (p.k <= kMaxTogether) {
    float* to = rows;
    for (int64_t k = 0; k < p.k; ++k) {
      for (int r = 0; r < kRows; ++r) *to++ = p.a[k * p.a_stride + r];
    }
    p.a = rows;
    p.a_stride = kRows;
  }
  const float* const b = p.b;
  int64_t j = 0;
  for (; j + 2 * kFloats <= columns; j += 2 * kFloats) {
    p.b = b + j;
    Tile<kFloats, kRows, 2>(p, at + j, n, finish);
  }
  for (; j + 4 <= columns; j += 4) {
    p.b = b + j;
    Tile<4, kRows, 1>(p, at + j, n, finish);
  }
  for (; j < columns; ++j) {
    p.b = b + j;
    Tile<1, kRows, 1>(p, at + j, n, finish);
  }
}

// A block of columns, kRows rows at a time. `sink` says where each of these goes.
template <int kFloats, int kRows, typename Sink>
MF_INLINE inline void Columns(Operands p, int64_t m, int64_t n, int64_t first, int64_t columns,
                              const Sink sink) {
  int64_t i = 0;
  const auto some = [&](auto rows) MF_INLINE {
    constexpr int kSome = decltype(rows)::value;
    for (; i + kSome <= m; i += kSome, p.a += kSome) {
      const int64_t at = i * n + first;
      Rows<kFloats, kSome>(p, columns, sink.First(at), sink.Stride(n, columns), sink.finish());
      sink.Done(at, n, kSome, columns);
    }
  };
  some(std::integral_constant<int, kRows>());
  some(std::integral_constant<int, 4>());
  some(std::integral_constant<int, 1>());
}

int64_t ColumnsAtOnce(int64_t k) {
  constexpr int64_t kFewest = 64;
  return std::clamp(kNearFloats / std::max<int64_t>(k, 1) / kFewest * kFewest, kFewest,
                    kMostColumns);
}

// So many columns at a time that their part of b, which all rows read, stays near the core. What a
// tile reads is copied together where there is room: rows that are a power of two apart would push
// one another out of the cache.
template <int kFloats, int kRows, typename Sink>
MF_INLINE inline void All(const TransposedProduct p, const Sink sink) {
  const int64_t width = ColumnsAtOnce(p.k);
  alignas(64) float near[kNearFloats];
  for (int64_t first = 0; first < p.n; first += width) {
    const int64_t columns = std::min(width, p.n - first);
    Operands block = {p.a, p.b + first, p.a_stride, p.n, p.k};
    if (p.k * columns <= kNearFloats) {
      float* to = near;
      for (int64_t k = 0; k < p.k; ++k) to = std::copy_n(block.b + k * p.n, columns, to);
      block.b = near;
      block.b_stride = columns;
    }
    Columns<kFloats, kRows>(block, p.m, p.n, first, columns, sink);
  }
}

template <typename Sink>
MF_AVX512 void AllWithAvx512(const TransposedProduct p, const Sink sink) {
  All<16, kMostRows>(p, sink);
}

template <typename Sink>
void Run(const TransposedProduct p, const Sink sink) {
  if (HasAvx512()) {
    AllWithAvx512(p, sink);
  } else {
    All<8, 6>(p, sink);
  }
}

struct StoreTo {
  float* out;
  template <typename Vector>
  MF_INLINE void operator()(int64_t at, const Vector& sum) const {
    reinterpret_cast<Unaligned<sizeof(sum) / 4>*>(out + at)->vector = sum;
  }
};

struct SubtractFrom {
  float* out;
  float alpha;
  template <typename Vector>
  MF_INLINE void operator()(int64_t at, const Vector& sum) const {
    auto* to = reinterpret_cast<Unaligned<sizeof(sum) / 4>*>(out + at);
    to->vector = to->vector - alpha * sum;
  }
};

// Each number goes where it belongs.
template <typename Finish>
struct InPlace {
  Finish to;
  MF_INLINE int64_t First(int64_t at) const { return at; }
  MF_INLINE int64_t Stride(int64_t n, int64_t) const { return n; }
  MF_INLINE Finish finish() const { return to; }
  MF_INLINE void Done(int64_t, int64_t, int64_t, int64_t) const {}
};

// Some rows are collected, then handed on.
struct InPieces {
  float* piece;
  absl::FunctionRef<void(int64_t, const float*, int64_t)> use;
  MF_INLINE int64_t First(int64_t) const { return 0; }
  MF_INLINE int64_t Stride(int64_t, int64_t columns) const { return columns; }
  MF_INLINE StoreTo finish() const { return {piece}; }
  MF_INLINE void Done(int64_t at, int64_t n, int64_t rows, int64_t columns) const {
    for (int64_t r = 0; r < rows; ++r) use(at + r * n, piece + r * columns, columns);
  }
};

}  // namespace

int64_t TransposedProduct::PieceFloats() { return kMostRows * kMostColumns; }

void TransposedProduct::Store(float* out) const { Run(*this, InPlace<StoreTo>{{out}}); }

void TransposedProduct::Subtract(float alpha, float* out) const {
  Run(*this, InPlace<SubtractFrom>{{out, alpha}});
}

void TransposedProduct::ForEachPiece(
    float* scratch, absl::FunctionRef<void(int64_t, const float*, int64_t)> use) const {
  Run(*this, InPieces{scratch, use});
}

}  // namespace mirrorflow
