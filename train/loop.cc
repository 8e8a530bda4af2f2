// SPDX-License-Identifier: Apache-2.0
#include "train/loop.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/failpoint.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

Failpoint step_failpoint("train/step");

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

absl::StatusOr<float> LossOf(StepOutputs outputs) {
  const absl::string_view expected =
      "train loop: expected a step whose first fetch is the loss, a float scalar, got ";
  if (outputs.empty()) return absl::InvalidArgumentError(absl::StrCat(expected, "no fetch"));
  const Tensor& loss = outputs[0];
  if (!loss.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(expected, "a value that differs between replicas"));
  }
  if (loss.dtype() != DT_FLOAT || loss.shape().rank() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(expected, DataTypeName(loss.dtype()), loss.shape().ToString()));
  }
  return loss.scalar<float>();
}

}  // namespace

absl::StatusOr<TrainResult> TrainLoop(const Strategy& strategy, Step step, const Dataset& dataset,
                                      Progress& progress, const TrainLoopOptions& options) {
  if (options.check_replicas > 0 && options.session == nullptr) {
    return absl::InvalidArgumentError(
        "train loop: check_replicas is set; expected the session of the step, got none");
  }
  TrainingPosition at = options.start;
  TrainResult result;
  std::vector<double> step_ms, host_us;
  int64_t largest_batch = 0;
  bool first_step = true;  // it compiles, and is not timed
  // A step limit overrides `epochs` and runs as many epochs as it takes.
  bool is_stopped = false;
  const auto is_over = [&] {
    if (is_stopped) return true;
    return options.steps > 0 ? at.step >= options.steps : at.epoch >= options.epochs;
  };
  while (!is_over()) {
    const int64_t done_before = at.batch;
    progress.BeginEpoch(at.epoch + 1, dataset.size(), done_before);
    DistributedDataset input = strategy.Distribute(dataset.Skip(done_before), at.epoch);
    double loss_sum = 0;
    DistributedBatch batch;
    while (!is_over() && input.Next(&batch)) {
      is_stopped = options.preemption != nullptr && !options.preemption->MayBegin(at.step + 1);
      if (is_stopped) break;
      MF_RETURN_IF_ERROR(step_failpoint.Pass());
      const absl::Time begin = absl::Now();
      MF_ASSIGN_OR_RETURN(const StepOutputs outputs, step.Run(batch));
      MF_ASSIGN_OR_RETURN(const float loss, LossOf(outputs));
      if (!std::exchange(first_step, false)) {
        step_ms.push_back(absl::ToDoubleMilliseconds(absl::Now() - begin));
        host_us.push_back(absl::ToDoubleMicroseconds(step.host_time()));
      }
      ++at.step;
      ++at.batch;
      loss_sum += loss;
      largest_batch = std::max(largest_batch, batch.num_rows());
      const Metric metrics[] = {{"loss", loss}};
      progress.Step(batch.num_rows(), metrics);
      if (options.on_step) MF_RETURN_IF_ERROR(options.on_step(at.step, loss));
      if (!std::isfinite(loss)) {
        return absl::OutOfRangeError(absl::StrCat(
            "step ", at.step, ": the loss is not finite; expected a number, got ", loss));
      }
      const auto is_due = [&](int64_t every) { return every > 0 && at.step % every == 0; };
      if (is_due(options.check_replicas)) {
        MF_RETURN_IF_ERROR(
            Annotate(options.session->CheckReplicas(), absl::StrCat("step ", at.step)));
      }
      if (options.checkpoints != nullptr && is_due(options.checkpoint_every)) {
        MF_RETURN_IF_ERROR(options.checkpoints->Save(at));
      }
    }
    MF_RETURN_IF_ERROR(input.status());
    if (at.batch == 0 && !is_stopped) {
      return absl::InvalidArgumentError(absl::StrCat(
          "epoch ", at.epoch + 1, ": the dataset has no batches; expected at least one, got none"));
    }
    if (at.batch > done_before) {  // or else the earlier run has done all of it
      result.loss = loss_sum / static_cast<double>(at.batch - done_before);
      const Metric metrics[] = {{"mean_loss", result.loss}};
      progress.EndEpoch(metrics);
    }
    if (!is_over()) {
      ++at.epoch;
      at.batch = 0;
    }
  }
  if (options.preemption != nullptr) {
    MF_ASSIGN_OR_RETURN(result.stopped_by, options.preemption->Finish());
  }
  if (options.checkpoints != nullptr) {
    if (options.checkpoints->last_step() != at.step && at.step > options.start.step) {
      MF_RETURN_IF_ERROR(options.checkpoints->Save(at));
    }
    MF_RETURN_IF_ERROR(options.checkpoints->WaitForSave());
  }
  result.steps = at.step;
  result.median_step_ms = Median(std::move(step_ms));
  result.median_host_us = Median(std::move(host_us));
  if (result.median_step_ms > 0) {
    result.examples_per_s = static_cast<double>(largest_batch) * 1000 / result.median_step_ms;
  }
  return result;
}

}  // namespace mirrorflow
