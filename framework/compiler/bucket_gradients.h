// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_BUCKET_GRADIENTS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_BUCKET_GRADIENTS_H_

#include "absl/container/flat_hash_map.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

// Maps each collective output that is the gradient of a bucketed variable to that variable (an
// index into the layout's variables). The search starts at each optimizer op and walks back to a
// collective, through views and element-wise nodes that have as many elements as the variable.
// Gradients of updates that the graph expresses as assignments are excluded, and are reduced one by
// one.
using BucketGradients = absl::flat_hash_map<Output, int>;
BucketGradients FindBucketGradients(const Compilation& c);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_BUCKET_GRADIENTS_H_
