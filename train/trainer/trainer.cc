// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "framework/core/failpoint.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "framework/session/session_state.h"
#include "train/inference.h"
#include "train/trainer/model_summary.h"

namespace mirrorflow {
namespace {

Failpoint step_failpoint("train/step");

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// InvalidArgument, naming the field, unless `graph` has every value of the model.
absl::Status CheckOwned(const Graph& graph, const Model& model) {
  const auto check = [&](absl::string_view field, const Output& value) {
    return Annotate(graph.CheckOwns(value), absl::StrCat("trainer, ", field));
  };
  const auto check_all = [&](absl::string_view field, absl::Span<const Output> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      MF_RETURN_IF_ERROR(check(absl::StrCat(field, " ", i), values[i]));
    }
    return absl::OkStatus();
  };
  MF_RETURN_IF_ERROR(check_all("inputs", model.inputs));
  MF_RETURN_IF_ERROR(check_all("prediction_inputs", model.prediction_inputs));
  MF_RETURN_IF_ERROR(check("loss", model.loss));
  if (model.train.valid()) MF_RETURN_IF_ERROR(check("train", {model.train.node, 0}));
  if (model.predictions.valid()) MF_RETURN_IF_ERROR(check("predictions", model.predictions));
  for (const auto& [name, metric] : model.metrics) {
    const std::string field = absl::StrCat("metric '", name, "'");
    MF_RETURN_IF_ERROR(check(field, metric.result));
    MF_RETURN_IF_ERROR(check(field, {metric.update.node, 0}));
    MF_RETURN_IF_ERROR(check(field, {metric.reset.node, 0}));
  }
  return absl::OkStatus();
}

absl::Status CheckModel(const Graph& graph, const Model& model) {
  MF_RETURN_IF_ERROR(graph.status());
  const auto error = [](absl::string_view expected, absl::string_view got) {
    return absl::InvalidArgumentError(absl::StrCat("trainer: expected ", expected, ", got ", got));
  };
  if (model.inputs.empty()) return error("a model with inputs", "none");
  if (!model.loss.valid()) return error("a model with a loss", "none");
  MF_RETURN_IF_ERROR(CheckOwned(graph, model));
  const Shape& shape = graph.values().at(model.loss).shape;
  if (model.loss.dtype() != DT_FLOAT || !shape.IsCompatibleWith(Shape())) {
    return error("a loss that is a float scalar",
                 absl::StrCat(DataTypeName(model.loss.dtype()), shape.ToString()));
  }
  for (const auto& [name, metric] : model.metrics) {
    const Shape& of_result = graph.values().at(metric.result).shape;
    const DataType dtype = metric.result.dtype();
    if ((dtype != DT_FLOAT && dtype != DT_DOUBLE) || of_result != Shape()) {
      return error(absl::StrCat("a metric '", name, "' whose result is a scalar"),
                   absl::StrCat(DataTypeName(dtype), of_result.ToString()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<float> ScalarOf(const Tensor& loss) {
  if (loss.has_value() && loss.dtype() == DT_FLOAT && loss.shape().rank() == 0) {
    return loss.scalar<float>();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("trainer: expected a loss that is a float scalar, got ",
                   loss.has_value() ? loss.TypeString() : "a value that differs between replicas"));
}

double NumberOf(const Tensor& value) {
  return value.dtype() == DT_FLOAT ? value.scalar<float>() : value.scalar<double>();
}

// Keeps the session's step count: runs that write the sums of metrics must not change the random
// numbers of the training steps that follow.
class KeepStep {
 public:
  explicit KeepStep(Session& session) : session_(session), step_(session.step()) {}
  ~KeepStep() { session_.SetStep(step_); }

 private:
  Session& session_;
  const uint64_t step_;
};

// A mean of losses, weighted by the rows of their batches.
class MeanLoss {
 public:
  void Add(double loss, int64_t rows) {
    sum_ += loss * static_cast<double>(rows);
    rows_ += rows;
  }
  double value() const { return rows_ == 0 ? 0 : sum_ / static_cast<double>(rows_); }

 private:
  double sum_ = 0;
  int64_t rows_ = 0;
};

bool DividesFiles(const FitOptions& options) {
  return options.distribute.auto_shard_policy == AutoShardPolicy::kFile;
}

// Where each worker opens its own files, none knows how many batches all have.
std::optional<int64_t> StepsOf(const Dataset& dataset, const Strategy& strategy,
                               const FitOptions& options) {
  if (DividesFiles(options) && strategy.topology().num_workers() > 1) return std::nullopt;
  return dataset.size();
}

// Where files are divided, which rows the first batches had depends on the workers.
absl::Status CheckStart(const Topology& topology, const FitOptions& options) {
  const TrainingPosition& start = options.start;
  if (!DividesFiles(options) || start.batch == 0 || start.num_workers == 0) return absl::OkStatus();
  const int workers = topology.num_workers(), replicas = topology.world_size();
  if (start.num_workers == workers && start.num_replicas == replicas) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Fit() start: AutoShardPolicy FILE in batch ", start.batch, " of epoch ", start.epoch + 1,
      "; expected the ", start.num_workers, " workers and ", start.num_replicas,
      " replicas that began the epoch, got ", workers, " and ", replicas));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const Strategy& strategy, Graph& graph,
                                                         const Model& model) {
  MF_RETURN_IF_ERROR(CheckModel(graph, model));
  const Scope scope(&graph);
  std::vector<Operation> updates, evaluations, resets;
  std::vector<Output> results;
  std::unique_ptr<Trainer> trainer(new Trainer(strategy));
  trainer->can_train_ = model.train.valid();
  trainer->model_summary_ = ModelSummary(model);
  for (const Output& input : model.inputs) {
    trainer->input_shapes_.push_back(graph.values().shape(input));
  }
  if (model.train.valid()) updates.push_back(model.train);
  for (const NamedMetric& named : model.metrics) {
    trainer->metric_names_.push_back(named.name);
    updates.push_back(named.metric.update);
    evaluations.push_back(ForInference(scope, named.metric.update));
    results.push_back(named.metric.result);
    resets.push_back(named.metric.reset);
  }
  const Output loss = ForInference(scope, model.loss);
  const Output predictions =
      model.predictions.valid() ? ForInference(scope, model.predictions) : Output();
  MF_RETURN_IF_ERROR(graph.status());
  MF_ASSIGN_OR_RETURN(trainer->session_, strategy.NewSession(graph));
  Session& session = *trainer->session_;
  MF_ASSIGN_OR_RETURN(trainer->train_, session.Prepare(model.inputs, {model.loss}, updates));
  MF_ASSIGN_OR_RETURN(trainer->evaluate_, session.Prepare(model.inputs, {loss}, evaluations));
  if (!results.empty()) {
    // One step, whose reads see the values before its writes: a worker may end its session after
    // its last step, and a step of another worker then fails, even without communication.
    MF_ASSIGN_OR_RETURN(trainer->metric_results_, session.Prepare({}, results, resets));
    MF_ASSIGN_OR_RETURN(trainer->reset_metrics_, session.Prepare({}, {}, resets));
  }
  if (predictions.valid()) {
    const std::vector<Output> inputs = model.prediction_inputs.empty()
                                           ? std::vector<Output>{model.inputs[0]}
                                           : model.prediction_inputs;
    for (const Output& input : inputs) {
      const auto at = std::find(model.inputs.begin(), model.inputs.end(), input);
      if (at == model.inputs.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("trainer: expected prediction_inputs that are among the inputs, got ",
                         input.ToString()));
      }
      trainer->predicted_from_.push_back(at - model.inputs.begin());
    }
    MF_ASSIGN_OR_RETURN(trainer->predict_, session.Prepare(inputs, {predictions}));
  }
  return trainer;
}

absl::StatusOr<float> Trainer::TrainStep(const DistributedBatch& batch) {
  MF_ASSIGN_OR_RETURN(const StepOutputs outputs, train_.Run(batch));
  return ScalarOf(outputs[0]);
}

absl::Status Trainer::TakeMetrics(Logs* logs) {
  if (metric_names_.empty()) return absl::OkStatus();
  const KeepStep keep(*session_);
  MF_ASSIGN_OR_RETURN(const StepOutputs values, metric_results_.Run({}));
  for (size_t i = 0; i < metric_names_.size(); ++i) {
    (*logs)[metric_names_[i]] = NumberOf(values[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<Logs> Trainer::Evaluate(const Dataset& dataset) {
  const KeepStep keep(*session_);
  if (!metric_names_.empty()) MF_RETURN_IF_ERROR(reset_metrics_.Run({}).status());
  MeanLoss mean;
  bool has_batches = false;
  DistributedDataset input = strategy_.Distribute(dataset);
  for (DistributedBatch batch; input.Next(&batch);) {
    MF_ASSIGN_OR_RETURN(const StepOutputs outputs, evaluate_.Run(batch));
    MF_ASSIGN_OR_RETURN(const float loss, ScalarOf(outputs[0]));
    if (!std::isfinite(loss)) {
      return absl::OutOfRangeError(
          absl::StrCat("evaluation: the loss is not finite; expected a number, got ", loss));
    }
    mean.Add(loss, batch.num_rows());
    has_batches = true;
  }
  MF_RETURN_IF_ERROR(input.status());
  if (!has_batches) {
    return absl::InvalidArgumentError(
        "evaluation: expected a dataset with at least one batch, got none");
  }
  Logs logs = {{"loss", mean.value()}};
  MF_RETURN_IF_ERROR(TakeMetrics(&logs));
  return logs;
}

absl::StatusOr<StepOutputs> Trainer::RunPrediction(const DistributedBatch& batch) {
  if (batch.components().size() == predicted_from_.size() ||
      batch.components().size() != input_shapes_.size()) {
    return predict_->Run(batch);
  }
  const auto choose = [&](absl::Span<const Tensor> components) {
    std::vector<Tensor> chosen;
    for (const size_t i : predicted_from_) {
      if (i < components.size()) chosen.push_back(components[i]);
    }
    return chosen;
  };
  const std::vector<Tensor> feeds = choose(batch.components()), next = choose(batch.next());
  return predict_->Run(feeds, {.replica_rows = batch.replica_rows(),
                               .next_feeds = next,
                               .local_feeds = batch.has_local_rows()});
}

absl::StatusOr<Tensor> Trainer::Predict(const Dataset& dataset) {
  if (!predict_) {
    return absl::FailedPreconditionError("trainer: expected a model with predictions, got none");
  }
  std::vector<Tensor> parts;
  int64_t rows = 0;
  DistributedDataset input = strategy_.Distribute(dataset);
  for (DistributedBatch batch; input.Next(&batch);) {
    MF_ASSIGN_OR_RETURN(const StepOutputs outputs, RunPrediction(batch));
    // The buffers of a step are reused by the next one.
    MF_ASSIGN_OR_RETURN(Tensor part, outputs[0].Clone());
    if (part.shape().rank() == 0) {
      return absl::InvalidArgumentError(
          "trainer: expected predictions with a value for each row, got a scalar");
    }
    rows += part.shape().dim(0);
    parts.push_back(std::move(part));
  }
  MF_RETURN_IF_ERROR(input.status());
  if (parts.empty()) {
    return absl::InvalidArgumentError(
        "predict: expected a dataset with at least one batch, got none");
  }
  Shape shape = parts[0].shape();
  shape.set_dim(0, rows);
  MF_ASSIGN_OR_RETURN(Tensor all, Tensor::Allocate(parts[0].dtype(), shape));
  std::byte* to = all.raw();
  for (const Tensor& part : parts) {
    if (part.bytes() > 0) std::memcpy(to, part.raw(), part.bytes());
    to += part.bytes();
  }
  return all;
}

absl::StatusOr<std::string> Trainer::Summary(int64_t rows) const {
  std::vector<Shape> shapes = input_shapes_;
  for (Shape& shape : shapes) {
    if (!shape.unknown_rank() && shape.rank() > 0) shape.set_dim(0, rows);
  }
  MF_ASSIGN_OR_RETURN(const StepPlans compiled, CompileStep(train_, shapes));
  const Plan& plan = *compiled.plans[0];
  int64_t variables = 0;
  for (const LayoutRegion& region : session_->state().layout().regions()) variables += region.bytes;
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  return absl::StrCat(
      model_summary_,
      absl::StrFormat("a step of %d rows    %.2f MB on each of %d replicas: %.2f variables and "
                      "gradients, %.2f values, %.2f constants\n",
                      rows, megabytes(variables + plan.arena_bytes + plan.constants_bytes),
                      strategy_.num_replicas_in_sync(), megabytes(variables),
                      megabytes(plan.arena_bytes), megabytes(plan.constants_bytes)));
}

class Trainer::Loop {
 public:
  Loop(Trainer& trainer, const Dataset& dataset, const FitOptions& options)
      : trainer_(trainer),
        dataset_(dataset),
        options_(options),
        state_{.strategy = trainer.strategy_,
               .session = *trainer.session_,
               .epochs = options.epochs,
               .steps_per_epoch = StepsOf(dataset, trainer.strategy_, options),
               .position = options.start} {}

  absl::StatusOr<TrainResult> Run() {
    MF_RETURN_IF_ERROR(Call(&Callback::OnTrainBegin));
    while (!is_over()) MF_RETURN_IF_ERROR(RunEpoch());
    MF_RETURN_IF_ERROR(Call(&Callback::OnTrainEnd));
    if (CheckpointManager* const checkpoints = options_.checkpoints; checkpoints != nullptr) {
      const int64_t step = state_.position.step;
      if (checkpoints->last_step() != step && step > options_.start.step) {
        MF_RETURN_IF_ERROR(checkpoints->Save(state_.position));
      }
      MF_RETURN_IF_ERROR(checkpoints->WaitForSave());
    }
    result_.steps = state_.position.step;
    result_.stopped = state_.stopped;
    result_.median_step_ms = Median(std::move(step_ms_));
    result_.median_host_us = Median(std::move(host_us_));
    if (result_.median_step_ms > 0) {
      result_.examples_per_s = static_cast<double>(largest_batch_) * 1000 / result_.median_step_ms;
    }
    return std::move(result_);
  }

  void Fail(const absl::Status& why) {
    for (Callback* const callback : options_.callbacks) callback->OnException(state_, why);
  }

 private:
  using Event = absl::Status (Callback::*)(TrainingState&);

  absl::Status Call(Event event) {
    for (Callback* const callback : options_.callbacks) {
      MF_RETURN_IF_ERROR((callback->*event)(state_));
    }
    return absl::OkStatus();
  }

  // A step limit overrides `epochs` and runs as many epochs as it takes.
  bool is_over() const {
    if (state_.stopped) return true;
    const TrainingPosition& at = state_.position;
    return options_.steps > 0 ? at.step >= options_.steps : at.epoch >= options_.epochs;
  }

  absl::Status RunEpoch() {
    TrainingPosition& at = state_.position;
    const int64_t done_before = at.batch;
    mean_ = MeanLoss();
    state_.logs.clear();
    MF_RETURN_IF_ERROR(Call(&Callback::OnEpochBegin));
    DistributedDataset input =
        trainer_.strategy_.Distribute(dataset_.Skip(done_before), at.epoch, options_.distribute);
    bool is_stopped_before_step = false;
    for (DistributedBatch batch; !is_over() && input.Next(&batch);) {
      MF_RETURN_IF_ERROR(Call(&Callback::OnStepBegin));
      is_stopped_before_step = state_.stopped.has_value();
      if (is_stopped_before_step) break;
      MF_RETURN_IF_ERROR(RunStep(batch));
    }
    MF_RETURN_IF_ERROR(input.status());
    if (at.batch == 0 && !state_.stopped) {
      return absl::InvalidArgumentError(absl::StrCat(
          "epoch ", at.epoch + 1, ": the dataset has no batches; expected at least one, got none"));
    }
    // Or else the earlier run has done all of it, or the process has been asked to end.
    if (at.batch > done_before && !is_stopped_before_step) MF_RETURN_IF_ERROR(EndEpoch());
    if (!is_over()) {
      ++at.epoch;
      at.batch = 0;
    }
    return absl::OkStatus();
  }

  absl::Status RunStep(const DistributedBatch& batch) {
    TrainingPosition& at = state_.position;
    MF_RETURN_IF_ERROR(step_failpoint.Pass());
    const absl::Time begin = absl::Now();
    MF_ASSIGN_OR_RETURN(state_.loss, trainer_.TrainStep(batch));
    if (!std::exchange(is_first_step_, false)) {  // it compiles, and is not timed
      step_ms_.push_back(absl::ToDoubleMilliseconds(absl::Now() - begin));
      host_us_.push_back(absl::ToDoubleMicroseconds(trainer_.train_.host_time()));
    }
    ++at.step;
    ++at.batch;
    state_.rows = batch.num_rows();
    mean_.Add(state_.loss, state_.rows);
    largest_batch_ = std::max(largest_batch_, state_.rows);
    MF_RETURN_IF_ERROR(Call(&Callback::OnStep));
    if (options_.on_step) MF_RETURN_IF_ERROR(options_.on_step(at.step, state_.loss));
    if (!std::isfinite(state_.loss)) {
      return EndTogether(absl::OutOfRangeError(absl::StrCat(
          "step ", at.step, ": the loss is not finite; expected a number, got ", state_.loss)));
    }
    const auto is_due = [&](int64_t every) { return every > 0 && at.step % every == 0; };
    if (is_due(options_.check_replicas)) {
      const absl::Status same = trainer_.session_->CheckReplicas();
      const absl::Status why = Annotate(same, absl::StrCat("step ", at.step));
      if (absl::IsDataLoss(same)) return EndTogether(why);
      MF_RETURN_IF_ERROR(why);
    }
    if (options_.checkpoints != nullptr && is_due(options_.checkpoint_every)) {
      MF_RETURN_IF_ERROR(options_.checkpoints->Save(at));
    }
    if (options_.validation && is_due(options_.validation_steps)) {
      MF_RETURN_IF_ERROR(Validate());
    }
    return absl::OkStatus();
  }

  // Adds the values of the validation set to the logs.
  absl::Status Validate() {
    MF_RETURN_IF_ERROR(trainer_.TakeMetrics(&state_.logs));
    MF_ASSIGN_OR_RETURN(const Logs values, trainer_.Evaluate(*options_.validation));
    for (const auto& [name, value] : values) state_.logs[absl::StrCat("val_", name)] = value;
    return Call(&Callback::OnValidationEnd);
  }

  absl::Status EndEpoch() {
    result_.loss = state_.logs["loss"] = mean_.value();
    MF_RETURN_IF_ERROR(options_.validation ? Validate() : trainer_.TakeMetrics(&state_.logs));
    MF_RETURN_IF_ERROR(Call(&Callback::OnEpochEnd));
    result_.history.push_back(state_.logs);
    return absl::OkStatus();
  }

  // Ends a loop that ends on all workers after the same step. The first process to end has a
  // launcher end the others, one of which may be saving.
  absl::Status EndTogether(const absl::Status& why) {
    if (options_.checkpoints != nullptr) options_.checkpoints->WaitForSave().IgnoreError();
    return why;
  }

  Trainer& trainer_;
  const Dataset& dataset_;
  const FitOptions& options_;
  TrainingState state_;
  TrainResult result_;
  MeanLoss mean_;  // of the epoch
  std::vector<double> step_ms_, host_us_;
  int64_t largest_batch_ = 0;
  bool is_first_step_ = true;
};

absl::StatusOr<TrainResult> Trainer::Fit(const Dataset& dataset, const FitOptions& options) {
  if (!can_train_) {
    return absl::FailedPreconditionError(
        "trainer: expected a model with an operation that trains, got none");
  }
  MF_RETURN_IF_ERROR(CheckStart(strategy_.topology(), options));
  Loop loop(*this, dataset, options);
  absl::StatusOr<TrainResult> result = loop.Run();
  if (!result.ok()) loop.Fail(result.status());
  return result;
}

}  // namespace mirrorflow
