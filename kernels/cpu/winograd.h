// SPDX-License-Identifier: Apache-2.0
//
// Winograd computes convolutions with 3x3 windows in fewer multiplications, as in Lavin and Gray,
// "Fast Algorithms for Convolutional Neural Networks" (2016). The output is divided into tiles of
// r x r pixels. The (r + 2) x (r + 2) pixels under a tile are transformed, multiplied by a
// transformed window, element by element, and transformed back. This takes (r + 2)^2
// multiplications where sums over windows take 9 r^2: 2.25 times as many if r is 2, and 4 times as
// many if it is 4.
//
// The transformed filter is larger than the filter and takes time to make, so this is for filters
// that change rarely. On one core of a Zen 3 processor, oneDNN 2.6 convolves 14x14 pixels of 256
// channels directly at 80 GFLOP/s; r = 4 reaches 204. oneDNN has the algorithm only for AVX-512.
//
// With the same r, the bits of an image do not depend on the other images of the batch. A call
// allocates no memory.
#ifndef MIRRORFLOW_KERNELS_CPU_WINOGRAD_H_
#define MIRRORFLOW_KERNELS_CPU_WINOGRAD_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/packed_product.h"
#include "ops/window.h"

namespace mirrorflow {

class Winograd {
 public:
  // Returns whether the class supports a convolution: NHWC, 3x3 windows with stride 1 and at most
  // one row or column of padding on each side, one group, multiples of 8 channels, and fewer than
  // 2^32 pairs of input and output channels.
  static bool Supports(const ConvolutionGeometry& g);
  // Returns the r above with which the convolution is fastest, or 0 if the direct convolution is as
  // fast. Requires Supports(g).
  static int64_t FastestTile(const ConvolutionGeometry& g);

  // Requires Supports(g) and that `tile`, the r above, is 2 or 4.
  Winograd(const ConvolutionGeometry& g, int64_t tile);

  // The form in which Run reads the filter: transformed and packed. MakeForm makes it from a filter
  // [3, 3, in_channels, out_channels]. Filters of equal keys and sizes have the same layout.
  std::string FormKey() const;
  int64_t FormFloats() const;
  int64_t FormScratchFloats() const { return g_.in_channels * g_.out_channels; }
  void MakeForm(const float* filter, float* form, float* scratch) const;

  // Sets `out` to the convolution of `images` with the filter, plus `bias` unless it is null. Calls
  // finish(first, count) for each range of `out` that is complete, while the range is in the cache.
  void Run(const float* images, const float* form, const float* bias, float* out, float* scratch,
           absl::FunctionRef<void(int64_t first, int64_t count)> finish) const;
  int64_t ScratchFloats() const;

  // The operations of the products, counting a multiply-add as two.
  double flops() const;

 private:
  // A rectangle of tiles. The rows of all images are numbered consecutively.
  struct Block {
    int64_t first_row, end_row;
    int64_t first_column, end_column;
    int64_t tiles() const { return (end_row - first_row) * (end_column - first_column); }
  };
  // Elements of a transformed tile.
  int64_t elements() const { return (tile_ + 2) * (tile_ + 2); }
  // The product that computes one element of `tiles` tiles.
  PackedProduct ProductOf(int64_t tiles) const {
    return {.m = tiles, .n = g_.out_channels, .k = g_.in_channels};
  }
  // Calls use(image, y, x, tile) for each tile of a block. (y, x) is the tile's first pixel.
  template <typename Use>
  void ForEachTile(const Block& block, Use use) const;
  void Run(const Block& block, const float* images, const float* form, const float* bias,
           float* out, float* scratch) const;
  // The offset in the output of a row of tiles.
  int64_t OffsetOf(int64_t row) const;

  ConvolutionGeometry g_;
  int64_t tile_;
  int64_t columns_;  // of tiles
  int64_t rows_per_image_;
  // The size of a block.
  int64_t block_rows_;
  int64_t block_columns_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_WINOGRAD_H_
