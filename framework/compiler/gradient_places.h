// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_GRADIENT_PLACES_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_GRADIENT_PLACES_H_

#include "absl/container/flat_hash_map.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

// Maps each output of a collective that is the gradient of a variable in a bucket to that variable
// (an index into the layout's variables). The search starts at each optimizer op and goes back
// through element-wise nodes and views of the variable's size to a collective. Updates written as
// assignments have no place: their gradients are reduced one by one.
using GradientPlaces = absl::flat_hash_map<Output, int>;
GradientPlaces FindGradientPlaces(const Compilation& c);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_GRADIENT_PLACES_H_
