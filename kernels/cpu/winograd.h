// SPDX-License-Identifier: Apache-2.0
//
// Winograd computes convolutions with 3x3 windows in fewer multiplications, as in Lavin and Gray,
// "Fast Algorithms for Convolutional Neural Networks" (2016). The output is divided into tiles of
// r x r pixels. The (r + 2) x (r + 2) pixels under a tile are transformed, multiplied by a
// transformed window, element by element, and transformed back. This takes (r + 2)^2
// multiplications per tile. A direct convolution takes 9 r^2: 2.25 times as many if r is 2, and 4
// times as many if r is 4.
//
// Steps that do not write the filter keep the transformed filter as a form; other steps transform
// the filter each time. On one core of a Zen 3 processor, GFLOP/s of oneDNN 2.6, which has the
// algorithm only for AVX-512, and of this class, counting the operations of a direct convolution:
//   14x14 pixels, 256 channels, 1 image, with a form                80, 204
//   16x16 pixels, 128 channels, 16 images, without a form           67, 213
//   the gradient of these images                                    80, 208
//
// With the same r, an image's results do not depend, to the last bit, on the other images of the
// batch. A call allocates no memory.
#ifndef MIRRORFLOW_KERNELS_CPU_WINOGRAD_H_
#define MIRRORFLOW_KERNELS_CPU_WINOGRAD_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/packed_product.h"
#include "kernels/cpu/winograd_grid.h"
#include "ops/window.h"

namespace mirrorflow {

class Winograd {
 public:
  // Returns whether the class supports a convolution: NHWC, 3x3 windows with stride 1 and at most
  // two rows or columns of padding on each side, one group, multiples of 8 channels, and fewer than
  // 2^32 pairs of input and output channels.
  static bool Supports(const ConvolutionGeometry& g);
  // Returns the convolution that computes the gradient of the images of `g` from the gradient of
  // its output. Requires Supports(g).
  static ConvolutionGeometry GradientOfImages(const ConvolutionGeometry& g);

  // How to read the filter.
  enum class Windows {
    kAsStored,  // [3, 3, in_channels, out_channels]
    // If this is the GradientOfImages of a convolution, with the filter of that convolution:
    // [3, 3, out_channels, in_channels], with each window rotated by 180 degrees.
    kRotated,
  };
  // Returns the r above with which a convolution is fastest, or 0 if oneDNN's direct convolution is
  // as fast. `makes_form` is whether the form below is made for each call of Run. Requires
  // Supports(g).
  static int64_t FastestTile(const ConvolutionGeometry& g, Windows windows, bool makes_form);

  // Requires Supports(g) and that `tile`, the r above, is 2 or 4.
  Winograd(const ConvolutionGeometry& g, int64_t tile, Windows windows = Windows::kAsStored);

  // The form in which Run reads the filter: transformed and packed. Filters of equal keys and sizes
  // have the same layout.
  std::string FormKey() const;
  int64_t FormFloats() const;
  void MakeForm(const float* filter, float* form) const;

  // Sets `out` to the convolution of `images` with the filter, plus `bias` unless it is null. Calls
  // finish(first, pixels) for each range of pixels that is complete, while they are in the cache.
  void Run(const float* images, const float* form, const float* bias, float* out, float* scratch,
           absl::FunctionRef<void(int64_t first, int64_t pixels)> finish) const;
  int64_t ScratchFloats() const;

  // The operations of the products, counting a multiply-add as two.
  double flops() const { return grid_.Flops(g_); }

 private:
  // Elements of a transformed tile.
  int64_t elements() const { return grid_.elements(); }
  // The product that computes one element of `tiles` tiles.
  PackedProduct ProductOf(int64_t tiles) const {
    return {.m = tiles,
            .n = g_.filter_channels,
            .k = g_.in_channels,
            .out_stride = g_.out_channels,
            .first_column = g_.first_channel,
            .end_column = g_.first_channel + g_.out_channels};
  }
  void Run(const WinogradGrid::Block& block, const float* images, const float* form,
           const float* bias, float* out, float* scratch) const;
  // The first output pixel of a row of tiles.
  int64_t FirstPixelOf(int64_t row) const;

  ConvolutionGeometry g_;
  Windows windows_;
  WinogradGrid grid_;
  // The size of a block.
  int64_t block_rows_;
  int64_t block_columns_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_WINOGRAD_H_
