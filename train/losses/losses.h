// SPDX-License-Identifier: Apache-2.0
//
// Losses: functions that compare predictions with labels. By default a loss is a scalar, the mean
// over the global batch. Formulas and defaults match Keras:
//
//   auto loss = losses::Huber(root, predictions, labels, {.delta = 2, .sample_weight = weights});
//
// Weights do not affect the mean's divisor, which is the number of losses. Labels must have the
// predictions' shape and are cast to their dtype, except where they are class indices
// (SparseSoftmaxCrossEntropy, CTC). Nothing is broadcast.
// `.reduction = LossReduction::kNone` returns the loss of each example, for metrics::Mean.
#ifndef MIRRORFLOW_TRAIN_LOSSES_LOSSES_H_
#define MIRRORFLOW_TRAIN_LOSSES_LOSSES_H_

#include "train/losses/classification.h"  // cross entropies, focal and hinge losses, KL divergence
#include "train/losses/ctc.h"             // CTC, for sequences without alignment
#include "train/losses/regression.h"      // MeanSquaredError, Huber, CosineSimilarity, …

#endif  // MIRRORFLOW_TRAIN_LOSSES_LOSSES_H_
