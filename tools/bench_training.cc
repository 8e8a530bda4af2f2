// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_training.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "examples/models.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr int kClasses = 10;
constexpr const char* kModels[] = {"mlp", "cnn", "big", "resnet"};

void BuildBig(const Scope& root, TrainingGraph* t) {
  t->inputs = ops::Placeholder(root.WithName("inputs"), DT_FLOAT, {-1, 1024});
  t->labels = ops::Placeholder(root.WithName("labels"), DT_INT32, {-1});
  Output x = layers::Dense(root, t->inputs, 2048, ops::Relu);
  x = layers::Dense(root, x, 2048, ops::Relu);
  t->loss = losses::SparseSoftmaxCrossEntropy(root, layers::Dense(root, x, kClasses), t->labels);
}

}  // namespace

absl::StatusOr<TrainingGraph> BuildTraining(const Strategy& strategy, absl::string_view model) {
  if (std::find(std::begin(kModels), std::end(kModels), model) == std::end(kModels)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown model; expected one of ", absl::StrJoin(kModels, ", "), ", got '", model, "'"));
  }
  TrainingGraph t;
  const Scope root(&t.graph);
  auto mirrored = strategy.scope();
  if (model == "big") {
    BuildBig(root, &t);
  } else {
    MF_ASSIGN_OR_RETURN(const Classifier classifier, BuildClassifier(root, model));
    t.inputs = classifier.images;
    t.labels = classifier.labels;
    t.loss = classifier.loss;
  }
  t.train = GradientDescent({.learning_rate = kBenchLearningRate}).Minimize(root, t.loss);
  MF_RETURN_IF_ERROR(t.graph.status());
  return t;
}

absl::StatusOr<std::vector<Tensor>> NoiseBatch(const TrainingGraph& training, int64_t rows) {
  Shape shape = training.graph.values().shape(training.inputs);
  shape.set_dim(0, rows);
  MF_ASSIGN_OR_RETURN(Tensor inputs, Tensor::Allocate(DT_FLOAT, shape));
  MF_ASSIGN_OR_RETURN(Tensor labels, Tensor::Allocate(DT_INT32, Shape({rows})));
  uint32_t state = 1;
  // The generator of Numerical Recipes, 2nd ed., section 7.1; its low bits have short periods.
  auto next = [&state] { return (state = state * 1664525u + 1013904223u) >> 8; };
  for (float& x : inputs.flat<float>()) x = static_cast<float>(next()) / (1 << 24);
  for (int32_t& y : labels.flat<int32_t>()) y = static_cast<int32_t>(next() % kClasses);
  return std::vector<Tensor>{inputs, labels};
}

absl::StatusOr<TrainingStep> PrepareTraining(const TrainingCase& training) {
  TrainingStep t;
  MF_ASSIGN_OR_RETURN(t.strategy,
                      MirroredStrategy::Create({.num_cpu_replicas = training.replicas}));
  MF_ASSIGN_OR_RETURN(TrainingGraph g, BuildTraining(*t.strategy, training.model));
  MF_ASSIGN_OR_RETURN(t.feeds, NoiseBatch(g, training.batch_size * training.replicas));
  MF_ASSIGN_OR_RETURN(t.session, t.strategy->NewSession(g.graph));
  MF_ASSIGN_OR_RETURN(t.step, t.session->Prepare({g.inputs, g.labels}, {g.loss}, {g.train}));
  return t;
}

}  // namespace mirrorflow
