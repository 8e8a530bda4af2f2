// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_LOSSES_CTC_H_
#define MIRRORFLOW_TRAIN_LOSSES_CTC_H_

#include "framework/graph/scope.h"
#include "train/losses/reductions.h"

namespace mirrorflow {
namespace losses {

// CTC: -log of the probability of the label sequence, summed over all alignments with the time
// steps. An alignment names a class at each step; class 0 is the blank. Removing repetitions and
// then blanks yields the labels. The sum runs forward over the steps in log space, as a loop in the
// graph; its gradient is the loop that runs backward.
// Shapes:   logits [batch, time, classes], labels [batch, length] (int32 or int64), padded with 0
//           at their ends -> scalar. All but the batch must be known.
// Dtypes:   half, bfloat16, float, double; below float, the sum is computed as float.
// Errors:   InvalidArgument for other shapes. The step fails with InvalidArgument for a label
//           outside [0, classes), before any variable changes.
// Special:  labels that do not fit into the time steps have a loss of infinity and a gradient of 0.
// Source:   Graves et al., "Connectionist temporal classification", 2006; Keras' CTC.
Output CTC(const Scope& scope, Output logits, Output labels, const LossOptions& options = {});

}  // namespace losses
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LOSSES_CTC_H_
