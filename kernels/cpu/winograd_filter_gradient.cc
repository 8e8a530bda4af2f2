// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/winograd_filter_gradient.h"

#include <algorithm>

#include "kernels/cpu/product.h"
#include "kernels/cpu/vectorize.h"
#include "kernels/cpu/winograd_transforms.h"

namespace mirrorflow {
namespace {

using winograd::kGap;
using winograd::PixelsAt;
using winograd::Store;
using winograd::Transform;
using winograd::TransformInput;
using winograd::TransformSquare;
using winograd::WithVectorsOf;

// Transforms the gradient of the tile whose first pixel is (y, x), for all channels. Element e of
// the transformed tile is stored at to + e * step.
template <int kTile>
void TransformOutputGradient(const ConvolutionGeometry& g, const float* image, int64_t y, int64_t x,
                             float* to, int64_t step) {
  constexpr int kSize = kTile + 2;
  WithVectorsOf(g.out_channels, [&](auto width) MF_INLINE {
    constexpr int kFloats = decltype(width)::value;
    PixelsAt<kTile, kFloats> pixels(image, g.h.out, g.w.out, g.filter_channels, y, x);
    for (int64_t c = 0; c < g.out_channels; c += kFloats) {
      pixels.WithChannels(c, [&](const auto load) MF_INLINE {
        TransformSquare<kTile, kSize, kFloats>(
            load,
            [](const auto* in, auto* out) MF_INLINE { Transform<kTile>::OutputGradient(in, out); },
            [&](int i, int j, const auto& v)
                MF_INLINE { Store<kFloats>(to + (i * kSize + j) * step + c, v); });
      });
    }
  });
}

// Transforms sums over tiles back to the gradients of `count` windows. Element e of a sum is at
// from + e * step, and element i of a gradient is stored at to + i * to_step.
template <int kTile>
void TransformFilterGradient(const float* from, int64_t step, int64_t count, float* to,
                             int64_t to_step) {
  constexpr int kSize = kTile + 2;
  WithVectorsOf(count, [&](auto width) MF_INLINE {
    constexpr int kFloats = decltype(width)::value;
    for (int64_t p = 0; p < count; p += kFloats) {
      TransformSquare<kSize, 3, kFloats>(
          [&](int i, int j) MF_INLINE -> const auto& {
            return VectorAt<kFloats>(from + (i * kSize + j) * step + p);
          },
          [](const auto* in, auto* out) MF_INLINE { Transform<kTile>::FilterGradient(in, out); },
          [&](int i, int j, const auto& v)
              MF_INLINE { Store<kFloats>(to + (i * 3 + j) * to_step + p, v); });
    }
  });
}

}  // namespace

WinogradFilterGradient::WinogradFilterGradient(const ConvolutionGeometry& g, int64_t tile)
    : g_(g), grid_(g, tile) {
  // With more tiles, the matrices of an element would not stay in the cache. With fewer, adding to
  // the sums would take longer. With many channels, blocks are smaller to save memory. The block
  // size affects the last bits of results, so it must not depend on how many channels a thread
  // computes.
  const int64_t max_tiles =
      std::clamp<int64_t>((1 << 17) / (g.in_channels + g.filter_channels), 32, 256);
  block_columns_ = WinogradGrid::PartOf(grid_.columns, max_tiles);
  block_rows_ = WinogradGrid::PartOf(grid_.rows, std::max<int64_t>(max_tiles / block_columns_, 1));
}

int64_t WinogradFilterGradient::ScratchFloats() const {
  const int64_t tiles = block_rows_ * block_columns_;
  return elements() * (tiles * (g_.in_channels + g_.out_channels) + pairs() + 3 * kGap);
}

void WinogradFilterGradient::Run(const float* images, const float* output_gradient,
                                 float* filter_gradient, float* scratch) const {
  const int64_t in = g_.in_channels, out = g_.out_channels;
  const int64_t max_tiles = block_rows_ * block_columns_;
  const int64_t in_step = max_tiles * in + kGap, out_step = max_tiles * out + kGap;
  const int64_t sum_step = pairs() + kGap;
  float* const pixels = scratch;
  float* const gradients = pixels + elements() * in_step;
  float* const sums = gradients + elements() * out_step;
  const auto transform_input = grid_.tile == 2 ? TransformInput<2> : TransformInput<4>;
  const auto transform_gradient =
      grid_.tile == 2 ? TransformOutputGradient<2> : TransformOutputGradient<4>;
  WinogradGrid::Block block;
  for (block.first_row = 0; block.first_row < grid_.rows; block.first_row = block.end_row) {
    block.end_row = std::min(block.first_row + block_rows_, grid_.rows);
    for (block.first_column = 0; block.first_column < grid_.columns;
         block.first_column = block.end_column) {
      block.end_column = std::min(block.first_column + block_columns_, grid_.columns);
      grid_.ForEachTile(block, [&](int64_t image, int64_t y, int64_t x, int64_t i) {
        transform_input(g_, images + image * g_.h.in * g_.w.in * in, y - g_.h.before,
                        x - g_.w.before, pixels + i * in, in_step);
        transform_gradient(g_, output_gradient + image * g_.h.out * g_.w.out * g_.filter_channels,
                           y, x, gradients + i * out, out_step);
      });
      const bool is_first = block.first_row == 0 && block.first_column == 0;
      for (int64_t e = 0; e < elements(); ++e) {
        const ProductTerm term = {.a = {pixels + e * in_step, 1, in},
                                  .b = {gradients + e * out_step, out, 1},
                                  .k = block.tiles()};
        const Product product = {{&term, 1}, in, out};
        if (is_first) {
          product.Store(sums + e * sum_step);
        } else {
          product.Subtract(-1, sums + e * sum_step);  // adds
        }
      }
    }
  }
  const auto transform_sums =
      grid_.tile == 2 ? TransformFilterGradient<2> : TransformFilterGradient<4>;
  const int64_t to_step = in * g_.filter_channels;
  if (out == g_.filter_channels) {
    transform_sums(sums, sum_step, pairs(), filter_gradient, to_step);
    return;
  }
  for (int64_t i = 0; i < in; ++i) {
    transform_sums(sums + i * out, sum_step, out, filter_gradient + i * g_.filter_channels,
                   to_step);
  }
}

// Estimates times in the units of Winograd::FastestTile, with constants of the same processor.
int64_t WinogradFilterGradient::FastestTile(const ConvolutionGeometry& g) {
  // Per pixel or tile: the gradient by oneDNN, the products of this class, and transforming a
  // float.
  constexpr double kDirect = 1.5, kProduct = 1.1, kTransform = 28;
  // oneDNN's layout of a filter's element, as multiplications.
  constexpr double kLayout = 70;
  const double pixels = g.batch * g.h.out * g.w.out, in = g.in_channels, out = g.out_channels;
  int64_t fastest = 0;
  double least = 9 * (kDirect * pixels + kLayout);
  for (const int64_t tile : {2, 4}) {
    const WinogradGrid grid(g, tile);
    const double tiles = grid.tiles(), elements = grid.elements();
    const double megabytes = elements * in * out * sizeof(float) * 1e-6;
    if (megabytes > WinogradGrid::kMaxScratchMegabytes) continue;
    // A sum is stored and read again, in the cache or in memory.
    const double time = elements * (tiles * (kProduct + kTransform * (1 / in + 1 / out)) +
                                    std::min(6 + 1.6 * megabytes, 50.0));
    if (time >= least) continue;
    least = time;
    fastest = tile;
  }
  return fastest;
}

}  // namespace mirrorflow
