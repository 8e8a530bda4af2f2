// SPDX-License-Identifier: Apache-2.0
//
// Trainer: trains a model on a dataset, evaluates it and predicts with it, under any strategy.
//
//   Model model = {.inputs = {images, labels}, .loss = loss, .train = Adam().Minimize(root, loss)};
//   model.metrics = {{"accuracy", metrics::SparseCategoricalAccuracy(root, logits, labels)}};
//   MF_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(*strategy, graph, model));
//   ProgressBar progress;
//   MF_ASSIGN_OR_RETURN(TrainResult result,
//       trainer->Fit(train.Shuffle(1).Batch(256), {.epochs = 10, .validation = test.Batch(256),
//                                                  .callbacks = {&progress}}));
//
// A custom loop uses the parts: TrainStep(), Evaluate(), Predict() and session().
#ifndef MIRRORFLOW_TRAIN_TRAINER_TRAINER_H_
#define MIRRORFLOW_TRAIN_TRAINER_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "distribute/strategy/strategy.h"
#include "framework/graph/scope.h"
#include "framework/session/session.h"
#include "train/checkpoint/checkpoint_manager.h"
#include "train/data/dataset.h"
#include "train/metrics/metric.h"
#include "train/trainer/callback.h"

namespace mirrorflow {

struct NamedMetric {
  std::string name;
  metrics::Metric metric;  // whose result is a scalar
};

// The parts of a graph that a trainer runs, as they are written for training. Evaluation and
// prediction run their inference form (ForInference).
struct Model {
  std::vector<Output> inputs = {};  // what the components of a batch feed, in order
  Output loss = {};                 // a float scalar: the mean over the global batch
  Operation train = {};  // what Minimize returns; invalid for a model that only evaluates
  std::vector<NamedMetric> metrics = {};
  Output predictions = {};                     // a value for each row; may be invalid
  std::vector<Output> prediction_inputs = {};  // those of `inputs` that it needs. Empty: the first
};

// Fit returns InvalidArgument if a value is negative, or if `epochs` and `steps` are both 0.
struct FitOptions {
  int64_t epochs = 1;
  // Stop after this many steps, regardless of `epochs`; those before `start` count. 0: no limit. An
  // epoch that the limit cuts short does not end: no validation, no OnEpochEnd.
  int64_t steps = 0;
  // Evaluated after each epoch and, unless `validation_steps` is 0, after every `validation_steps`
  // steps. The metrics of the training set cover the steps since the last validation.
  std::optional<Dataset> validation = std::nullopt;
  int64_t validation_steps = 0;
  // Called in this order; they must outlive Fit.
  std::vector<Callback*> callbacks = {};
  // Called after each step with its number, from 1, and its loss; an error ends training.
  std::function<absl::Status(int64_t step, float loss)> on_step = nullptr;
  // The position at which training continues, from CheckpointManager::Restore. With `checkpoints`,
  // the callbacks, metrics and the mean loss of the epoch continue, too.
  TrainingPosition start = {};
  // Resume on a dataset that differs from the one with which the checkpoint was saved, by its
  // Dataset::ToString() and size(). If false, that is InvalidArgument.
  bool accept_other_dataset = false;
  // Saves a checkpoint every `checkpoint_every` steps (0: never) and after the last one. May be
  // null; else it must outlive Fit.
  CheckpointManager* checkpoints = nullptr;
  int64_t checkpoint_every = 0;
  // Compares the copies of all variables after every `check_replicas` steps (0: never), by
  // Session::CheckReplicas. A difference ends training.
  int64_t check_replicas = 0;
  // How the workers share the reading of the training set. With AutoShardPolicy::kFile, the middle
  // of an epoch can be resumed only by as many workers and replicas as have begun it:
  // InvalidArgument. Its `compare_data` is also that of the validation data.
  DistributeOptions distribute = {};
};

struct InferenceOptions {
  // As DistributeOptions::compare_data.
  bool compare_data = true;
};

struct TrainResult {
  int64_t steps = 0;  // including those before `start`
  // The logs of each epoch that this call has ended, and of one that `steps` has cut short.
  std::vector<Logs> history = {};
  double loss = 0;                     // the mean over the rows of the last epoch
  double median_step_ms = 0;           // without the first step, which compiles
  double median_host_us = 0;           // time to enqueue a step; 0 on devices that run on the host
  double examples_per_s = 0;           // of all replicas, at the median step time
  std::optional<std::string> stopped;  // why training ended early, or this run of it
  // Why the last checkpoint was not saved, such as a full disk; OK if it was, and without
  // checkpoints. A run that resumes starts from an earlier one.
  absl::Status last_save;
};

class Trainer {
 public:
  // Opens a session of `graph`, to which it adds inference forms. The strategy must outlive the
  // trainer. InvalidArgument if the model lacks inputs or a loss that is a float scalar, or if the
  // result of a metric is not a scalar (prepare a step of session() for it).
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const Strategy& strategy, Graph& graph,
                                                         const Model& model);

