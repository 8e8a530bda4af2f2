// SPDX-License-Identifier: Apache-2.0
//
// What oneDNN computes here: float products and convolutions, on the thread that runs the kernel
// alone. A build without oneDNN links onednn_none.cc in place of onednn.cc: then everything is
// Unimplemented, and callers have their own way in that case.
//
// Requires for all: no dimension is 0. Unimplemented also where oneDNN has no implementation.
#ifndef MIRRORFLOW_KERNELS_CPU_ONEDNN_H_
#define MIRRORFLOW_KERNELS_CPU_ONEDNN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/runtime/kernel.h"
#include "ops/convolution.h"

namespace mirrorflow {

// output 0 [m,n] = input 0 [m,k] · input 1 [k,n]; a transposed operand lies in memory as [k,m] or
// [n,k]. Of a batch of products, each operand has either all matrices or one for all of them.
struct ProductGeometry {
  int64_t m;
  int64_t n;
  int64_t k;
  bool transpose_a;
  bool transpose_b;
  int64_t batch_a = 1;
  int64_t batch_b = 1;
  bool bias = false;  // input 2 [n] is added to every row; not of a batch
};
absl::StatusOr<KernelPlan> OneDnnProduct(const ProductGeometry& g);

// output 0 = convolution of images (input 0) with a filter (input 1).
absl::StatusOr<KernelPlan> OneDnnConvolution(const ConvolutionGeometry& g);
// output 0 = gradient of the images, from the filter (input 1) and that of the output (input 2).
absl::StatusOr<KernelPlan> OneDnnConvolutionBackpropInput(const ConvolutionGeometry& g);
// output 0 = gradient of the filter, from the images (input 0) and that of the output (input 2).
absl::StatusOr<KernelPlan> OneDnnConvolutionBackpropFilter(const ConvolutionGeometry& g);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_ONEDNN_H_
