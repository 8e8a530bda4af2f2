// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "distribute/strategy/multi_worker_mirrored_strategy.h"
#include "ops/control.h"
#include "tests/support/files.h"
#include "tests/train/numbers/numeric_rows.h"
#include "train/layers/layers.h"
#include "train/losses/losses.h"
#include "train/optimizers/optimizers.h"
#include "train/summary/summary_writer.h"
#include "train/trainer/training.h"

namespace mirrorflow {
namespace {

using namespace numeric_rows;  // NOLINT: each row names one of them

Tensor Column() { return Tensor::Of<float>({4, 1}, std::vector<float>{1, 2, 3, 4}); }

// Calls `use` with a trainer that fits a line and whose learning rate is Adjustable.
template <typename Use>
absl::Status WithTrainer(Use use) {
  const auto strategy = OneDeviceStrategy::Create();
  if (!strategy.ok()) return strategy.status();
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 1});
  const Output y = ops::Placeholder(root, DT_FLOAT, {-1, 1});
  const Output loss = losses::MeanSquaredError(root, layers::Dense(root, x, 1), y);
  const SGD optimizer({.learning_rate = schedules::Adjustable(0.01)});
  const auto trainer = Trainer::Create(
      **strategy, graph, {.inputs = {x, y}, .loss = loss, .train = optimizer.Minimize(root, loss)});
  return trainer.ok() ? use(**trainer) : trainer.status();
}

absl::Status FitWith(const FitOptions& options) {
  return WithTrainer([&](Trainer& trainer) {
    return trainer.Fit(Dataset::FromTensors({Column(), Column()}).Batch(2), options).status();
  });
}

absl::Status FitWith(Callback&& callback) { return FitWith({.callbacks = {&callback}}); }

absl::Status StatusOf(const CheckpointManager::Options& options) {
  return WithTrainer([&](Trainer& trainer) {
    return CheckpointManager::Create(trainer.session(), options).status();
  });
}

absl::Status StatusOf(const EventFileOptions& options) {
  return EventFileWriter::Open(TemporaryPath("numbers_events"), options).status();
}

absl::Status AddHistogram(int buckets) {
  const auto writer = SummaryWriter::Open(TemporaryPath("numbers_events"));
  if (!writer.ok()) return writer.status();
  return (*writer)->AddHistogram("values", Column(), 1, {.buckets = buckets});
}

absl::Status StatusOf(MirroredStrategy::Options options) {
  if (!options.num_cpu_replicas) options.num_cpu_replicas = 1;
  const absl::Status of_workers =
      MultiWorkerMirroredStrategy::Create({.cluster = {}, .replicas = options}).status();
  const absl::Status status = MirroredStrategy::Create(options).status();
  return status.ok() ? of_workers : status;
}

absl::Status StatusOf(MultiWorkerMirroredStrategy::Options options) {
  options.replicas.num_cpu_replicas = 1;
  return MultiWorkerMirroredStrategy::Create(options).status();
}

// Makes a row for a timeout in seconds, which may be infinite.
NumericRow Timeout(std::string name, std::function<absl::Status(absl::Duration)> status_with) {
  return {std::move(name), {0, -1, -kInf}, {1, kInf}, [=](double seconds) {
            return status_with(absl::Seconds(seconds));
          }};
}

#define REAL(name, bad, good, ...) \
  Real(name, Numbers bad, Numbers good, [](double v) -> absl::Status { return __VA_ARGS__; })
#define INTEGER(name, bad, good, ...) \
  Integer(name, Numbers bad, Numbers good, [](int64_t v) -> absl::Status { return __VA_ARGS__; })
#define SIZE(name, ...) INTEGER(name, ({-1, 0}), ({1, 2}), __VA_ARGS__)
#define COUNT(name, ...) INTEGER(name, ({-1}), ({0, 2}), __VA_ARGS__)
#define TIMEOUT(name, ...) \
  Timeout(name, [](absl::Duration v) -> absl::Status { return __VA_ARGS__; })

std::vector<NumericRow> FitRows() {
  const auto reduce = [](ReduceLROnPlateauOptions options) {
    options.monitor = "loss";
    return FitWith(ReduceLROnPlateau(options));
  };
  return {
      SIZE("FitOptions.epochs", FitWith({.epochs = v})),
      // 0 epochs are legal if `steps` limits the run.
      COUNT("FitOptions.epochs", FitWith({.epochs = v, .steps = 1})),
      COUNT("FitOptions.steps", FitWith({.steps = v})),
      COUNT("FitOptions.validation_steps", FitWith({.validation_steps = v})),
      COUNT("FitOptions.checkpoint_every", FitWith({.checkpoint_every = v})),
      COUNT("FitOptions.check_replicas", FitWith({.check_replicas = v})),
      COUNT("TrainingPosition.step", FitWith({.start = {.step = v}})),
      COUNT("TrainingPosition.epoch", FitWith({.epochs = 3, .start = {.epoch = v}})),
      INTEGER("TrainingPosition.batch", ({-1}), ({0, 1}), FitWith({.start = {.batch = v}})),
      SIZE("Summary.rows",
           WithTrainer([&](Trainer& trainer) { return trainer.Summary(v).status(); })),
      REAL("EarlyStoppingOptions.min_delta", ({}), ({0, -1, 0.5}),
           FitWith(EarlyStopping({.monitor = "loss", .min_delta = v}))),
      COUNT("EarlyStoppingOptions.patience",
            FitWith(EarlyStopping({.monitor = "loss", .patience = v}))),
      Real("ReduceLROnPlateauOptions.factor", {-1, 1}, {0, 0.5},
           [=](double v) { return reduce({.factor = v}); }),
      Integer("ReduceLROnPlateauOptions.patience", {-5}, {0, 2},
              [=](int64_t v) { return reduce({.patience = v}); }),
      Real("ReduceLROnPlateauOptions.min_delta", {}, {0, -1},
           [=](double v) { return reduce({.min_delta = v}); }),
      Integer("ReduceLROnPlateauOptions.cooldown", {-1}, {0, 2},
              [=](int64_t v) { return reduce({.cooldown = v}); }),
      Real("ReduceLROnPlateauOptions.min_lr", {-1}, {0, 0.5},
           [=](double v) { return reduce({.min_lr = v}); }),
      COUNT("TensorBoardOptions.update_freq",
            FitWith(TensorBoard(TemporaryPath("numbers_board"), {.update_freq = v}))),
      COUNT("TensorBoardOptions.histogram_freq",
            FitWith(TensorBoard(TemporaryPath("numbers_board"), {.histogram_freq = v}))),
  };
}

