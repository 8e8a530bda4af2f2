// SPDX-License-Identifier: Apache-2.0
#include "tests/support/classifier_training.h"

#include "framework/core/status.h"
#include "tests/support/tensors.h"
#include "train/optimizers/optimizers.h"

namespace mirrorflow {

absl::StatusOr<std::unique_ptr<ClassifierTraining>> MakeClassifierTraining(
    absl::string_view model, const std::vector<std::string>& devices,
    const CompileOptions& compile) {
  return MakeClassifierTraining(
      model, MirroredStrategy::Options{.devices = devices, .seed = 5, .compile = compile});
}

absl::StatusOr<std::unique_ptr<ClassifierTraining>> MakeClassifierTraining(
    absl::string_view model, const MirroredStrategy::Options& options) {
  auto t = std::make_unique<ClassifierTraining>();
  MF_ASSIGN_OR_RETURN(t->strategy, MirroredStrategy::Create(options));
  const Scope root(&t->graph);
  const auto mirrored = t->strategy->scope();
  MF_ASSIGN_OR_RETURN(t->model, BuildClassifier(root, model));
  // At a higher rate, each step of a resnet with few rows amplifies rounding errors by a factor of
  // 70.
  const double learning_rate = model == "resnet" ? 0.002 : 0.05;
  const Operation train = Momentum({.learning_rate = learning_rate}).Minimize(root, t->model.loss);
  MF_ASSIGN_OR_RETURN(t->session, t->strategy->NewSession(t->graph));
  MF_ASSIGN_OR_RETURN(
      t->step, t->session->Prepare({t->model.images, t->model.labels}, {t->model.loss}, {train}));
  return t;
}

std::vector<Tensor> ClassifierBatch(absl::string_view model, int64_t rows) {
  Random random(3);
  const Shape images = model == "mlp" ? Shape({rows, 784}) : Shape({rows, 28, 28, 1});
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < rows; ++i) labels.push_back(static_cast<int32_t>(i % 10));
  return {RandomTensor(DT_FLOAT, images, &random), Tensor::Vector<int32_t>(labels)};
}

absl::StatusOr<float> RunStep(ClassifierTraining& t, const std::vector<Tensor>& batch) {
  MF_ASSIGN_OR_RETURN(const StepOutputs out, t.step.Run(batch));
  return out[0].scalar<float>();
}

}  // namespace mirrorflow
