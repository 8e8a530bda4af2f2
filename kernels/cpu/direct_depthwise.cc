// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/direct_depthwise.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/float_vectors.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

// Neighbouring output pixels of a row, and the filter taps that are inside the image for all of
// them. Pixels and taps are vectors of `channels` floats.
struct Tile {
  const float* image;   // the input pixel of the first tap of the first output pixel
  int64_t row_step;     // floats between the input pixels of a tap and of the tap below it
  int64_t column_step;  // floats between the input pixels of neighbouring taps
  const float* filter;  // the first tap
  int64_t filter_row_step;
  int64_t rows;  // of taps
  int64_t columns;
  int64_t channels;
  const float* bias;  // or null
  float* out;
  uintptr_t ahead;  // the address of input pixels that only the next output row reads
};

template <int kFloats>
MF_INLINE inline const Unaligned<kFloats>& At(const float* at) {
  return *reinterpret_cast<const Unaligned<kFloats>*>(at);
}

// Stores sum + bias for the channels from `c` on.
template <int kFloats>
MF_INLINE inline void Store(const Tile& tile, int64_t c,
                            const typename VectorOf<kFloats>::type& sum, float* out) {
  auto* const to = reinterpret_cast<Unaligned<kFloats>*>(out + c);
  to->vector = tile.bias != nullptr ? sum + At<kFloats>(tile.bias + c).vector : sum;
}

// Fetches a share of the pixels ahead, and the memory of the next tile's output, while the vector
// of channels at `c` is computed. Hardware prefetchers do not follow these loops, which step from
// pixel to pixel. On one core of a Zen 3 processor, 3x3 windows over 4 images of 56x56 pixels and
// 144 channels that come from memory: 13 GFLOP/s without, 27 with. Off with AVX-512, where it was
// not measured.
template <int kFloats, int kPixels, int kStride>
MF_INLINE inline void Prefetch(const Tile& tile, int64_t c) {
  if constexpr (kFloats == 8) {
    constexpr int kLine = 64;  // bytes
    constexpr int kIn = kPixels * kStride * kStride * sizeof(float), kOut = kPixels * sizeof(float);
    // Addresses, because these may be past the ends of the images and the output.
    const uintptr_t in = tile.ahead + kIn * c;
    const uintptr_t out = reinterpret_cast<uintptr_t>(tile.out) + kOut * (tile.channels + c);
    for (int at = 0; at < kIn * kFloats; at += kLine) {
      __builtin_prefetch(reinterpret_cast<const void*>(in + at), /*rw=*/0, /*locality=*/2);
    }
    for (int at = 0; at < kOut * kFloats; at += kLine) {
      __builtin_prefetch(reinterpret_cast<const void*>(out + at), /*rw=*/1);
    }
  }
}

// Computes kPixels pixels that are kStride input pixels apart, with all kColumns columns of taps.
template <int kFloats, int kPixels, int kColumns, int kStride>
MF_INLINE inline void ComputeTile(const Tile& tile) {
  using Vector = typename VectorOf<kFloats>::type;
  const int64_t channels = tile.channels;
  for (int64_t next = 0; next < channels; next += kFloats) {
    const int64_t c = std::min(next, channels - kFloats);  // the last vector may overlap
    const float *image = tile.image + c, *filter = tile.filter + c;
    Prefetch<kFloats, kPixels, kStride>(tile, c);
    Vector sums[kPixels] = {};
    for (int64_t i = 0; i < tile.rows; ++i) {
      Vector taps[kColumns];
      for (int j = 0; j < kColumns; ++j) taps[j] = At<kFloats>(filter + j * channels).vector;
      constexpr int kInputs = (kPixels - 1) * kStride + kColumns;
#pragma GCC unroll 16
      for (int x = 0; x < kInputs; ++x) {
        const Vector pixel = At<kFloats>(image + x * channels).vector;
#pragma GCC unroll 16
        for (int p = 0; p < kPixels; ++p) {
          const int j = x - p * kStride;
          if (j >= 0 && j < kColumns) sums[p] += pixel * taps[j];
        }
      }
      image += tile.row_step;
      filter += tile.filter_row_step;
    }
    for (int p = 0; p < kPixels; ++p) {
      Store<kFloats>(tile, c, sums[p], tile.out + p * channels);
    }
  }
}

// Computes kVectors vectors of one pixel, from channel `c` on.
template <int kFloats, int kVectors>
MF_INLINE inline void ComputeVectors(const Tile& tile, int64_t c) {
  using Vector = typename VectorOf<kFloats>::type;
  Vector sums[kVectors] = {};
  const float *image = tile.image + c, *filter = tile.filter + c;
  for (int64_t i = 0; i < tile.rows; ++i) {
    const float *pixel = image, *tap = filter;
    for (int64_t j = 0; j < tile.columns; ++j) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sums[v] += At<kFloats>(pixel + v * kFloats).vector * At<kFloats>(tap + v * kFloats).vector;
      }
      pixel += tile.column_step;
      tap += tile.channels;
    }
    image += tile.row_step;
    filter += tile.filter_row_step;
  }
  for (int v = 0; v < kVectors; ++v) Store<kFloats>(tile, c + v * kFloats, sums[v], tile.out);
}

