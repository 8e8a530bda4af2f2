// SPDX-License-Identifier: Apache-2.0
//
// The packed matrix consists of blocks of consecutive rows, and each block of panels of
// consecutive columns. A panel is a matrix [depth, width], stored row by row. It is PanelVectors
// vectors wide, except that the last panel of a block can be narrower. A tile of the result stays
// in registers while its panel is read.
#include "kernels/cpu/packed_product.h"

#include <algorithm>
#include <cstring>

#include "framework/core/status.h"
#include "kernels/cpu/float_vectors.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

constexpr int kWideTileVectors = 4;
// Returns the width of a panel in vectors. A product of more than a few rows reads two vectors from
// each row of a panel at a time. With AVX-512, these are two cache lines. With AVX2, they are only
// one, and reading every other line is slow, so a panel has no more than these two vectors.
constexpr int64_t PanelVectors(int64_t vector_floats) { return vector_floats == 16 ? 4 : 2; }

static_assert(PanelVectors(16) * 16 <= PackedProduct::kMaxPart);
static_assert(PanelVectors(8) * 8 <= PackedProduct::kMaxPart);

int64_t VectorFloats() { return HasAvx512() ? 16 : 8; }
int64_t RoundUp(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Calls use(first, depth) for each block of rows. The blocks have about equal depths.
template <typename Use>
MF_INLINE inline void ForEachBlock(int64_t k, const Use use) {
  const int64_t depth = Product::BlockDepth(k);
  for (int64_t first = 0; first < k; first += depth) use(first, std::min(depth, k - first));
}

constexpr int64_t kRowStep = PackedProduct::kRowStep;

// The columns of a tile, and the memory to prefetch while the tile is computed.
struct Columns {
  const float* b;
  int64_t width;  // of the panel
  int64_t depth;
  int64_t right_offset;  // from the first to the third vector of a row of a wide tile, in floats
  float* out;
  int64_t out_stride;  // between rows of the result, in floats
  int64_t count;       // columns of the tile that exist
  bool add;            // to what `out` holds
  const float* bias;   // or null
  const float* next;   // the panel that is read next
  int64_t next_step;   // how much of it to prefetch per row of this panel
};

// Writes the sums of the columns that begin at `at`.
template <int kFloats>
MF_INLINE inline void Finish(const typename VectorOf<kFloats>::type& sums, int64_t at,
                             const Columns& p, float* out) {
  using AnyVector = Unaligned<kFloats>;
  if (at + kFloats <= p.count) {
    auto* const to = reinterpret_cast<AnyVector*>(out + at);
    typename VectorOf<kFloats>::type sum = sums;
    if (p.add) sum += to->vector;
    if (p.bias != nullptr) sum += reinterpret_cast<const AnyVector*>(p.bias + at)->vector;
    to->vector = sum;
    return;
  }
  for (int64_t c = 0; at + c < p.count; ++c) {
    float x = sums[c];
    if (p.add) x += out[at + c];
    if (p.bias != nullptr) x += p.bias[at + c];
    out[at + c] = x;
  }
}

template <int kFloats, int kRows, int kVectors>
MF_INLINE inline void Tile(const float* a, const Columns& p) {
  using Vector = typename VectorOf<kFloats>::type;
  // One array per vector, because GCC would keep an array of arrays in memory.
  Vector sums0[kRows] = {}, sums1[kRows] = {}, sums2[kRows] = {}, sums3[kRows] = {};
  const float *b = p.b, *next = p.next;
  const int64_t depth = p.depth, width = p.width, right_offset = p.right_offset,
                next_step = p.next_step;
  // Unrolled because issuing instructions is the bottleneck when two threads share the core.
#pragma GCC unroll 4
  for (int64_t d = 0; d < depth; ++d, b += width) {
    // With few rows, the hardware prefetcher keeps up by itself.
    if (kVectors < kWideTileVectors && kRows > 4) {
      for (int line = 0; line < 2 * kFloats; line += 16) __builtin_prefetch(next + line, 0, 2);
      next += next_step;
    }
    const auto* const row = reinterpret_cast<const Vector*>(b);
    const auto* const right_row = reinterpret_cast<const Vector*>(b + right_offset);
    const Vector b0 = row[0], b1 = kVectors > 1 ? row[1] : b0;
    const Vector b2 = kVectors > 2 ? right_row[0] : b0, b3 = kVectors > 2 ? right_row[1] : b0;
    for (int r = 0; r < kRows; ++r) {
      const float x = a[r * kRowStep + d];
      sums0[r] += x * b0;
      if (kVectors > 1) sums1[r] += x * b1;
      if (kVectors > 2) sums2[r] += x * b2;
      if (kVectors > 2) sums3[r] += x * b3;
    }
  }
  float* out = p.out;
  // Forces GCC to compute addresses here. Otherwise it keeps one address per row in registers that
  // the sums need.
  asm("" : "+r"(out));
  for (int r = 0; r < kRows; ++r, out += p.out_stride) {
    Finish<kFloats>(sums0[r], 0, p, out);
    if (kVectors > 1) Finish<kFloats>(sums1[r], kFloats, p, out);
    if (kVectors > 2) Finish<kFloats>(sums2[r], 2 * kFloats, p, out);
    if (kVectors > 2) Finish<kFloats>(sums3[r], 3 * kFloats, p, out);
  }
}

// Calls Tile with `rows` rows, which are at most kMaxRows.
template <int kFloats, int kMaxRows, int kVectors>
MF_INLINE inline void TileOf(int64_t rows, const float* a, const Columns& columns) {
  if (rows == kMaxRows) return Tile<kFloats, kMaxRows, kVectors>(a, columns);
  if constexpr (kMaxRows > 1) TileOf<kFloats, kMaxRows - 1, kVectors>(rows, a, columns);
}

// A tile that is two vectors wide has at most kTileRows rows, and a wide tile at most half as many.
template <int kFloats, int kTileRows>
MF_INLINE inline void StoreWith(const PackedProduct& p, PackedProduct::CopyRows copy,
                                const float* b, float* out, const float* bias) {
  constexpr int64_t kPanel = PanelVectors(kFloats) * kFloats;
  constexpr int64_t kWideTile = kWideTileVectors * kFloats;
  alignas(64) float rows[PackedProduct::kMaxRows * kRowStep];
  const int64_t tiles = (p.m + kTileRows - 1) / kTileRows;
  ForEachBlock(p.k, [&](int64_t first, int64_t depth) MF_INLINE {
    copy(first, depth, rows);
    const float* const block_bias = first + depth == p.k ? bias : nullptr;
    // Each tile prefetches a part of the next panel.
    Columns c = {.depth = depth,
                 .out_stride = p.out_stride,
                 .add = first > 0,
                 .next_step = 2 * kFloats / tiles};
    int64_t j = p.first_column;
    // Computes the columns from j to the end of j's panel, and advances j.
    const auto finish_panel = [&]() MF_INLINE {
      const int64_t panel = j / kPanel * kPanel, end = std::min(panel + kPanel, p.end_column);
      c.width = RoundUp(std::min(kPanel, p.n - panel), kFloats);
      const float* const next = b + depth * (panel + c.width);
      for (; j < end; j += 2 * kFloats) {
        const int64_t at = j - panel;
        c.b = b + depth * panel + at;
        c.count = end - j;
        c.bias = block_bias != nullptr ? block_bias + j - p.first_column : nullptr;
        c.next = next + depth * at;
        for (int64_t tile = 0, i = 0, count; tile < tiles; ++tile, i += count) {
          count = (p.m - i + tiles - tile - 1) / (tiles - tile);
          c.out = out + i * p.out_stride + j - p.first_column;
          if (c.count <= kFloats) {
            TileOf<kFloats, kTileRows, 1>(count, rows + i * kRowStep, c);
          } else {
            TileOf<kFloats, kTileRows, 2>(count, rows + i * kRowStep, c);
          }
          c.next += depth * c.next_step;
        }
      }
      j = end;
    };
    if (p.m <= kTileRows / 2) {
      if (j % kPanel != 0) finish_panel();
      for (; j + kWideTile <= p.end_column; j += kWideTile) {
        c.width = kPanel;
        c.right_offset = kPanel < kWideTile ? kPanel * depth : 2 * kFloats;
        c.count = kWideTile;
        c.b = b + depth * j;
        c.out = out + j - p.first_column;
        c.bias = block_bias != nullptr ? block_bias + j - p.first_column : nullptr;
        TileOf<kFloats, kTileRows / 2, kWideTileVectors>(p.m, rows, c);
      }
    }
    while (j < p.end_column) finish_panel();
    b += depth * RoundUp(p.n, kFloats);
  });
}

MF_AVX512 void StoreWithAvx512(const PackedProduct& p, PackedProduct::CopyRows copy, const float* b,
                               float* out, const float* bias) {
  StoreWith<16, 12>(p, copy, b, out, bias);
}

}  // namespace

