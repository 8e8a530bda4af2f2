// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_OPTIONS_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_OPTIONS_H_

namespace mirrorflow {

// Trade-offs between accuracy, reproducibility and speed, for all kernels of a session.
struct KernelOptions {
  // Products, convolutions and attention of floats may round their operands to 10 bits of fraction,
  // as tensor cores do (TensorFloat-32).
  bool allow_tf32 = false;
  // On GPUs, use the fastest of the algorithms that the library proposes for each product and
  // convolution, as timed by worker 0 when the plan is made, instead of the first proposal. The
  // choice, and with it the last bits of a result, may differ from run to run.
  bool autotune = false;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_OPTIONS_H_
