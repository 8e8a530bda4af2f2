// SPDX-License-Identifier: Apache-2.0
//
// Trains a classifier under MirroredStrategy. The initial values do not depend on the devices.
#ifndef MIRRORFLOW_TESTS_SUPPORT_CLASSIFIER_TRAINING_H_
#define MIRRORFLOW_TESTS_SUPPORT_CLASSIFIER_TRAINING_H_

#include <memory>
#include <string>
#include <vector>

#include "distribute/strategy/strategy.h"
#include "tools/models/classifiers.h"

namespace mirrorflow {

struct ClassifierTraining {
  std::unique_ptr<MirroredStrategy> strategy;
  Graph graph;
  Classifier model;
  std::unique_ptr<Session> session;
  Step step;  // feeds images and labels, fetches the loss, trains with Momentum
};

absl::StatusOr<std::unique_ptr<ClassifierTraining>> MakeClassifierTraining(
    absl::string_view model, const std::vector<std::string>& devices,
    const CompileOptions& compile = {});
absl::StatusOr<std::unique_ptr<ClassifierTraining>> MakeClassifierTraining(
    absl::string_view model, const MirroredStrategy::Options& options);

// Returns images and labels for `rows` rows, the same in every call.
std::vector<Tensor> ClassifierBatch(absl::string_view model, int64_t rows);

// Runs one step and returns the loss.
absl::StatusOr<float> RunStep(ClassifierTraining& t, const std::vector<Tensor>& batch);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_CLASSIFIER_TRAINING_H_
