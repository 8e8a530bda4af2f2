// SPDX-License-Identifier: Apache-2.0
//
// Layers that add elements around those of a sequence [batch, n, channels] or of an image [batch,
// height, width, channels], or remove some.
#ifndef MIRRORFLOW_TRAIN_LAYERS_PADDING_H_
#define MIRRORFLOW_TRAIN_LAYERS_PADDING_H_

#include "framework/graph/scope.h"
#include "train/layers/sizes.h"

namespace mirrorflow {
namespace layers {

// ZeroPadding1D, ZeroPadding2D: adds this many zeros before and after each dimension between the
// batch and the channels.
// Errors:   InvalidArgument for a negative number, and if x has another rank.
Output ZeroPadding1D(const Scope& scope, Output x, Border padding = 1);
Output ZeroPadding2D(const Scope& scope, Output x, Border2D padding = 1);

// Cropping1D, Cropping2D: removes this many elements in the same places.
// Errors:   the same, and InvalidArgument if no element would be left.
Output Cropping1D(const Scope& scope, Output x, Border cropping = 1);
Output Cropping2D(const Scope& scope, Output x, Border2D cropping = 0);

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_PADDING_H_
