// SPDX-License-Identifier: Apache-2.0
//
// Trainer: trains and evaluates a model on datasets, and predicts with it, under any strategy
// (Keras' fit, evaluate and predict). All workers must make the same calls.
//
//   Model model = {.inputs = {images, labels}, .loss = loss, .train = Adam().Minimize(root, loss)};
//   model.metrics = {{"accuracy", metrics::SparseCategoricalAccuracy(root, logits, labels)}};
//   MF_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(*strategy, graph, model));
//   ProgressBar progress;
//   MF_ASSIGN_OR_RETURN(TrainResult result,
//       trainer->Fit(train.Shuffle(1).Batch(256), {.epochs = 10, .validation = test.Batch(256),
//                                                  .callbacks = {&progress}}));
//
// `train` and `test` are Datasets of rows {image, label}. For a custom training loop, use
// TrainStep(), Evaluate(), Predict() and session().
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
  std::string name;        // its key in Logs
  metrics::Metric metric;  // its result must be a float or double scalar
};

// The parts of a graph that a trainer runs, in their training form. Evaluation and prediction use
// their inference form (ForInference).
struct Model {
  std::vector<Output> inputs = {};  // fed with the components of a batch, in order
  Output loss = {};                 // a float scalar: the mean over the global batch
  Operation train = {};             // the result of Minimize; not set if the model is not trained
  std::vector<NamedMetric> metrics = {};
  Output predictions = {};                     // one value per row; not set if Predict is not used
  std::vector<Output> prediction_inputs = {};  // a subset of `inputs`; if empty, the first input
};

// Fit returns InvalidArgument if a value is negative, or if both `epochs` and `steps` are 0.
struct FitOptions {
  int64_t epochs = 1;
  // If above 0, training ends after this many steps, including those before `start`, and `epochs`
  // is ignored: the dataset is repeated as often as needed. If 0, `epochs` is the only limit. If
  // this limit cuts an epoch short, the epoch's validation and OnEpochEnd do not run.
  int64_t steps = 0;
  // A batched dataset that is evaluated after each epoch and, if `validation_steps` is not 0, also
  // after every `validation_steps` steps; the training metrics then cover the steps since the last
  // validation.
  std::optional<Dataset> validation = std::nullopt;
  int64_t validation_steps = 0;
  // Objects whose methods Fit calls during training, in this order. They must outlive Fit.
  std::vector<Callback*> callbacks = {};
  // Called after each step with the step's index, from 1, and the loss. If it returns an error,
  // training ends.
  std::function<absl::Status(int64_t step, float loss)> on_step = nullptr;
  // Where training continues: the position that CheckpointManager::Restore returned. If
  // `checkpoints` is set, the state of callbacks and metrics, and the mean loss of the epoch so
  // far, are also restored.
  TrainingPosition start = {};
  // Whether training can resume on a dataset whose Dataset::ToString() or size() differs from that
  // of the dataset in the checkpoint. If false, Fit returns InvalidArgument for such a dataset.
  bool accept_other_dataset = false;
  // Saves a checkpoint after the last step and, unless `checkpoint_every` is 0, after every
  // `checkpoint_every` steps. If null, no checkpoints are saved. The manager must outlive Fit.
  CheckpointManager* checkpoints = nullptr;
  int64_t checkpoint_every = 0;
  // Compares the replicas' copies of all variables (Session::CheckReplicas) after every
  // `check_replicas` steps (0: never). A difference ends training.
  int64_t check_replicas = 0;
  // How the workers divide the training set. With AutoShardPolicy::kFile, training can resume in
  // the middle of an epoch only with the same numbers of workers and replicas as before; otherwise,
  // Fit returns InvalidArgument. `compare_data` also applies to the validation data.
  DistributeOptions distribute = {};
};

struct InferenceOptions {
  // See DistributeOptions::compare_data.
  bool compare_data = true;
};

struct TrainResult {
  int64_t steps = 0;  // including those before FitOptions::start
  // The logs of each epoch that this call completed, and of an epoch that `steps` cut short.
  std::vector<Logs> history = {};
  double loss = 0;                     // mean over the rows of the last epoch
  double median_step_ms = 0;           // excludes the first step, which compiles
  double median_host_us = 0;           // host time to enqueue a step on GPUs; 0 on CPUs
  double examples_per_s = 0;           // over all replicas, at the median step time
  std::optional<std::string> stopped;  // why training, or only this run, ended early
  // Why the last checkpoint could not be saved, for example because the disk is full; a later run
  // then resumes from an earlier checkpoint. OK if it was saved, or if `checkpoints` is null.
  absl::Status last_save;
};

