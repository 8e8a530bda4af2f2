// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/transposed_product.h"

#include <algorithm>

#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

// A quarter of a small L2: 128 KB.
constexpr int64_t kNearFloats = 32 << 10;

template <int kFloats>
struct VectorOf {
  typedef float type __attribute__((vector_size(kFloats * sizeof(float))));
};

// From and to any address.
template <int kFloats>
struct Unaligned {
  typename VectorOf<kFloats>::type vector;
} __attribute__((packed));

// Everything goes by value: what a reference leads to might change with every number that is
// stored. `finish(out, tile)` for kRows x kVectors vectors of the product from row i and column j
// on.
template <int kFloats, int kRows, int kVectors, typename Finish>
MF_INLINE inline void Tile(const TransposedProduct p, int64_t i, int64_t j, const Finish finish) {
  using Vector = typename VectorOf<kFloats>::type;
  Vector sums[kRows][kVectors] = {};
  const float* a = p.a + i;
  const float* b = p.b + j;
  for (int64_t k = 0; k < p.k; ++k, a += p.a_stride, b += p.n) {
    Vector row[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      row[v] = reinterpret_cast<const Unaligned<kFloats>*>(b + v * kFloats)->vector;
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) sums[r][v] += a[r] * row[v];
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      finish((i + r) * p.n + j + v * kFloats, sums[r][v]);
    }
  }
}

// Columns [first, last) of kRows rows: whole tiles, then a few columns at a time.
template <int kFloats, int kRows, typename Finish>
MF_INLINE inline void Rows(const TransposedProduct p, int64_t i, int64_t first, int64_t last,
                           const Finish finish) {
  int64_t j = first;
  for (; j + 2 * kFloats <= last; j += 2 * kFloats) Tile<kFloats, kRows, 2>(p, i, j, finish);
  for (; j + 4 <= last; j += 4) Tile<4, kRows, 1>(p, i, j, finish);
  for (; j < last; ++j) Tile<1, kRows, 1>(p, i, j, finish);
}

// So many columns at a time that their part of b, which all rows read, stays near the core.
template <int kFloats, int kRows, typename Finish>
MF_INLINE inline void All(const TransposedProduct p, const Finish finish) {
  const int64_t columns = std::max<int64_t>(64, kNearFloats / std::max<int64_t>(p.k, 1) / 64 * 64);
  for (int64_t first = 0; first < p.n; first += columns) {
    const int64_t last = std::min(first + columns, p.n);
    int64_t i = 0;
    for (; i + kRows <= p.m; i += kRows) Rows<kFloats, kRows>(p, i, first, last, finish);
    for (; i + 4 <= p.m; i += 4) Rows<kFloats, 4>(p, i, first, last, finish);
    for (; i < p.m; ++i) Rows<kFloats, 1>(p, i, first, last, finish);
  }
}

template <typename Finish>
MF_AVX512 void AllWithAvx512(const TransposedProduct p, const Finish finish) {
  All<16, 12>(p, finish);
}

template <typename Finish>
void Run(const TransposedProduct p, const Finish finish) {
  if (HasAvx512()) {
    AllWithAvx512(p, finish);
  } else {
    All<8, 6>(p, finish);
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

void TransposedProduct::Store(float* out) const { Run(*this, StoreTo{out}); }

void TransposedProduct::Subtract(float alpha, float* out) const {
  Run(*this, SubtractFrom{out, alpha});
}

}  // namespace mirrorflow
