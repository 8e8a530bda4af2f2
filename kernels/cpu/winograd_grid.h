// SPDX-License-Identifier: Apache-2.0
//
// WinogradGrid divides the output of a convolution into the tiles of Winograd's algorithm
// (winograd.h). The rows of tiles of all images are numbered consecutively.
#ifndef MIRRORFLOW_KERNELS_CPU_WINOGRAD_GRID_H_
#define MIRRORFLOW_KERNELS_CPU_WINOGRAD_GRID_H_

#include <cstdint>

#include "ops/window.h"

namespace mirrorflow {

struct WinogradGrid {
  WinogradGrid(const ConvolutionGeometry& g, int64_t tile)
      : tile(tile),
        columns(CeilOfRatio(g.w.out, tile)),
        rows_per_image(CeilOfRatio(g.h.out, tile)),
        rows(g.batch * rows_per_image) {}

  static int64_t CeilOfRatio(int64_t a, int64_t b) { return (a + b - 1) / b; }
  // Divides `n` into as few parts of at most `most` as possible, and these as equally as possible.
  // Returns the size of all parts but the last.
  static int64_t PartOf(int64_t n, int64_t most) { return CeilOfRatio(n, CeilOfRatio(n, most)); }

  // Larger transformed filters are not made in scratch memory, of which each replica has its own.
  static constexpr double kMaxScratchMegabytes = 72;

  int64_t tiles() const { return rows * columns; }
  // The elements of a transformed tile or window.
  int64_t elements() const { return (tile + 2) * (tile + 2); }
  // Returns the operations of the products of a convolution or gradient, counting a multiply-add as
  // two.
  double Flops(const ConvolutionGeometry& g) const {
    return 2.0 * static_cast<double>(elements() * tiles()) *
           static_cast<double>(g.in_channels * g.out_channels);
  }

  // A rectangle of tiles.
  struct Block {
    int64_t first_row, end_row;
    int64_t first_column, end_column;
    int64_t tiles() const { return (end_row - first_row) * (end_column - first_column); }
  };
  // Calls use(image, y, x, i) for each tile of a block. It is the block's tile i, and (y, x) is its
  // first pixel.
  template <typename Use>
  void ForEachTile(const Block& block, const Use use) const {
    int64_t i = 0;
    for (int64_t row = block.first_row; row < block.end_row; ++row) {
      const int64_t image = row / rows_per_image, y = row % rows_per_image * tile;
      for (int64_t x = block.first_column; x < block.end_column; ++x) use(image, y, x * tile, i++);
    }
  }

  int64_t tile;  // the height and width of a tile
  int64_t columns;
  int64_t rows_per_image;
  int64_t rows;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_WINOGRAD_GRID_H_