template <int kFloats>
MF_INLINE inline void ComputePixel(const Tile& tile) {
  constexpr int kVectors = 4;
  int64_t c = 0;
  for (; c + kVectors * kFloats <= tile.channels; c += kVectors * kFloats) {
    ComputeVectors<kFloats, kVectors>(tile, c);
  }
  for (; c < tile.channels; c += kFloats) {
    ComputeVectors<kFloats, 1>(tile, std::min(c, tile.channels - kFloats));
  }
}

// Computes `pixels` pixels of a row in tiles; `tile` describes the first pixel. If the pixels do
// not fill a tile, computes nothing and returns false.
template <int kFloats, int kColumns, int kStride>
MF_INLINE inline bool ComputeTiles(Tile tile, int64_t pixels) {
  constexpr int kPixels = 4;
  if (pixels < kPixels) return false;
  const float* const image = tile.image;
  float* const out = tile.out;
  const uintptr_t ahead = tile.ahead;
  for (int64_t next = 0; next < pixels; next += kPixels) {
    const int64_t x = std::min(next, pixels - kPixels);  // the last tile may overlap
    tile.image = image + x * kStride * tile.channels;
    tile.out = out + x * tile.channels;
    tile.ahead = ahead + x * kStride * kStride * tile.channels * sizeof(float);
    ComputeTile<kFloats, kPixels, kColumns, kStride>(tile);
  }
  return true;
}

// Like ComputeTiles, for the windows of most networks. Returns false for others.
template <int kFloats>
MF_INLINE inline bool ComputeTiles(const Window& w, const Tile& tile, int64_t pixels) {
  if (w.dilation != 1) return false;
  if (w.size == 3 && w.stride == 1) return ComputeTiles<kFloats, 3, 1>(tile, pixels);
  if (w.size == 3 && w.stride == 2) return ComputeTiles<kFloats, 3, 2>(tile, pixels);
  if (w.size == 5 && w.stride == 1) return ComputeTiles<kFloats, 5, 1>(tile, pixels);
  if (w.size == 5 && w.stride == 2) return ComputeTiles<kFloats, 5, 2>(tile, pixels);
  return false;
}

template <int kFloats>
MF_INLINE inline void RunWith(const DirectDepthwise& d, const float* images, const float* filter,
                              const float* bias, const float* addend, float* out) {
  const Window &h = d.h, &w = d.w;
  const int64_t channels = d.channels;
  // The pixels [first, last) of a row use all columns of taps.
  const auto is_interior = [&](int64_t x) { return w.start(x) >= 0 && w.last_tap(x) == w.size; };
  int64_t first = 0;
  while (first < w.out && !is_interior(first)) ++first;
  int64_t last = first;
  while (last < w.out && is_interior(last)) ++last;

  const int64_t row_floats = w.out * channels;
  for (int64_t n = 0; n < d.batch; ++n, images += h.in * w.in * channels) {
    for (int64_t y = 0; y < h.out; ++y, out += row_floats) {
      const int64_t row = h.first_tap(y);
      const auto tile_at = [&](int64_t x) {
        const int64_t column = w.first_tap(x);
        const int64_t input =
            (h.start(y) + row * h.dilation) * w.in + w.start(x) + column * w.dilation;
        // The next output row reads `stride` more input rows.
        const int64_t ahead = (h.start(y) + h.size) * w.in + x * w.stride * w.stride;
        return Tile{.image = images + input * channels,
                    .row_step = h.dilation * w.in * channels,
                    .column_step = w.dilation * channels,
                    .filter = filter + (row * w.size + column) * channels,
                    .filter_row_step = w.size * channels,
                    .rows = std::max<int64_t>(h.last_tap(y) - row, 0),
                    .columns = std::max<int64_t>(w.last_tap(x) - column, 0),
                    .channels = channels,
                    .bias = bias,
                    .out = out + x * channels,
                    .ahead = reinterpret_cast<uintptr_t>(images) +
                             ahead * channels * static_cast<int64_t>(sizeof(float))};
      };
      const bool has_tiles = first < last && ComputeTiles<kFloats>(w, tile_at(first), last - first);
      for (int64_t x = 0; x < w.out; ++x) {
        if (has_tiles && x == first) x = last;
        if (x < w.out) ComputePixel<kFloats>(tile_at(x));
      }
      d.epilogue.Run(out, addend, row_floats);
      if (addend != nullptr) addend += row_floats;
    }
  }
}

MF_AVX512 void RunWithAvx512(const DirectDepthwise& d, const float* images, const float* filter,
                             const float* bias, const float* addend, float* out) {
  RunWith<16>(d, images, filter, bias, addend, out);
}

}  // namespace

bool DirectDepthwise::Supports(int64_t channels) { return channels >= (HasAvx512() ? 16 : 8); }

void DirectDepthwise::Run(const float* images, const float* filter, const float* bias,
                          const float* addend, float* out) const {
  if (HasAvx512()) {
    RunWithAvx512(*this, images, filter, bias, addend, out);
  } else {
    RunWith<8>(*this, images, filter, bias, addend, out);
  }
}

}  // namespace mirrorflow
