// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "mirrorflow_debug.h"
#include "tools/bench/benchmarks.h"
#include "tools/bench/statistics.h"
#include "tools/bench/temporary_directory.h"
#include "tools/bench/training_case.h"
#include "train/trainer/progress_host.h"

namespace mirrorflow {
namespace {

constexpr int64_t kBatch = 64;           // per replica
constexpr int64_t kStepsPerEpoch = 100;  // few, so that the cost per epoch matters
constexpr int kRounds = 21;

// A terminal that discards its output.
class HiddenTerminal final : public ProgressHost {
 public:
  absl::Time Now() override { return absl::Now(); }
  absl::Duration Uptime() override { return MonotonicTime::Now() - start_; }
  bool IsTerminal() override { return true; }
  bool UseColor() override { return true; }
  int Columns() override { return 100; }
  void Write(absl::string_view text) override { written_ += text.size(); }

 private:
  const MonotonicTime start_ = MonotonicTime::Now();
  size_t written_ = 0;
};

// A model that is ready to train, with or without a metric.
struct Training {
  std::unique_ptr<Strategy> strategy;
  Graph graph;
  Dataset dataset;
  std::unique_ptr<Trainer> trainer;
};

absl::StatusOr<std::unique_ptr<Training>> Prepare(int replicas, bool with_metric) {
  auto t = std::make_unique<Training>();
  MF_ASSIGN_OR_RETURN(t->strategy, MirroredStrategy::Create({.num_cpu_replicas = replicas}));
  const auto mirrored = t->strategy->scope();
  const Scope root(&t->graph);
  const Output images = ops::Placeholder(root.WithName("images"), DT_FLOAT, {-1, 784});
  const Output labels = ops::Placeholder(root.WithName("labels"), DT_INT32, {-1});
  Output x = layers::Dense(root, images, 512, ops::Relu);
  const Output logits = layers::Dense(root, layers::Dense(root, x, 512, ops::Relu), 10);
  const Output loss = losses::SparseSoftmaxCrossEntropy(root, logits, labels);
  Model model = {.inputs = {images, labels},
                 .loss = loss,
                 .train = SGD({.learning_rate = kBenchLearningRate}).Minimize(root, loss)};
  if (with_metric) {
    model.metrics = {{"accuracy", metrics::SparseCategoricalAccuracy(root, logits, labels)}};
  }
  MF_ASSIGN_OR_RETURN(t->trainer, Trainer::Create(*t->strategy, t->graph, model));
  const int64_t rows = kBatch * replicas;
  MF_ASSIGN_OR_RETURN(Tensor features, NoiseOf(DT_FLOAT, {rows * kStepsPerEpoch, 784}));
  MF_ASSIGN_OR_RETURN(Tensor classes, NoiseOf(DT_INT32, {rows * kStepsPerEpoch}));
  t->dataset = Dataset::FromTensors({std::move(features), std::move(classes)}).Batch(rows);
  return t;
}

// Makes a side that runs whole epochs and returns the time per step.
Side MakeEpochSide(std::function<absl::Status()> epoch) {
  return [epoch = std::move(epoch)](double round_ms) -> absl::StatusOr<double> {
    MF_ASSIGN_OR_RETURN(const double epoch_ms, MeanCallMs(round_ms, epoch));
    return epoch_ms / kStepsPerEpoch;
  };
}

absl::Status BenchReplicas(int replicas, Report* report) {
  MF_ASSIGN_OR_RETURN(const auto bare, Prepare(replicas, /*with_metric=*/false));
  MF_ASSIGN_OR_RETURN(const auto full, Prepare(replicas, /*with_metric=*/true));
  const auto bare_epoch = [&]() -> absl::Status {
    DistributedDataset input = bare->strategy->Distribute(bare->dataset);
    for (DistributedBatch batch; input.Next(&batch);) {
      MF_RETURN_IF_ERROR(bare->trainer->TrainStep(batch).status());
    }
    return input.status();
  };
  HiddenTerminal terminal;
  const TemporaryDirectory log_dir;
  ProgressBar progress(terminal, LogFormat::kBar, {});
  TensorBoard tensor_board(log_dir.path(), {.update_freq = 1});
  const auto full_epoch = [&] {
    return full->trainer->Fit(full->dataset, {.callbacks = {&progress, &tensor_board}}).status();
  };
  MF_ASSIGN_OR_RETURN(
      const Rounds rounds,
      MeasureInTurns({MakeEpochSide(bare_epoch), MakeEpochSide(full_epoch)},
                     {.rounds = kRounds, .round_ms = 500, .canary_threads = replicas}));
  const std::string name = absl::StrCat("mlp ", kBatch, ", ", replicas, " replicas");
  report->Add(absl::StrCat("trainer/bare loop, ", name), replicas, 0, TimingOf(rounds, 0));
  report->Add(absl::StrCat("trainer/Trainer, ", name), replicas, 0, TimingOf(rounds, 1));
  report->Add(
      {.what = absl::StrCat("bare loop / Trainer with progress, TensorBoard, metric, ", name),
       .figure = RatioOf(rounds.ms[0], rounds.ms[1]),
       .bound = 0.99});
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchTrainer(Report* report) {
  MF_RETURN_IF_ERROR(BenchReplicas(1, report));
  return BenchReplicas(2, report);
}

}  // namespace mirrorflow