  // Trains. The dataset must be batched, and its components are fed to the model's inputs. Returns
  // OutOfRange, naming the step, if the loss is not finite; that step leaves the variables that
  // Minimize updates unchanged, and no checkpoint of it is saved. Returns DataLoss, naming the
  // step, the variable and the ranks, if the replicas' copies of a variable differ; no checkpoint
  // of that step is saved either.
  absl::StatusOr<TrainResult> Fit(const Dataset& dataset, const FitOptions& options = {});

  // The loss, weighted by rows, and the metrics over a batched dataset. Resets the metrics first.
  // InvalidArgument for a dataset without batches; OutOfRange if a loss is not finite.
  absl::StatusOr<Logs> Evaluate(const Dataset& dataset, const InferenceOptions& options = {});

  // The predictions for all rows of a batched dataset, on every worker. Its components are those of
  // `prediction_inputs`, in order, or of all inputs, of which it takes what it needs.
  absl::StatusOr<Tensor> Predict(const Dataset& dataset, const InferenceOptions& options = {});

  // Runs a step on a batch of Strategy::Distribute(), and returns its loss.
  absl::StatusOr<float> TrainStep(const DistributedBatch& batch);

  // ModelSummary(), and the memory that a replica needs for a training step of a global batch of
  // `rows` rows, at least 1: variables, the values of the step, constants. Errors are those of
  // compiling the step, for example if a dimension other than the first of an input is unknown.
  absl::StatusOr<std::string> Summary(int64_t rows) const;

  Session& session() { return *session_; }
  // The step that TrainStep runs.
  const Step& train_step() const { return train_; }

 private:
  explicit Trainer(const Strategy& strategy) : strategy_(strategy) {}

  class Loop;  // one call of Fit

  // The batches of Evaluate and Predict.
  DistributedDataset DistributeForInference(const Dataset& dataset,
                                            const InferenceOptions& options) const;
  // Before each of them.
  absl::Status BeginInferenceStep();
  absl::StatusOr<StepOutputs> RunPrediction(const DistributedBatch& batch);
  // Adds the values of the metrics to `logs`, and resets them.
  absl::Status TakeMetrics(Logs* logs);

  const Strategy& strategy_;
  // The graph may be gone when Summary() is called.
  std::string model_summary_;
  std::vector<Shape> input_shapes_;
  bool can_train_ = false;
  std::unique_ptr<Session> session_;
  std::vector<std::string> metric_names_;
  Step train_;
  Step evaluate_;
  std::optional<Step> predict_;
  std::vector<size_t> predicted_from_;  // which inputs predict_ takes
  Step metric_results_;
  Step reset_metrics_;
  Loop* loop_ = nullptr;  // that of the Fit which is running; null outside of Fit
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_TRAINER_H_
