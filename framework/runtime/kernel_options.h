// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_OPTIONS_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_OPTIONS_H_

namespace mirrorflow {

// Trade-offs between accuracy, reproducibility and speed, for all kernels of a session.
struct KernelOptions {
  // If true, float matrix products, convolutions and attention may round their operands to 10
  // fraction bits, as tensor cores do (TensorFloat-32).
  bool allow_tf32 = false;
  // On CPUs, if true, 3x3 convolutions and their gradients use Winograd's algorithm where it is
  // faster. Rounding errors are then relative to the largest of the inputs around a few adjacent
  // pixels. Inf and NaN spread to those pixels, and in gradients of filters to the whole window.
  bool allow_winograd = true;
  // On GPUs, if true, uses the fastest of the library's candidate algorithms for each matrix
  // product and convolution, as timed by worker 0 when the step is compiled, instead of the first
  // candidate. The choice, and with it the last bits of a result, can differ from run to run.
  bool autotune = false;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_OPTIONS_H_
