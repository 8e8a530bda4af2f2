// SPDX-License-Identifier: Apache-2.0
//
// Interrupts training at a chosen point and resumes it from its checkpoint, in one process.
// //tests/tools:resume_test kills processes at random points.
#ifndef MIRRORFLOW_TESTS_TRAIN_TRAINER_RESUMED_TRAINING_H_
#define MIRRORFLOW_TESTS_TRAIN_TRAINER_RESUMED_TRAINING_H_

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "mirrorflow.h"
#include "tests/support/captured_log.h"
#include "tests/support/files.h"

namespace mirrorflow {

// Returns `rows` points of y = 2 x - 1. With 10 points and batches of 4, an epoch has 3 batches, of
// 4, 4 and 2 rows.
inline Dataset Line(int64_t rows = 10) {
  std::vector<float> x, y;
  for (int64_t i = 0; i < rows; ++i) {
    x.push_back(0.25f * static_cast<float>(i));
    y.push_back(2 * x.back() - 1);
  }
  return Dataset::FromTensors({Tensor::Of<float>({rows, 1}, x), Tensor::Of<float>({rows, 1}, y)});
}

inline std::string TextIn(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Calls a function at each event.
class Watch final : public Callback {
 public:
  using Act = std::function<absl::Status(absl::string_view event, TrainingState&)>;
  explicit Watch(Act act) : act_(std::move(act)) {}
  absl::Status OnEpochBegin(TrainingState& s) override { return act_("epoch begins", s); }
  absl::Status OnStepBegin(TrainingState& s) override { return act_("step begins", s); }
  absl::Status OnStep(TrainingState& s) override { return act_("step", s); }
  absl::Status OnInferenceStepBegin(TrainingState& s) override { return act_("inference", s); }
  absl::Status OnValidationEnd(TrainingState& s) override { return act_("validation ends", s); }
  absl::Status OnEpochEnd(TrainingState& s) override { return act_("epoch ends", s); }
  absl::Status OnTrainEnd(TrainingState& s) override { return act_("train ends", s); }

 private:
  const Act act_;
};

// A fixture for training that ends early and is resumed. The parameter is the number of replicas.
class ResumedTraining : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { std::filesystem::remove_all(directory_); }

  struct Run {
    absl::StatusOr<TrainResult> result;
    std::vector<std::string> variables;  // the bytes of each, in VariableNames() order
    TrainingPosition start;
  };

  // Simulates one process: builds the model, restores the newest checkpoint, and trains.
  Run Train(const Dataset& dataset, FitOptions options, bool has_checkpoints = true) {
    Run run = {.result = absl::UnknownError("not run")};
    const auto strategy =
        *MirroredStrategy::Create({.num_cpu_replicas = replicas_, .pin_threads = false});
    Graph graph;
    const Scope root(&graph);
    const auto scope = strategy->scope();
    const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 1});
    const Output y = ops::Placeholder(root.WithName("y"), DT_FLOAT, {-1, 1});
    const Output predicted = layers::Dense(root, layers::Dropout(root, x, 0.1), 1);
    const Output loss = losses::MeanSquaredError(root, predicted, y);
    // Evaluate and Predict also draw random numbers; a repeated call draws the same ones.
    const Output noise = ops::RandomUniform(root, ops::Shape(root, predicted), DT_FLOAT);
    const Output noisy = ops::Mul(root, predicted, noise);
    Model model = {.inputs = {x, y}, .loss = loss, .predictions = noisy};
    model.train =
        Momentum({.learning_rate = schedules::Adjustable(0.05)})
            .Minimize(root, loss, {.reduce = reduce_, .accumulate_steps = accumulate_steps_});
    model.metrics = {{"error", metrics::MeanAbsoluteError(root, predicted, y)},
                     {"noise", metrics::Mean(root, noisy)}};
    auto trainer = Trainer::Create(*strategy, graph, model);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    trainer_ = trainer->get();
    std::unique_ptr<CheckpointManager> checkpoints;
    if (has_checkpoints) {
      checkpoints = *CheckpointManager::Create((*trainer)->session(), {.directory = directory_});
      run.start = *checkpoints->Restore();
      options.start = run.start;
      options.checkpoints = checkpoints.get();
    }
    run.result = (*trainer)->Fit(dataset, options);
    for (const std::string& name : (*trainer)->session().VariableNames()) {
      const Tensor value = *(*trainer)->session().ReadVariable(name);
      run.variables.emplace_back(reinterpret_cast<const char*>(value.raw()), value.bytes());
    }
    return run;
  }

  const std::string directory_ = TemporaryPath("resumed");
  int64_t accumulate_steps_ = 1;
  GradientReducer reduce_ = nullptr;
  int replicas_ = GetParam();
  Trainer* trainer_ = nullptr;  // the trainer that runs Fit()
  const CapturedLog log_;
};

// Calls `act` at the n-th event of a kind.
inline Watch::Act ActAt(absl::string_view kind, int n, int* count, const Watch::Act& act) {
  return [=](absl::string_view event, TrainingState& state) {
    return event == kind && ++*count == n ? act(event, state) : absl::OkStatus();
  };
}

inline absl::Status Interrupt(absl::string_view, TrainingState& state) {
  state.Interrupt("test");
  return absl::OkStatus();
}

// Ends training as if the process had been killed: only the checkpoints saved so far remain.
inline absl::Status Kill(absl::string_view, TrainingState&) { return absl::AbortedError("killed"); }

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_TRAIN_TRAINER_RESUMED_TRAINING_H_
