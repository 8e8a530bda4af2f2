// SPDX-License-Identifier: Apache-2.0
//
// Losses that are 0 beyond a margin. Below, p is a prediction and y its label.
// Shapes:   predictions and labels [batch, …] -> scalar.
// Dtypes:   half, bfloat16, float, double; labels are cast to the dtype of the predictions.
// Errors:   InvalidArgument unless both have the same shape; nothing is broadcast.
// Source:   Keras.
#ifndef MIRRORFLOW_TRAIN_LOSSES_HINGE_H_
#define MIRRORFLOW_TRAIN_LOSSES_HINGE_H_

#include "framework/graph/scope.h"
#include "train/losses/options.h"

namespace mirrorflow {
namespace losses {

// max(1 - y p, 0), the mean over the last dimension. Labels are -1 or 1; a label of 0 counts as -1.
Output Hinge(const Scope& scope, Output predictions, Output labels,
             const LossOptions& options = {});
// max(1 - y p, 0)², the mean over the last dimension.
Output SquaredHinge(const Scope& scope, Output predictions, Output labels,
                    const LossOptions& options = {});

// max(0, 1 + max((1 - y) p) - sum(y p)) along the last dimension, for labels that are 1 at the
// class and 0 elsewhere.
// Errors:   InvalidArgument unless predictions have at least two dimensions.
Output CategoricalHinge(const Scope& scope, Output predictions, Output labels,
                        const LossOptions& options = {});

}  // namespace losses
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LOSSES_HINGE_H_
