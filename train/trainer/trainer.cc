// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/failpoint.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/step_plans.h"
#include "train/inference.h"
#include "train/numeric_options.h"
#include "train/trainer/fit_loop.h"
#include "train/trainer/model_summary.h"

namespace mirrorflow {
namespace {

Failpoint inference_failpoint("train/inference_step");

// Returns InvalidArgument, naming the field, unless `graph` owns every value of the model.
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
    return error("a float scalar as the loss",
                 absl::StrCat(DataTypeName(model.loss.dtype()), shape.ToString()));
  }
  for (const auto& [name, metric] : model.metrics) {
    const Shape& of_result = graph.values().at(metric.result).shape;
    const DataType dtype = metric.result.dtype();
    if ((dtype != DT_FLOAT && dtype != DT_DOUBLE) || of_result != Shape()) {
      return error(absl::StrCat("a scalar as the result of metric '", name, "'"),
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
      absl::StrCat("trainer: expected a float scalar as the loss, got ",
                   loss.has_value() ? loss.TypeString() : "a value that differs between replicas"));
}

double NumberOf(const Tensor& value) {
  return value.dtype() == DT_FLOAT ? value.scalar<float>() : value.scalar<double>();
}

absl::Status CheckFitNumbers(const FitOptions& o) {
  return CheckNumbers("Fit()", {{"steps", o.steps, kNotNegative},
                                {"epochs", o.epochs, o.steps > 0 ? kNotNegative : kAtLeastOne},
                                {"validation_steps", o.validation_steps, kNotNegative},
                                {"start.step", o.start.step, kNotNegative},
                                {"start.epoch", o.start.epoch, kNotNegative},
                                {"start.batch", o.start.batch, kNotNegative},
                                {"checkpoint_every", o.checkpoint_every, kNotNegative},
                                {"check_replicas", o.check_replicas, kNotNegative}});
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
    // Read and reset in one step; its reads precede its writes. With a separate reset, one worker
    // could end its session after the reset while another worker still runs it. That worker's reset
    // would fail, although it does not communicate.
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
        return absl::InvalidArgumentError(absl::StrCat(
            "trainer: prediction_inputs: expected only outputs that are in inputs, got ",
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
  // Steps that only read metric sums must not change the random numbers of later training steps.
  const absl::Cleanup keep_step = [this, step = session_->step()] { session_->SetStep(step); };
  MF_ASSIGN_OR_RETURN(const StepOutputs values, metric_results_.Run({}));
  for (size_t i = 0; i < metric_names_.size(); ++i) {
    (*logs)[metric_names_[i]] = NumberOf(values[i]);
  }
  return absl::OkStatus();
}

absl::Status Trainer::BeginInferenceStep() {
  MF_RETURN_IF_ERROR(inference_failpoint.Pass());
  return loop_ == nullptr ? absl::OkStatus() : loop_->BeginInferenceStep();
}

DistributedDataset Trainer::DistributeForInference(const Dataset& dataset,
                                                   const InferenceOptions& options) const {
  return strategy_.Distribute(dataset, /*epoch=*/0, {.compare_data = options.compare_data});
}

absl::StatusOr<Logs> Trainer::Evaluate(const Dataset& dataset, const InferenceOptions& options) {
  MF_RETURN_IF_ERROR(dataset.CheckBatched());
  // As in TakeMetrics, later training steps must have the same random numbers.
  const absl::Cleanup keep_step = [this, step = session_->step()] { session_->SetStep(step); };
  if (!metric_names_.empty()) MF_RETURN_IF_ERROR(reset_metrics_.Run({}).status());
  MeanLoss mean;
  bool has_batches = false;
  DistributedDataset input = DistributeForInference(dataset, options);
  for (DistributedBatch batch; input.Next(&batch);) {
    MF_RETURN_IF_ERROR(BeginInferenceStep());
    MF_ASSIGN_OR_RETURN(const StepOutputs outputs, evaluate_.Run(batch));
    MF_ASSIGN_OR_RETURN(const float loss, ScalarOf(outputs[0]));
    if (!std::isfinite(loss)) {
      return NumericError(absl::OutOfRangeError(
          absl::StrCat("evaluation: the loss is not finite; expected a number, got ", loss)));
    }
    mean.Add(loss, batch.num_rows());
    has_batches = true;
  }
  MF_RETURN_IF_ERROR(input.status());
  if (!has_batches) {
    return absl::InvalidArgumentError(
        "evaluation: the dataset is empty; expected at least one batch, got none");
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

absl::StatusOr<Tensor> Trainer::Predict(const Dataset& dataset, const InferenceOptions& options) {
  if (!predict_) {
    return absl::FailedPreconditionError(
        "trainer: the model has no predictions; set Model::predictions to use Predict()");
  }
  MF_RETURN_IF_ERROR(dataset.CheckBatched());
  std::vector<Tensor> parts;
  int64_t rows = 0;
  DistributedDataset input = DistributeForInference(dataset, options);
  for (DistributedBatch batch; input.Next(&batch);) {
    MF_RETURN_IF_ERROR(BeginInferenceStep());
    MF_ASSIGN_OR_RETURN(const StepOutputs outputs, RunPrediction(batch));
    // Copy the predictions, because the next step reuses their buffers.
    MF_ASSIGN_OR_RETURN(Tensor part, outputs[0].Clone());
    if (part.shape().rank() == 0) {
      return absl::InvalidArgumentError(
          "trainer: expected predictions with one value per row, got a scalar");
    }
    rows += part.shape().dim(0);
    parts.push_back(std::move(part));
  }
  MF_RETURN_IF_ERROR(input.status());
  if (parts.empty()) {
    return absl::InvalidArgumentError(
        "predict: the dataset is empty; expected at least one batch, got none");
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
  MF_RETURN_IF_ERROR(CheckNumbers("Summary()", {{"rows", rows, kAtLeastOne}}));
  std::vector<Shape> shapes = input_shapes_;
  for (Shape& shape : shapes) {
    if (!shape.unknown_rank() && shape.rank() > 0) shape.set_dim(0, rows);
  }
  MF_ASSIGN_OR_RETURN(const StepPlans compiled, CompileStep(train_, shapes));
  const Plan& plan = *compiled.plans[0];
  int64_t variables = 0;
  for (const LayoutRegion& region : session_->layout().regions()) variables += region.bytes;
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  return absl::StrCat(
      model_summary_,
      absl::StrFormat("a step of %d rows    %.2f MB on each of %d replicas: %.2f variables and "
                      "gradients, %.2f intermediate values, %.2f constants\n",
                      rows, megabytes(variables + plan.arena_bytes + plan.constants_bytes),
                      strategy_.num_replicas_in_sync(), megabytes(variables),
                      megabytes(plan.arena_bytes), megabytes(plan.constants_bytes)));
}

absl::StatusOr<TrainResult> Trainer::Fit(const Dataset& dataset, const FitOptions& options) {
  if (!can_train_) {
    return absl::FailedPreconditionError(
        "trainer: the model has no `train` operation; set Model::train to use Fit()");
  }
  MF_RETURN_IF_ERROR(CheckFitNumbers(options));
  MF_RETURN_IF_ERROR(dataset.CheckBatched());
  if (options.validation) {
    MF_RETURN_IF_ERROR(Annotate(options.validation->CheckBatched(), "validation"));
  }
  if (loop_ != nullptr) {
    return absl::FailedPreconditionError(
        "Fit(): this trainer is already in Fit(); wait until that call returns");
  }
  Loop loop(*this, dataset, options);
  loop_ = &loop;
  const absl::Cleanup ended = [this] { loop_ = nullptr; };
  absl::StatusOr<TrainResult> result = loop.Run();
  if (!result.ok()) loop.Fail(result.status());
  return result;
}

}  // namespace mirrorflow
