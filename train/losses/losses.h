// SPDX-License-Identifier: Apache-2.0
//
// Losses: functions that compare predictions with labels. By default, a loss is a scalar: the mean
// over the rows of the global batch, so it must not be divided by the number of replicas. Formulas
// and defaults match Keras:
//
//   auto loss = losses::Huber(root, predictions, labels, {.delta = 2, .sample_weight = weights});
//
// The mean's divisor is the number of losses, whatever their weights. Labels must have the
// predictions' shape and are cast to their dtype, except where they are class indices
// (SparseSoftmaxCrossEntropy, CTC). Neither is broadcast to the other's shape. With `.reduction =
// LossReduction::kNone`, a loss returns one value per example, for metrics::Mean.
//
// Errors: a loss that cannot be built records its error in the graph, returns an invalid Output,
// and makes Strategy::NewSession fail, like a layer (train/layers/layers.h).
#ifndef MIRRORFLOW_TRAIN_LOSSES_LOSSES_H_
#define MIRRORFLOW_TRAIN_LOSSES_LOSSES_H_

#include "train/losses/classification.h"  // cross entropies, focal and hinge losses, KL divergence
#include "train/losses/ctc.h"             // CTC, for sequences without alignment
#include "train/losses/regression.h"      // MeanSquaredError, Huber, CosineSimilarity, …

#endif  // MIRRORFLOW_TRAIN_LOSSES_LOSSES_H_
