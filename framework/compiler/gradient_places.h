// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_GRADIENT_PLACES_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_GRADIENT_PLACES_H_

#include "absl/container/flat_hash_map.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

// For outputs of collectives that are the gradient of a variable with a place in a bucket: that
// variable (an index into the layout's variables). The search goes from each optimizer's op back
// through element-wise nodes and views of the variable's size until it meets a collective. Updates
// that are spelt as assignments have no place yet: their gradients are reduced one by one.
using GradientPlaces = absl::flat_hash_map<Output, int>;
GradientPlaces FindGradientPlaces(const Compilation& c);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_GRADIENT_PLACES_H_
