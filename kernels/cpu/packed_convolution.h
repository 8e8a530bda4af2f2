// SPDX-License-Identifier: Apache-2.0
//
// PackedConvolution computes a convolution as the product of a matrix, whose rows are the inputs of
// one output pixel, by the filter, which is kept in the order in which it is read (PackedProduct).
// The matrix is never in memory: the product copies a few pixels at a time.
//
// Without AVX-512, oneDNN 2.6 is slow for small images and for strides of more than 1. On one core
// of a Zen 3 processor, GFLOP/s of oneDNN and of this class:
//   3x3 windows with stride 2, 128 channels, 56x56 pixels               51, 85
//   3x3 windows with stride 2, 512 channels, 4x4 pixels, 32 images      49, 89
//   1x7 windows, 192 channels, 6x6 pixels, 4 images                     78, 80
//
// An image's results do not depend, to the last bit, on the other images of the batch. A call
// allocates no memory.
#ifndef MIRRORFLOW_KERNELS_CPU_PACKED_CONVOLUTION_H_
#define MIRRORFLOW_KERNELS_CPU_PACKED_CONVOLUTION_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/packed_product.h"
#include "ops/window.h"

namespace mirrorflow {

class PackedConvolution {
 public:
  // Returns whether the class supports a convolution: NHWC and one group.
  static bool Supports(const ConvolutionGeometry& g);
  // Returns whether the class is faster than oneDNN. Requires Supports(g).
  static bool IsFaster(const ConvolutionGeometry& g);

  explicit PackedConvolution(const ConvolutionGeometry& g) : g_(g) {}

  // The form in which Run reads the filter; see Winograd for these functions.
  std::string FormKey() const;
  int64_t FormFloats() const { return ProductOf(1).PackedFloats(); }
  void MakeForm(const float* filter, float* form) const;

  void Run(const float* images, const float* form, const float* bias, float* out, float* scratch,
           absl::FunctionRef<void(int64_t first, int64_t pixels)> finish) const;
  int64_t ScratchFloats() const { return 0; }

 private:
  int64_t pixels() const { return g_.batch * g_.h.out * g_.w.out; }
  PackedProduct ProductOf(int64_t pixels) const {
    return {.m = pixels,
            .n = g_.filter_channels,
            .k = g_.h.size * g_.w.size * g_.in_channels,
            .out_stride = g_.out_stride,
            .first_column = g_.first_channel,
            .end_column = g_.first_channel + g_.out_channels};
  }
  // Copies the inputs [first, first + count) of an output pixel.
  void CopyInputs(const float* images, int64_t pixel, int64_t first, int64_t count,
                  float* to) const;

  ConvolutionGeometry g_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_PACKED_CONVOLUTION_H_
