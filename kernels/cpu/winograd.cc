// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/winograd.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/vectorize.h"
#include "kernels/cpu/winograd_transforms.h"

namespace mirrorflow {
namespace {

using winograd::kChannels;
using winograd::kGap;
using winograd::Store;
using winograd::Transform;
using winograd::TransformInput;
using winograd::TransformSquare;
using winograd::Vector;
using winograd::WithVectorsOf;

// Transforms a tile of products back and adds the bias unless it is null. Stores the pixels that
// are inside the image; (y, x) is the first.
template <int kTile>
void TransformOutput(const ConvolutionGeometry& g, const float* from, int64_t step,
                     const float* bias, float* image, int64_t y, int64_t x) {
  constexpr int kSize = kTile + 2;
  const int64_t channels = g.out_channels;
  const int64_t row_step = g.w.out * g.out_stride;
  const int64_t i1 = std::min<int64_t>(kTile, g.h.out - y);
  const int64_t j1 = std::min<int64_t>(kTile, g.w.out - x);
  float* const to = image + y * row_step + x * g.out_stride;
  WithVectorsOf(channels, [&](auto width) MF_INLINE {
    constexpr int kFloats = decltype(width)::value;
    for (int64_t c = 0; c < channels; c += kFloats) {
      const Vector<kFloats> b =
          bias != nullptr ? VectorAt<kFloats>(bias + c).vector : Vector<kFloats>{};
      TransformSquare<kSize, kTile, kFloats>(
          [&](int i, int j) MF_INLINE -> const auto& {
            return VectorAt<kFloats>(from + (i * kSize + j) * step + c);
          },
          [](const auto* in, auto* out) MF_INLINE { Transform<kTile>::Output(in, out); },
          [&](int i, int j, const auto& v) MF_INLINE {
            if (i < i1 && j < j1) Store<kFloats>(to + i * row_step + j * g.out_stride + c, v + b);
          });
    }
  });
}

// Transforms `count` windows, a multiple of 8 and at most kMaxPart. Element i of window w is
// windows[i][w]; element e of the transformed window is stored at to + e * step + w.
template <int kTile>
void TransformFilter(const float* const* windows, int64_t count, float* to, int64_t step) {
  constexpr int kSize = kTile + 2;
  // Collects whole cache lines, because the elements compete for the same sets of the cache.
  alignas(64) float transformed[kSize * kSize][PackedProduct::kMaxPart];
  WithVectorsOf(count, [&](auto width) MF_INLINE {
    constexpr int kFloats = decltype(width)::value;
    for (int64_t w = 0; w < count; w += kFloats) {
      TransformSquare<3, kSize, kFloats>(
          [&](int i, int j)
              MF_INLINE -> const auto& { return VectorAt<kFloats>(windows[i * 3 + j] + w); },
          [](const auto* in, auto* out) MF_INLINE { Transform<kTile>::Filter(in, out); },
          [&](int i, int j, const auto& v)
              MF_INLINE { Store<kFloats>(transformed[i * kSize + j] + w, v); });
    }
    for (int e = 0; e < kSize * kSize; ++e) {
      for (int64_t w = 0; w < count; w += kFloats) {
        Store<kFloats>(to + e * step + w, VectorAt<kFloats>(transformed[e] + w).vector);
      }
    }
  });
}

}  // namespace

bool Winograd::Supports(const ConvolutionGeometry& g) {
  const auto suits = [](const Window& w) {
    return w.size == 3 && w.stride == 1 && w.dilation == 1 && w.before <= 2 && w.after() <= 2;
  };
  constexpr int64_t kMaxChannelPairs = int64_t{1} << 32;
  return !g.nchw && g.groups == 1 && suits(g.h) && suits(g.w) && g.in_channels % kChannels == 0 &&
         g.out_channels % kChannels == 0 && g.in_channels <= kMaxChannelPairs / g.out_channels;
}

// Estimates times in units of the multiplication of one pixel by the channels of one element of the
// filter. The constants were measured on a Zen 3 processor with AVX2. AVX-512 halves the time of a
// multiplication, but not the time to read the filter, which is the bottleneck for small images.
// The other constants are not tuned for AVX-512.
int64_t Winograd::FastestTile(const ConvolutionGeometry& g, Windows windows, bool makes_form) {
  // Reading an element of the filter from memory takes as long as multiplying this many pixels.
  const double pixels_per_read = HasAvx512() ? 24 : 12;
  // The direct convolution by oneDNN reaches 0.9 of the speed of a product.
  constexpr double kDirect = 1.1;
  // Transforming a float takes as long as this many multiplications.
  constexpr double kTransform = 28;
  // Making an element of a form takes as long as 20 multiplications in the cache and up to 75 in
  // memory, and rotating a window as long as 400.
  const double rotation = windows == Windows::kRotated ? 400 : 0;
  const double pixels = g.batch * g.h.out * g.w.out, in = g.in_channels, out = g.out_channels;
  // oneDNN also reorders the filter, for the gradient of images in hardly any time.
  const double reorder = makes_form && windows == Windows::kAsStored ? 30 : 0;
  int64_t fastest = 0;
  double least = 9 * (kDirect * pixels + pixels_per_read + reorder);
  for (const int64_t tile : {2, 4}) {
    const WinogradGrid grid(g, tile);
    const double tiles = grid.tiles(), elements = grid.elements();
    const double megabytes = elements * in * out * sizeof(float) * 1e-6;
    if (makes_form && megabytes > WinogradGrid::kMaxScratchMegabytes) continue;
    const double time =
        elements * (std::max(tiles, pixels_per_read) + kTransform * tiles * (1 / in + 1 / out)) +
        (makes_form ? elements * std::min(20 + 2.5 * megabytes, 75.0) + rotation : 0);
    if (time >= least) continue;
    least = time;
    fastest = tile;
  }
  return fastest;
}

ConvolutionGeometry Winograd::GradientOfImages(const ConvolutionGeometry& g) {
  const auto reversed = [](const Window& w) {
    return Window{.in = w.out, .out = w.in, .size = w.size, .before = w.size - 1 - w.before};
  };
  return {.batch = g.batch,
          .in_channels = g.out_channels,
          .out_channels = g.in_channels,
          .h = reversed(g.h),
          .w = reversed(g.w),
          .nchw = g.nchw,
          .groups = g.groups};
}

Winograd::Winograd(const ConvolutionGeometry& g, int64_t tile, Windows windows)
    : g_(g), windows_(windows), grid_(g, tile) {
  // A block has as many tiles as a product has rows at once, so that its values stay in the cache.
  const int64_t max_rows = std::max<int64_t>(PackedProduct::kMaxRows / grid_.columns, 1);
  block_rows_ = WinogradGrid::PartOf(grid_.rows, max_rows);
  block_columns_ = PackedProduct::RowsPerPart(grid_.columns);
}

int64_t Winograd::FirstPixelOf(int64_t row) const {
  const int64_t image = row / grid_.rows_per_image, y = row % grid_.rows_per_image * grid_.tile;
  return (image * g_.h.out + y) * g_.w.out;
}

std::string Winograd::FormKey() const {
  return absl::StrCat("winograd ", grid_.tile, windows_ == Windows::kRotated ? " rotated " : " ",
                      g_.in_channels, " ", g_.filter_channels);
}

int64_t Winograd::FormFloats() const { return elements() * ProductOf(1).PackedFloats(); }

int64_t Winograd::ScratchFloats() const {
  const int64_t tiles = block_rows_ * block_columns_;
  return elements() * (tiles * (g_.in_channels + g_.out_channels) + 2 * kGap);
}

void Winograd::MakeForm(const float* filter, float* form) const {
  const PackedProduct product = ProductOf(1);
  const int64_t in = g_.in_channels, out = g_.filter_channels;
  const auto transform = grid_.tile == 2 ? TransformFilter<2> : TransformFilter<4>;
  product.ForEachPart([&](int64_t row, int64_t first, int64_t count, int64_t offset) {
    alignas(64) float rotated[9][PackedProduct::kMaxPart];
    const float* windows[9];
    for (int i = 0; i < 9; ++i) {
      if (windows_ == Windows::kAsStored) {
        windows[i] = filter + (i * in + row) * out + first;
      } else {
        const float* from = filter + ((8 - i) * out + first) * in + row;
        for (int64_t c = 0; c < count; ++c, from += in) rotated[i][c] = *from;
        windows[i] = rotated[i];
      }
    }
    transform(windows, count, form + offset, product.PackedFloats());
  });
}

void Winograd::Run(const WinogradGrid::Block& block, const float* images, const float* form,
                   const float* bias, float* out, float* scratch) const {
  const int64_t in_step = block.tiles() * g_.in_channels + kGap;
  const int64_t out_step = block.tiles() * g_.out_channels + kGap;
  float* const transformed = scratch;
  float* const products = scratch + elements() * in_step;
  grid_.ForEachTile(block, [&](int64_t image, int64_t y, int64_t x, int64_t tile) {
    const auto transform = grid_.tile == 2 ? TransformInput<2> : TransformInput<4>;
    transform(g_, images + image * g_.h.in * g_.w.in * g_.in_channels, y - g_.h.before,
              x - g_.w.before, transformed + tile * g_.in_channels, in_step);
  });
  const PackedProduct product = ProductOf(block.tiles());
  for (int64_t e = 0; e < elements(); ++e) {
    product.Store(transformed + e * in_step, form + e * product.PackedFloats(),
                  products + e * out_step);
  }
  grid_.ForEachTile(block, [&](int64_t image, int64_t y, int64_t x, int64_t tile) {
    const auto transform = grid_.tile == 2 ? TransformOutput<2> : TransformOutput<4>;
    transform(g_, products + tile * g_.out_channels, out_step, bias,
              out + image * g_.h.out * g_.w.out * g_.out_stride, y, x);
  });
}

void Winograd::Run(const float* images, const float* form, const float* bias, float* out,
                   float* scratch,
                   absl::FunctionRef<void(int64_t first, int64_t pixels)> finish) const {
  WinogradGrid::Block block;
  for (block.first_row = 0; block.first_row < grid_.rows; block.first_row = block.end_row) {
    block.end_row = std::min(block.first_row + block_rows_, grid_.rows);
    for (block.first_column = 0; block.first_column < grid_.columns;
         block.first_column = block.end_column) {
      block.end_column = std::min(block.first_column + block_columns_, grid_.columns);
      Run(block, images, form, bias, out, scratch);
    }
    const int64_t first = FirstPixelOf(block.first_row);
    finish(first, FirstPixelOf(block.end_row) - first);
  }
}

}  // namespace mirrorflow
