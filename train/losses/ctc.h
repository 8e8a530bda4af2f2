// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_LOSSES_CTC_H_
#define MIRRORFLOW_TRAIN_LOSSES_CTC_H_

#include "framework/graph/scope.h"
#include "train/losses/reductions.h"

namespace mirrorflow {
namespace losses {

// CTC loss, for label sequences that are shorter than the sequence of time steps, as in speech
// recognition: the negative log of the label sequence's probability. That probability is the sum
// over all alignments of the labels with the time steps. An alignment assigns a class to each step;
// class 0 is the blank. Removing repetitions, and then blanks, from an alignment yields its labels.
// In the graph, the sum is a loop over the steps, in log space, and its gradient is a loop that
// runs backward.
// Shapes:   logits [batch, time, classes], labels [batch, length] (int32 or int64), padded with
//           zeros at the end -> scalar. All dimensions except the batch must be known.
// Dtypes:   half, bfloat16, float, double; half and bfloat16 are summed in float.
// Errors:   InvalidArgument for other shapes. A step with a label outside [0, classes) fails with
//           InvalidArgument and changes no variable.
// Special:  labels that do not fit into the time steps have an infinite loss and a gradient of 0.
// Source:   Graves et al., "Connectionist temporal classification", 2006; Keras' CTC.
Output CTC(const Scope& scope, Output logits, Output labels, const LossOptions& options = {});

}  // namespace losses
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LOSSES_CTC_H_