std::vector<NumericRow> FileRows() {
  const auto manager = [](CheckpointManager::Options options) {
    options.directory = TemporaryPath("numbers_checkpoints");
    return StatusOf(options);
  };
  return {
      Integer("CheckpointManager::Options.keep", {-1, 0, 1}, {2, 3},
              [=](int64_t v) { return manager({.keep = static_cast<int>(v)}); }),
      Integer("CheckpointManager::Options.max_failed_saves", {-1, 0}, {1, 3},
              [=](int64_t v) { return manager({.max_failed_saves = static_cast<int>(v)}); }),
      Timeout("CheckpointManager::Options.timeout",
              [=](absl::Duration v) { return manager({.timeout = v}); }),
      Timeout("CheckpointManager::Options.lock_timeout",
              [=](absl::Duration v) { return manager({.lock_timeout = v}); }),
      INTEGER("EventFileOptions.max_queue_bytes", ({0}), ({1}),
              StatusOf(EventFileOptions{.max_queue_bytes = static_cast<size_t>(v)})),
      TIMEOUT("EventFileOptions.flush_interval", StatusOf(EventFileOptions{.flush_interval = v})),
      SIZE("AddHistogramOptions.buckets", AddHistogram(static_cast<int>(v))),
  };
}

std::vector<NumericRow> StrategyRows() {
  using OneDevice = OneDeviceStrategy;
  using Mirrored = MirroredStrategy::Options;
  using Workers = MultiWorkerMirroredStrategy::Options;
  return {
      TIMEOUT("MetricsServerOptions.progress_timeout",
              MetricsServer::Start({.address = "0", .progress_timeout = v}).status()),
      TIMEOUT("OneDeviceStrategy::Options.step_timeout",
              OneDevice::Create({.step_timeout = v}).status()),
      SIZE("OneDeviceStrategy::Options.max_bytes", OneDevice::Create({.max_bytes = v}).status()),
      SIZE("OneDeviceStrategy::Options.max_cached_steps",
           OneDevice::Create({.max_cached_steps = static_cast<int>(v)}).status()),
      COUNT("OneDeviceStrategy::Options.max_concurrent_runs",
            OneDevice::Create({.max_concurrent_runs = static_cast<int>(v)}).status()),
      INTEGER("OneDeviceStrategy::Options.threads_per_replica", ({-1, 0, 257}), ({1, 2}),
              OneDevice::Create({.threads_per_replica = static_cast<int>(v)}).status()),
      INTEGER("MirroredStrategy::Options.threads_per_replica", ({-1, 0, 257}), ({1, 2}),
              StatusOf(Mirrored{.threads_per_replica = static_cast<int>(v)})),
      SIZE("MirroredStrategy::Options.num_cpu_replicas",
           StatusOf(Mirrored{.num_cpu_replicas = static_cast<int>(v)})),
      COUNT("MirroredStrategy::Options.bucket_bytes", StatusOf(Mirrored{.bucket_bytes = v})),
      TIMEOUT("MirroredStrategy::Options.collective_timeout",
              StatusOf(Mirrored{.collective_timeout = v})),
      TIMEOUT("MirroredStrategy::Options.step_timeout", StatusOf(Mirrored{.step_timeout = v})),
      SIZE("MirroredStrategy::Options.max_bytes", StatusOf(Mirrored{.max_bytes = v})),
      SIZE("MirroredStrategy::Options.max_cached_steps",
           StatusOf(Mirrored{.max_cached_steps = static_cast<int>(v)})),
      TIMEOUT("JoinOptions.connect_timeout", StatusOf(Workers{.join = {.connect_timeout = v}})),
      TIMEOUT("JoinOptions.prepare_timeout", StatusOf(Workers{.join = {.prepare_timeout = v}})),
      TIMEOUT("JoinOptions.heartbeat_timeout", StatusOf(Workers{.join = {.heartbeat_timeout = v}})),
      TIMEOUT("JoinOptions.progress_timeout", StatusOf(Workers{.join = {.progress_timeout = v}})),
      {"JoinOptions.rejoin_timeout",
       {-1, -kInf},
       {0, 1, kInf},
       [](double seconds) {
         return StatusOf(Workers{.join = {.rejoin_timeout = absl::Seconds(seconds)}});
       }},
      COUNT("ExchangeOptions.ring_from",
            StatusOf(Workers{.join = {.exchange = {.ring_from = static_cast<int>(v)}}})),
  };
}

}  // namespace

std::vector<NumericRow> TrainingRows() {
  std::vector<NumericRow> rows = FitRows();
  for (const auto& more : {FileRows(), StrategyRows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace mirrorflow
