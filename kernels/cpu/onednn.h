// SPDX-License-Identifier: Apache-2.0
//
// Kernels that oneDNN computes: float products and convolutions. They use only the thread that runs
// the kernel. The functions return Unimplemented where oneDNN has no implementation; callers have
// their own code for that case. A build without oneDNN links onednn_none.cc instead of onednn.cc,
// and everything is Unimplemented.
//
// All functions require that no dimension is 0.
#ifndef MIRRORFLOW_KERNELS_CPU_ONEDNN_H_
#define MIRRORFLOW_KERNELS_CPU_ONEDNN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/runtime/kernel.h"
#include "ops/window.h"

namespace mirrorflow {

// output 0 [m,n] = input 0 [m,k] · input 1 [k,n]. A transposed operand is stored as [k,m] or [n,k].
// In a batch of products, each operand has one matrix per product or a single one for all.
struct ProductGeometry {
  int64_t m;
  int64_t n;
  int64_t k;
  bool transpose_a;
  bool transpose_b;
  int64_t batch_a = 1;
  int64_t batch_b = 1;
  bool bias = false;  // input 2 [n] is added to every row; not for batches
};
absl::StatusOr<KernelPlan> OneDnnProduct(const ProductGeometry& g);

// Output 0 is the convolution of the images (input 0) with the filter (input 1); or the gradient of
// the images, from the filter and the gradient of the output (input 2); or the gradient of the
// filter, from the images and the gradient of the output.
absl::StatusOr<KernelPlan> OneDnnConvolution(ConvolutionPart part, const ConvolutionGeometry& g);

// Limits the instruction set, by its name in ONEDNN_MAX_CPU_ISA. False if it is too late for that.
bool LimitOneDnn(const std::string& instruction_set);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_ONEDNN_H_
