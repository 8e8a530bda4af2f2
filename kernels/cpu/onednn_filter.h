// SPDX-License-Identifier: Apache-2.0
//
// BlockedFilter copies a convolution's filter to a layout in which oneDNN reads it: blocks of
// channels. oneDNN 2.6 has reorder primitives for this, but they take up to five times as long for
// large filters (docs/benchmarks.md).
#ifndef MIRRORFLOW_KERNELS_CPU_ONEDNN_FILTER_H_
#define MIRRORFLOW_KERNELS_CPU_ONEDNN_FILTER_H_

#include <cstdint>

namespace mirrorflow {

struct BlockedFilter {
  int64_t height;
  int64_t width;
  int64_t in_channels;
  int64_t out_channels;
  // A block holds `out_block` output channels of `in_block` input channels.
  int64_t in_block;
  int64_t out_block;
  bool in_is_innermost;  // whether adjacent elements of a block belong to adjacent input channels
  // From one element of the window, or one block, to the next; in floats.
  int64_t height_stride;
  int64_t width_stride;
  int64_t in_stride;
  int64_t out_stride;
  // The number of output channels of the graph's filter, and the first of the `out_channels` to
  // copy.
  int64_t from_channels = out_channels;
  int64_t from_channel = 0;

  // Returns whether Copy supports this layout.
  bool CanCopy() const;
  // Returns whether the copy has the same bytes as the graph's filter.
  bool IsPlain() const;
  // Copies a filter from the graph's layout, [height, width, in_channels, from_channels]. Fills the
  // last block with zeros if `out_channels` is not a multiple of `out_block`. Requires CanCopy().
  void Copy(const float* from, float* to) const;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_ONEDNN_FILTER_H_
