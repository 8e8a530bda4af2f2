// SPDX-License-Identifier: Apache-2.0
#include "train/loop.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

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
  TrainResult result;
  std::vector<double> step_ms, host_us;
  int64_t largest_batch = 0;
  // A step limit overrides `epochs` and runs as many epochs as it takes.
  for (int64_t epoch = 0; options.steps > 0 || epoch < options.epochs; ++epoch) {
    if (options.steps > 0 && result.steps == options.steps) break;
    progress.BeginEpoch(epoch + 1, dataset.size());
    DistributedDataset input = strategy.Distribute(dataset, epoch);
    double loss_sum = 0;
    int64_t epoch_steps = 0;
    DistributedBatch batch;
    while ((options.steps == 0 || result.steps < options.steps) && input.Next(&batch)) {
      const absl::Time begin = absl::Now();
      MF_ASSIGN_OR_RETURN(const StepOutputs outputs, step.Run(batch));
      MF_ASSIGN_OR_RETURN(const float loss, LossOf(outputs));
      if (result.steps > 0) {
        step_ms.push_back(absl::ToDoubleMilliseconds(absl::Now() - begin));
        host_us.push_back(absl::ToDoubleMicroseconds(step.host_time()));
      }
      ++result.steps;
      ++epoch_steps;
      loss_sum += loss;
      largest_batch = std::max(largest_batch, batch.num_rows());
      const Metric metrics[] = {{"loss", loss}};
      progress.Step(batch.num_rows(), metrics);
      if (options.on_step) MF_RETURN_IF_ERROR(options.on_step(result.steps, loss));
      if (!std::isfinite(loss)) {
        return absl::OutOfRangeError(absl::StrCat(
            "step ", result.steps, ": the loss is not finite; expected a number, got ", loss));
      }
    }
    MF_RETURN_IF_ERROR(input.status());
    if (epoch_steps == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "epoch ", epoch + 1, ": the dataset has no batches; expected at least one, got none"));
    }
    result.loss = loss_sum / static_cast<double>(epoch_steps);
    const Metric metrics[] = {{"mean_loss", result.loss}};
    progress.EndEpoch(metrics);
  }
  result.median_step_ms = Median(std::move(step_ms));
  result.median_host_us = Median(std::move(host_us));
  if (result.median_step_ms > 0) {
    result.examples_per_s = static_cast<double>(largest_batch) * 1000 / result.median_step_ms;
  }
  return result;
}

}  // namespace mirrorflow
