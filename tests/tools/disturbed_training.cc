// SPDX-License-Identifier: Apache-2.0
//
// A small training run with everything that has state: dropout, accumulated gradients, weight
// averages, an adjustable learning rate, all kinds of metrics, validation inside and after epochs,
// and all callbacks, including a custom one that counts its events, predicts and evaluates.
// resume_test.py kills and stops the run at random points and restarts it.
//
//   disturbed_training REPLICAS DIRECTORY EPOCHS
//
// Writes the final variables, log.csv, the best variables, the event files and result.txt to the
// directory. result.txt contains what these files and the callbacks report, apart from times. Exits
// with 75 after SIGTERM.
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/failpoint.h"
#include "framework/core/status.h"
#include "mirrorflow.h"
#include "tests/support/event_scalars.h"
#include "tools/flags/cluster_flags.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {
namespace {

constexpr int64_t kRows = 44, kBatch = 4;  // an epoch has 11 batches

Failpoint before_fit_failpoint("disturbed_training/before_fit");

// Points in the plane, labelled by whether their coordinates have the same sign.
Dataset Points(int64_t first, int64_t rows) {
  std::vector<float> x;
  std::vector<int32_t> labels;
  for (int64_t i = first; i < first + rows; ++i) {
    x.push_back(static_cast<float>((i * 37) % 199 - 99) / 100);
    x.push_back(static_cast<float>((i * 53) % 197 - 98) / 100);
    labels.push_back(x[x.size() - 2] * x.back() > 0 ? 1 : 0);
  }
  return Dataset::FromTensors(
      {Tensor::Of<float>({rows, 2}, x), Tensor::Vector<int32_t>(std::move(labels))});
}

// Sums what a callback sees. If a sum is not saved or is counted twice, the result differs.
class OwnCallback final : public Callback {
 public:
  explicit OwnCallback(std::unique_ptr<Trainer>& trainer) : trainer_(trainer) {}
  absl::Status OnTrainBegin(TrainingState&) override {
    steps_ = epochs_ = validations_ = begun_steps_ = begun_epochs_ = 0;
    sum_ = 0;
    return absl::OkStatus();
  }
  // Resets the sum over an epoch. A resumed run must not do this again.
  absl::Status OnEpochBegin(TrainingState&) override {
    ++begun_epochs_;
    epoch_sum_ = 0;
    return absl::OkStatus();
  }
  absl::Status OnStepBegin(TrainingState&) override { return ++begun_steps_, absl::OkStatus(); }
  absl::Status OnStep(TrainingState& state) override {
    ++steps_;
    if (steps_ % 3 == 0) {
      MF_ASSIGN_OR_RETURN(const Tensor predicted, trainer_->Predict(Points(50, 8).Batch(4)));
      sum_ += predicted.flat<float>()[0];
    }
    sum_ += state.loss;
    epoch_sum_ += state.loss;
    return absl::OkStatus();
  }
  absl::Status OnValidationEnd(TrainingState& state) override {
    ++validations_;
    sum_ += state.logs.at("val_loss");
    return absl::OkStatus();
  }
  absl::Status OnEpochEnd(TrainingState& state) override {
    MF_ASSIGN_OR_RETURN(const Tensor predicted, trainer_->Predict(Points(0, 12).Batch(4)));
    MF_ASSIGN_OR_RETURN(const Logs logs, trainer_->Evaluate(Points(100, 12).Batch(4)));
    ++epochs_;
    for (const float p : predicted.flat<float>()) sum_ += p;
    state.logs["own"] = sum_ + logs.at("loss") + 7 * epoch_sum_ + state.loss;
    return absl::OkStatus();
  }
  absl::Status SaveState(TrainingState&, StateDict& state) const override {
    state.Set("steps", steps_);
    state.Set("epochs", epochs_);
    state.Set("validations", validations_);
    state.Set("begun_steps", begun_steps_);
    state.Set("begun_epochs", begun_epochs_);
    state.Set("sum", sum_);
    state.Set("epoch_sum", epoch_sum_);
    return absl::OkStatus();
  }
  absl::Status LoadState(TrainingState&, const StateDict& state) override {
    MF_RETURN_IF_ERROR(state.Get("steps", &steps_));
    MF_RETURN_IF_ERROR(state.Get("epochs", &epochs_));
    MF_RETURN_IF_ERROR(state.Get("validations", &validations_));
    MF_RETURN_IF_ERROR(state.Get("begun_steps", &begun_steps_));
    MF_RETURN_IF_ERROR(state.Get("begun_epochs", &begun_epochs_));
    MF_RETURN_IF_ERROR(state.Get("epoch_sum", &epoch_sum_));
    return state.Get("sum", &sum_);
  }
  std::string ToString() const {
    return absl::StrFormat("own: %d of %d steps, %d of %d epochs, %d validations, %.17g\n", steps_,
                           begun_steps_, epochs_, begun_epochs_, validations_, sum_);
  }

