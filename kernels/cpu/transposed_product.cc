// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/transposed_product.h"

#include <algorithm>

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

// Everything goes by value: what a reference leads to might change with every number that is
// stored. `finish(out, tile)` for kRows x kVectors vectors of the product from row i and column j
// on.
template <int kFloats, int kRows, int kVectors, typename Finish>
MF_INLINE inline void Tile(const TransposedProduct p, int64_t i, int64_t j, const Finish finish) {
  using Vector = typename VectorOf<kFloats>::type;
  Vector sums[kRows][kVectors] = {};
  for (const ProductRows& part : p.parts) {
    const float* a = static_cast<const float*>(part.a) + i;
    const float* b = static_cast<const float*>(part.b) + j;
    for (int64_t k = 0; k < part.count; ++k, a += p.m, b += p.n) {
      Vector row[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        row[v] = reinterpret_cast<const Unaligned<kFloats>*>(b + v * kFloats)->vector;
      }
      for (int r = 0; r < kRows; ++r) {
        for (int v = 0; v < kVectors; ++v) sums[r][v] += a[r] * row[v];
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      finish((i + r) * p.n + j + v * kFloats, sums[r][v]);
    }
  }
}

struct Range {
  int64_t first;
  int64_t last;
};

// kRows rows, these columns: whole tiles, then a few columns at a time.
template <int kFloats, int kRows, typename Finish>
MF_INLINE inline void Rows(const TransposedProduct p, int64_t i, const Range columns,
                           const Finish finish) {
  int64_t j = columns.first;
  for (; j + 2 * kFloats <= columns.last; j += 2 * kFloats) {
    Tile<kFloats, kRows, 2>(p, i, j, finish);
  }
  for (; j + 4 <= columns.last; j += 4) Tile<4, kRows, 1>(p, i, j, finish);
  for (; j < columns.last; ++j) Tile<1, kRows, 1>(p, i, j, finish);
}

template <int kFloats, int kRows, typename Finish>
MF_INLINE inline void All(const TransposedProduct p, const Range rows, const Finish finish) {
  int64_t k = 0;
  for (const ProductRows& part : p.parts) k += part.count;
  constexpr int64_t kTile = 2 * kFloats;
  const int64_t tiles = kPanelElements / kTile / std::max<int64_t>(k, 1);
  const int64_t panel = std::max<int64_t>(tiles, 1) * kTile;
  for (int64_t j = 0; j < p.n; j += panel) {
    const Range columns = {j, std::min(j + panel, p.n)};
    int64_t i = rows.first;
    for (; i + kRows <= rows.last; i += kRows) Rows<kFloats, kRows>(p, i, columns, finish);
    for (; i + 4 <= rows.last; i += 4) Rows<kFloats, 4>(p, i, columns, finish);
    for (; i < rows.last; ++i) Rows<kFloats, 1>(p, i, columns, finish);
  }
}

template <typename Finish>
MF_AVX512 void AllWithAvx512(const TransposedProduct p, const Range rows, const Finish finish) {
  All<16, 12>(p, rows, finish);
}

template <typename Finish>
void Run(const TransposedProduct p, const Range rows, const Finish finish) {
  if (HasAvx512()) {
    AllWithAvx512(p, rows, finish);
  } else {
    All<8, 6>(p, rows, finish);
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

void TransposedProduct::Store(float* out) const { Run(*this, {0, m}, StoreTo{out}); }

void TransposedProduct::Subtract(float alpha, int64_t first, int64_t last, float* out) const {
  Run(*this, {first, last}, SubtractFrom{out, alpha});
}

}  // namespace mirrorflow
