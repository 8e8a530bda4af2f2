// SPDX-License-Identifier: Apache-2.0
//
// Runs one kernel under the worst conditions that a plan can create, unlike EvaluateNode.
#ifndef MIRRORFLOW_TESTS_SUPPORT_STRICT_KERNEL_H_
#define MIRRORFLOW_TESTS_SUPPORT_STRICT_KERNEL_H_

#include "framework/runtime/evaluate_node.h"

namespace mirrorflow {

// Like EvaluateNode, with these differences:
//  * operands are aligned only to their elements;
//  * outputs, scratch and the memory of static inputs start with garbage (NaN, -1);
//  * it returns Internal if the kernel writes to an input or outside its outputs and scratch, or if
//    the result differs when operands share memory as the kernel's plan allows: an output
//    overwrites an input (KernelPlan::in_place), inputs are parts of the output (slices), or there
//    are gaps between the rows of the output (supports_row_stride).
absl::StatusOr<std::vector<Tensor>> EvaluateStrictly(const Node& node,
                                                     absl::Span<const Tensor> inputs,
                                                     absl::Span<const Shape> output_shapes,
                                                     const KernelRegistry& kernels,
                                                     const EvaluateOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_STRICT_KERNEL_H_
