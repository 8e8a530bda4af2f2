// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/transposed_product.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

template <int kFloats>
struct VectorOf {
  typedef float type __attribute__((vector_size(kFloats * sizeof(float))));
};

// From and to any address.
template <int kFloats>
struct Unaligned {
  typename VectorOf<kFloats>::type vector;
} __attribute__((packed));

// b's columns go by panels that fit into a core's cache with all their rows.
constexpr int64_t kPanelElements = int64_t{1} << 17;
constexpr int kMostRows = 12;  // of a tile
constexpr int kMostColumns = 32;

// Adds a [count, kRows] transposed times kVectors vectors of each row of b, which are `stride`
// floats apart. Everything goes by value: what a reference leads to might change with every number
// that is stored.
template <int kFloats, int kRows, int kVectors, typename Vector>
MF_INLINE inline void Accumulate(const float* a, const float* b, int64_t stride, int64_t count,
                                 Vector (&sums)[kRows][kVectors]) {
  for (int64_t k = 0; k < count; ++k, a += kRows, b += stride) {
    Vector row[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      row[v] = reinterpret_cast<const Unaligned<kFloats>*>(b + v * kFloats)->vector;
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) sums[r][v] += a[r] * row[v];
    }
  }
}

// `finish(at, vector)` for all of a tile that begins at `at` of the product.
template <int kFloats, int kRows, int kVectors, typename Vector, typename Finish>
MF_INLINE inline void FinishTile(int64_t at, int64_t n, const Finish finish,
                                 const Vector (&sums)[kRows][kVectors]) {
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) finish(at + r * n + v * kFloats, sums[r][v]);
  }
}

// kRows columns of a, side by side.
template <int kRows>
MF_INLINE inline void PackColumnsOfA(const TransposedProduct p, int64_t i, float* out) {
  for (const ProductRows& part : p.parts) {
    const float* a = static_cast<const float*>(part.a) + i;
    for (int64_t k = 0; k < part.count; ++k, a += p.m, out += kRows) {
      std::memcpy(out, a, kRows * sizeof(float));
    }
  }
}

// Columns [first, last) of b, kColumns of them side by side, then the next: rows of b may be far
// apart, and at distances for which a cache has few places.
template <int kColumns>
MF_INLINE inline void PackColumnsOfB(const TransposedProduct p, int64_t first, int64_t last,
                                     float* out) {
  for (int64_t j = first; j < last; j += kColumns) {
    for (const ProductRows& part : p.parts) {
      const float* b = static_cast<const float*>(part.b) + j;
      for (int64_t k = 0; k < part.count; ++k, b += p.n, out += kColumns) {
        std::memcpy(out, b, kColumns * sizeof(float));
      }
    }
  }
}

struct Range {
  int64_t first;
  int64_t last;
};

// Few columns of b, where they lie.
template <int kFloats, int kRows, typename Finish>
MF_INLINE inline void NarrowTile(const TransposedProduct p, int64_t i, int64_t j, const float* a,
                                 const Finish finish) {
  typename VectorOf<kFloats>::type sums[kRows][1] = {};
  for (const ProductRows& part : p.parts) {
    const float* b = static_cast<const float*>(part.b) + j;
    Accumulate<kFloats, kRows, 1>(a, b, p.n, part.count, sums);
    a += part.count * kRows;
  }
  FinishTile<kFloats, kRows, 1>(i * p.n + j, p.n, finish, sums);
}

// kRows rows of the product, these columns: whole tiles, for which b is packed, then a few columns
// at a time. There are k rows of a and b.
template <int kFloats, int kRows, typename Finish>
MF_INLINE inline void Rows(const TransposedProduct p, int64_t i, const Range columns, int64_t k,
                           float* packed_a, const float* packed_b, const Finish finish) {
  PackColumnsOfA<kRows>(p, i, packed_a);
  constexpr int kTile = 2 * kFloats;
  int64_t j = columns.first;
  for (; j + kTile <= columns.last; j += kTile, packed_b += k * kTile) {
    typename VectorOf<kFloats>::type sums[kRows][2] = {};
    Accumulate<kFloats, kRows, 2>(packed_a, packed_b, kTile, k, sums);
    FinishTile<kFloats, kRows, 2>(i * p.n + j, p.n, finish, sums);
  }
  for (; j + 4 <= columns.last; j += 4) NarrowTile<4, kRows>(p, i, j, packed_a, finish);
  for (; j < columns.last; ++j) NarrowTile<1, kRows>(p, i, j, packed_a, finish);
}

template <int kFloats, int kRows, typename Finish>
MF_INLINE inline void All(const TransposedProduct p, const Range rows, float* scratch,
                          const Finish finish) {
  static_assert(kRows <= kMostRows && 2 * kFloats <= kMostColumns);
  int64_t k = 0;
  for (const ProductRows& part : p.parts) k += part.count;
  float* const packed_a = scratch;
  float* const packed_b = scratch + k * kMostRows;
  constexpr int64_t kTile = 2 * kFloats;
  const int64_t tiles = kPanelElements / kTile / std::max<int64_t>(k, 1);
  const int64_t panel = std::max<int64_t>(tiles, 1) * kTile;
  for (int64_t j = 0; j < p.n; j += panel) {
    const Range columns = {j, std::min(j + panel, p.n)};
    PackColumnsOfB<kTile>(p, j, j + (columns.last - j) / kTile * kTile, packed_b);
    auto some = [&](auto count, int64_t i) MF_INLINE {
      Rows<kFloats, decltype(count)::value>(p, i, columns, k, packed_a, packed_b, finish);
    };
    int64_t i = rows.first;
    for (; i + kRows <= rows.last; i += kRows) some(std::integral_constant<int, kRows>(), i);
    for (; i + 4 <= rows.last; i += 4) some(std::integral_constant<int, 4>(), i);
    for (; i < rows.last; ++i) some(std::integral_constant<int, 1>(), i);
  }
}

template <typename Finish>
MF_AVX512 void AllWithAvx512(const TransposedProduct p, const Range rows, float* scratch,
                             const Finish finish) {
  All<16, kMostRows>(p, rows, scratch, finish);
}

template <typename Finish>
void Run(const TransposedProduct p, const Range rows, float* scratch, const Finish finish) {
  if (HasAvx512()) {
    AllWithAvx512(p, rows, scratch, finish);
  } else {
    All<8, 6>(p, rows, scratch, finish);
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

}  // namespace

int64_t TransposedProduct::ScratchFloats(int64_t n, int64_t k) {
  return k * kMostRows + std::min(std::max(kPanelElements, k * kMostColumns), k * n);
}

void TransposedProduct::Store(float* scratch, float* out) const {
  Run(*this, {0, m}, scratch, StoreTo{out});
}

void TransposedProduct::Subtract(float alpha, int64_t first, int64_t last, float* scratch,
                                 float* out) const {
  Run(*this, {first, last}, scratch, SubtractFrom{out, alpha});
}

}  // namespace mirrorflow
