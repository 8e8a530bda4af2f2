// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_KERNELS_CPU_BIAS_H_
#define MIRRORFLOW_KERNELS_CPU_BIAS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "framework/runtime/kernel.h"
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {

// A value viewed as [rows, channels, plane]; `plane` is 1 if channels are the last dimension.
struct ChannelLayout {
  int64_t rows, channels, plane;
  int dim;             // of the channels
  int64_t row_stride;  // in elements; it exceeds channels * plane if these are not all channels

  // Reads the layout of a value of this shape from the node's attribute `data_format`.
  static ChannelLayout Of(const KernelContext& c, const Shape& shape) {
    const int d = c.attr<std::string>("data_format")[1] == 'C' ? 1 : shape.rank() - 1;
    return {.rows = shape.num_elements_before(d),
            .channels = shape.dim(d),
            .plane = shape.num_elements_from(d + 1),
            .dim = d,
            .row_stride = shape.num_elements_from(d)};
  }

  // Returns the layout of the channels that the kernel computes if threads divide the channels.
  ChannelLayout PartOf(const KernelContext& c) const {
    ChannelLayout layout = *this;
    if (c.part() != nullptr) layout.channels = c.part()->count;
    return layout;
  }
  // Returns the multiple at which the parts of channels begin, so that threads share no cache line.
  int64_t PartMultiple(int64_t element_bytes) const { return plane == 1 ? 64 / element_bytes : 1; }
};

// Computes out = value + bias for `rows` rows of `channels` elements; `out` may be `value`.
template <typename T>
void AddBias(int64_t rows, int64_t channels, const T* value, const T* bias, T* out) {
  for (int64_t r = 0; r < rows; ++r) {
    MF_INDEPENDENT_ITERATIONS
    for (int64_t c = 0; c < channels; ++c) {
      out[c] = static_cast<T>(Wrapping(value[c]) + Wrapping(bias[c]));
    }
    value += channels;
    out += channels;
  }
}

// Extends `product`, a kernel that computes `rows` rows of `channels` floats, to also add the bias
// in input 2 to each row.
inline KernelPlan ThenAddBias(KernelPlan product, int64_t rows, int64_t channels) {
  MF_CHECK(!product.supports_row_stride);
  product.kernel = MakeKernel(
      [rows, channels, kernel = std::move(product.kernel)](const KernelArgs& args, Lane& lane) {
        const absl::Status status = kernel->Run(args, lane);
        float* const out = args.output<float>(0);
        if (status.ok()) AddBias(rows, channels, out, args.input<float>(2), out);
        return status;
      });
  return product;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_BIAS_H_
