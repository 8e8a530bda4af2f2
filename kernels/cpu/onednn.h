// SPDX-License-Identifier: Apache-2.0
//
// Kernels that oneDNN computes: float products and convolutions. The kernels use only the thread
// that runs them. OneDnnProduct and OneDnnConvolution return Unimplemented if oneDNN has no
// implementation, and callers fall back to other code. In a build without oneDNN, which links
// onednn_none.cc instead, they always return Unimplemented.
//
// All functions require that no dimension is 0.
#ifndef MIRRORFLOW_KERNELS_CPU_ONEDNN_H_
#define MIRRORFLOW_KERNELS_CPU_ONEDNN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/runtime/kernel.h"
#include "kernels/cpu/epilogue.h"
#include "ops/window.h"

namespace mirrorflow {

// Describes output 0 [m,n] = input `a` [m,k] · input `b` [k,n]. A transposed operand is stored as
// [k,m] or [n,k]. In a batch of products, each operand has either one matrix per product or a
// single matrix for all products.
struct ProductGeometry {
  int64_t m;
  int64_t n;
  int64_t k;
  bool transpose_a;
  bool transpose_b;
  int64_t batch_a = 1;
  int64_t batch_b = 1;
  bool bias = false;  // if true, adds input 2 [n] to every row; not for batches
  int a = 0;
  int b = 1;
  // Strides between rows of the operands as stored, in floats. The matrices of a batch are
  // contiguous.
  int64_t a_stride = transpose_a ? m : k;
  int64_t b_stride = transpose_b ? k : n;
  int64_t out_stride = n;
  // How many output rows oneDNN computes per call. The last bits of the result depend on it. Must
  // be `m` for batches.
  int64_t block_rows = m;
};
// If `keeps_b` is true, the kernel reads input `b` in a form (OperandForm), unless it is a batch.
absl::StatusOr<KernelPlan> OneDnnProduct(const ProductGeometry& g, bool keeps_b);

// Returns a kernel that computes `part` in output 0: the convolution of the images (input 0) with
// the filter (input 1); the gradient with respect to the images, from the filter and the output
// gradient (input 2); or the gradient with respect to the filter, from the images and the output
// gradient. If `keeps_filter` is true, the kernel reads the filter in a form (OperandForm).
// `epilogue` and ConvolutionGeometry::out_stride apply only to the convolution itself. `g` is
// `undivided`, or the part of it that one thread computes (KernelContext::undivided).
absl::StatusOr<KernelPlan> OneDnnConvolution(ConvolutionPart part, const ConvolutionGeometry& g,
                                             const ConvolutionGeometry& undivided,
                                             bool keeps_filter, const Epilogue& epilogue);

// Limits oneDNN to `instruction_set`, a value of ONEDNN_MAX_CPU_ISA. Returns false if the value is
// unknown, or if oneDNN has already chosen an instruction set.
bool LimitOneDnn(const std::string& instruction_set);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_ONEDNN_H_
