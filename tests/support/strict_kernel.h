// SPDX-License-Identifier: Apache-2.0
//
// Runs one kernel as badly as a plan may: what EvaluateNode lets pass is an error here.
#ifndef MIRRORFLOW_TESTS_SUPPORT_STRICT_KERNEL_H_
#define MIRRORFLOW_TESTS_SUPPORT_STRICT_KERNEL_H_

#include "framework/runtime/evaluate_node.h"

namespace mirrorflow {

// Like EvaluateNode, but
//  * operands have no more than the alignment of an element;
//  * outputs and scratch are full of garbage (NaN, -1) before, as is what stands for static inputs;
//  * Internal if the kernel writes to an input or outside of its outputs and scratch, or if a
//    declared pair of in_place, written over the input, gives another result.
absl::StatusOr<std::vector<Tensor>> EvaluateStrictly(const Node& node,
                                                     absl::Span<const Tensor> inputs,
                                                     absl::Span<const Shape> output_shapes,
                                                     const KernelRegistry& kernels,
                                                     const EvaluateOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_STRICT_KERNEL_H_
