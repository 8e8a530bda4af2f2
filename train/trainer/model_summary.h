// SPDX-License-Identifier: Apache-2.0
//
// ModelSummary: a table of a model's layers, like Keras' Model.summary().
#ifndef MIRRORFLOW_TRAIN_TRAINER_MODEL_SUMMARY_H_
#define MIRRORFLOW_TRAIN_TRAINER_MODEL_SUMMARY_H_

#include <string>

#include "train/trainer/trainer.h"

namespace mirrorflow {

// Returns a table with one row per layer between the model's inputs and its predictions (or its
// loss, if it has no predictions), in creation order: name, output shape, parameter count. Below
// the table are the totals: all parameters, the non-trainable ones and those of the optimizer. A
// layer consists of all nodes with the same outermost scope name. A variable is counted in the
// first layer that uses it. Trainer::Summary() also shows the memory that a step takes.
std::string ModelSummary(const Model& model);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_MODEL_SUMMARY_H_