int64_t PackedProduct::PackedFloats() const { return k * RoundUp(n, VectorFloats()); }

void PackedProduct::ForEachPart(
    absl::FunctionRef<void(int64_t row, int64_t first, int64_t count, int64_t offset)> use) const {
  const int64_t vector = VectorFloats(), panel = PanelVectors(vector) * vector;
  int64_t offset = 0;
  ForEachBlock(k, [&](int64_t first, int64_t depth) {
    for (int64_t j = 0; j < n; j += panel) {
      const int64_t columns = std::min(panel, n - j);
      const int64_t width = RoundUp(columns, vector);
      for (int64_t d = 0; d < depth; ++d, offset += width) use(first + d, j, columns, offset);
    }
  });
}

void PackedProduct::Pack(const StridedMatrix& b, float* packed) const {
  ForEachPart([&](int64_t row, int64_t first, int64_t count, int64_t offset) {
    const float* const from = b.data + row * b.row_step + first * b.column_step;
    float* const to = packed + offset;
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * b.column_step];
    std::fill(to + count, to + RoundUp(count, VectorFloats()), 0.0f);
  });
}

int64_t PackedProduct::RowsPerPart(int64_t m) {
  const int64_t parts = (m + kMaxRows - 1) / kMaxRows;
  return (m + parts - 1) / parts;
}

void PackedProduct::Store(const float* a, const float* b, float* out, const float* bias) const {
  const auto copy = [&](int64_t first, int64_t depth, float* rows) {
    for (int64_t i = 0; i < m; ++i) {
      std::memcpy(rows + i * kRowStep, a + i * k + first, depth * sizeof(float));
    }
  };
  Store(copy, b, out, bias);
}

void PackedProduct::Store(CopyRows copy, const float* b, float* out, const float* bias) const {
  MF_CHECK(m <= kMaxRows);
  if (HasAvx512()) {
    StoreWithAvx512(*this, copy, b, out, bias);
  } else {
    StoreWith<8, 6>(*this, copy, b, out, bias);
  }
}

}  // namespace mirrorflow