class Trainer {
 public:
  // Opens a session for `graph` and adds inference forms to the graph. The strategy must outlive
  // the trainer. Returns the first error that occurred while the graph was built, and the errors
  // of Strategy::NewSession. Returns InvalidArgument if the model has no inputs, if its loss is not
  // a float scalar, or if a metric's result is not a float or double scalar. (To fetch a result
  // that is not a scalar, such as a confusion matrix, prepare a step with session().)
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const Strategy& strategy, Graph& graph,
                                                         const Model& model);

  // Trains the model. The dataset must be batched; its components feed the model's inputs, in
  // order. Returns errors of callbacks, of the dataset and of lost workers, and:
  //   InvalidArgument: an option is out of range, the dataset is empty or not batched, or
  //     `options.start` does not fit the checkpoint.
  //   OutOfRange, naming the step: the loss is not finite. That step leaves the variables that
  //     Minimize updates unchanged, and no checkpoint of it is saved.
  //   DataLoss, naming the step, the variable and the ranks: the replicas' copies of a variable
  //     differ (FitOptions::check_replicas). No checkpoint of that step is saved.
  //   FailedPrecondition: the model has no `train` operation, or this trainer is already in Fit().
  absl::StatusOr<TrainResult> Fit(const Dataset& dataset, const FitOptions& options = {});

  // Returns the mean loss over all rows of a batched dataset, named `loss`, and the metrics by
  // name. Resets the metrics first. Returns InvalidArgument if the dataset has no batches, and
  // OutOfRange if a loss is not finite.
  absl::StatusOr<Logs> Evaluate(const Dataset& dataset, const InferenceOptions& options = {});

  // Returns the predictions for all rows of a batched dataset, in order, on every worker: a tensor
  // with one row per row of the dataset. The dataset has one component for each of the model's
  // prediction_inputs, in order, or one for each of its inputs; the components that are not needed
  // are then ignored. Returns FailedPrecondition if the model has no `predictions`, and
  // InvalidArgument if the dataset has no batches or if the predictions are a scalar.
  absl::StatusOr<Tensor> Predict(const Dataset& dataset, const InferenceOptions& options = {});

  // Runs a training step on a batch from Strategy::Distribute(), and returns its loss, even if it
  // is not finite.
  absl::StatusOr<float> TrainStep(const DistributedBatch& batch);

  // Returns the table of ModelSummary() and a line with the memory that each replica needs for a
  // training step on a global batch of `rows` rows (at least 1): variables, intermediate values,
  // constants. Returns an error if the step does not compile, for example because an input has an
  // unknown dimension other than the first.
  absl::StatusOr<std::string> Summary(int64_t rows) const;

  Session& session() { return *session_; }
  // Returns the step that TrainStep runs.
  const Step& train_step() const { return train_; }

 private:
  explicit Trainer(const Strategy& strategy) : strategy_(strategy) {}

  class Loop;  // one call of Fit

  // Distributes a dataset for Evaluate or Predict.
  DistributedDataset DistributeForInference(const Dataset& dataset,
                                            const InferenceOptions& options) const;
  // Evaluate and Predict call this before each batch.
  absl::Status BeginInferenceStep();
  absl::StatusOr<StepOutputs> RunPrediction(const DistributedBatch& batch);
  // Adds the values of the metrics to `logs`, and resets them.
  absl::Status TakeMetrics(Logs* logs);

  const Strategy& strategy_;
  // Built by Create, because the graph can be destroyed before Summary() is called.
  std::string model_summary_;
  std::vector<Shape> input_shapes_;
  bool can_train_ = false;
  std::unique_ptr<Session> session_;
  std::vector<std::string> metric_names_;
  Step train_;
  Step evaluate_;
  std::optional<Step> predict_;
  std::vector<size_t> predicted_from_;  // indices of the inputs that predict_ takes
  Step metric_results_;
  Step reset_metrics_;
  Loop* loop_ = nullptr;  // the Fit in progress; null outside of Fit
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_TRAINER_H_
