// SPDX-License-Identifier: Apache-2.0
//
// A table of a model's layers, as Keras' Model.summary() prints it.
#ifndef MIRRORFLOW_TRAIN_TRAINER_MODEL_SUMMARY_H_
#define MIRRORFLOW_TRAIN_TRAINER_MODEL_SUMMARY_H_

#include <string>

#include "train/trainer/trainer.h"

namespace mirrorflow {

// Returns a row for each layer of the graph between the inputs of the model and its predictions (or
// its loss, if it has none), in the order of their creation: name, shape of the output, number of
// parameters. Below it: all parameters, those that are not trained, and those of the optimizer.
// A layer is what is below one name of the outermost scope. A variable counts for the first layer
// that uses it. Trainer::Summary() adds the memory of a step.
std::string ModelSummary(const Model& model);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_MODEL_SUMMARY_H_