 private:
  std::unique_ptr<Trainer>& trainer_;
  int64_t steps_ = 0, epochs_ = 0, validations_ = 0, begun_steps_ = 0, begun_epochs_ = 0;
  double sum_ = 0, epoch_sum_ = 0;
};

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(int replicas) {
  MF_ASSIGN_OR_RETURN(const Cluster cluster,
                      ClusterResolver::FromEnvironment(ProcessEnvironment()));
  const MirroredStrategy::Options options = {
      .num_cpu_replicas = replicas, .seed = 3, .pin_threads = false};
  if (cluster.num_workers == 1) return MirroredStrategy::Create(options);
  return MultiWorkerMirroredStrategy::Create({.cluster = cluster, .replicas = options});
}

absl::StatusOr<Model> BuildModel(const Strategy& strategy, const Scope& root) {
  const auto scope = strategy.scope();
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
  const Output labels = ops::Placeholder(root.WithName("labels"), DT_INT32, {-1});
  Output hidden = layers::Dense(root, x, 8, ops::Tanh);
  hidden = layers::Dropout(root, layers::BatchNorm(root, hidden), 0.2);
  const Output logits = layers::Dense(root, hidden, 2);
  const Output loss = losses::SparseSoftmaxCrossEntropy(root, logits, labels);
  const Output score = layers::Dense(root, hidden, 1);
  const Output is_one = ops::Reshape(root, ops::Cast(root, labels, DT_FLOAT), {-1, 1});
  const Output distance = losses::MeanSquaredError(root, score, is_one);
  const Adam adam({.learning_rate = schedules::Adjustable(0.03)});
  Model model = {.inputs = {x, labels},
                 .loss = loss + 0.5 * distance,
                 .predictions = logits,
                 .prediction_inputs = {x}};
  model.train = adam.Minimize(root, model.loss,
                              {.global_clipnorm = 1, .use_ema = true, .accumulate_steps = 3});
  model.metrics = {{"accuracy", metrics::SparseCategoricalAccuracy(root, logits, labels)},
                   {"auc", metrics::AUC(root, ops::Sigmoid(root, score), is_one)},
                   {"mse", metrics::MeanSquaredError(root, score, is_one)},
                   {"mean", metrics::Mean(root, score)},
                   {"recall", metrics::Recall(root, ops::Sigmoid(root, score), is_one)},
                   {"precision", metrics::Precision(root, ops::Sigmoid(root, score), is_one)},
                   {"cosine", metrics::CosineSimilarity(root, logits, logits)},
                   {"perplexity", metrics::Perplexity(root, logits, labels)}};
  return model;
}

absl::Status WriteResult(const std::string& directory, const OwnCallback& own,
                         const TrainResult& result) {
  std::ofstream out(directory + "/result.txt");
  out << own.ToString() << "steps " << result.steps << " loss "
      << absl::StrFormat("%.17g", result.loss) << " stopped " << result.stopped.value_or("no")
      << "\n";
  for (const char* const folder : {"/events", "/epochs"}) {
    for (const std::string& scalar : EventScalars(directory + folder)) {
      if (!absl::StrContains(scalar, "examples_per_second")) out << scalar << "\n";
    }
  }
  return out.flush() ? absl::OkStatus() : absl::InternalError("result.txt: cannot be written");
}

absl::Status Train(const Strategy& strategy, const std::string& directory, int64_t epochs,
                   int* code) {
  Graph graph;
  const Scope root(&graph);
  MF_ASSIGN_OR_RETURN(const Model model, BuildModel(strategy, root));
  MF_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer, Trainer::Create(strategy, graph, model));
  MF_ASSIGN_OR_RETURN(
      const auto checkpoints,
      CheckpointManager::Create(trainer->session(), {.directory = directory + "/checkpoints"}));
  MF_ASSIGN_OR_RETURN(const TrainingPosition start, checkpoints->Restore());
  StopOnSignal stop_on_signal;
  CsvLog csv(directory + "/log.csv");
  TensorBoard board(directory + "/events", {.update_freq = 2}), epochs_only(directory + "/epochs");
  ModelCheckpoint best(directory + "/best.safetensors", {.save_best_only = true});
  ModelCheckpoint newest(directory + "/newest.safetensors", {.monitor = "loss"});
  ReduceLROnPlateau reduce({.factor = 0.5, .patience = 1, .min_delta = 0.02});
  EarlyStopping early({.min_delta = 0.02, .patience = 3, .restore_best_weights = true});
  OwnCallback own(trainer);
  MF_RETURN_IF_ERROR(before_fit_failpoint.Pass());
  MF_ASSIGN_OR_RETURN(const TrainResult result,
                      trainer->Fit(Points(0, kRows).Shuffle(5).Batch(kBatch),
                                   {.epochs = epochs,
                                    .validation = Points(kRows, 13).Batch(kBatch),
                                    .validation_steps = 4,
                                    .callbacks = {&reduce, &own, &csv, &stop_on_signal, &best,
                                                  &newest, &board, &epochs_only, &early},
                                    .start = start,
                                    .checkpoints = checkpoints.get(),
                                    .checkpoint_every = 2}));
  if (stop_on_signal.signal()) {
    *code = kPreemptedExitCode;
    return absl::OkStatus();
  }
  MF_RETURN_IF_ERROR(SaveVariables(trainer->session(), directory + "/last.safetensors"));
  return strategy.worker() == 0 ? WriteResult(directory, own, result) : absl::OkStatus();
}

}  // namespace
}  // namespace mirrorflow

int main(int argc, char** argv) {
  int replicas = 0;
  int64_t epochs = 0;
  if (argc != 4 || !absl::SimpleAtoi(argv[1], &replicas) || !absl::SimpleAtoi(argv[3], &epochs)) {
    std::fprintf(stderr, "usage: disturbed_training REPLICAS DIRECTORY EPOCHS\n");
    return 2;
  }
  if (const absl::Status status = mirrorflow::PreemptionHandler::TakeSignals(); !status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return 1;
  }
  const auto strategy = mirrorflow::MakeStrategy(replicas);
  if (!strategy.ok()) return ExitWithError(strategy.status(), mirrorflow::kExitCluster);
  int code = 0;
  const absl::Status status = mirrorflow::Train(**strategy, argv[2], epochs, &code);
  if (status.ok()) return code;
  return ExitWithError(status, ExitCodeOf(status, **strategy, mirrorflow::kExitInternal));
}
