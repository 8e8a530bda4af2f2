// SPDX-License-Identifier: Apache-2.0
//
// Trains and tests a classifier of Fashion-MNIST images under MirroredStrategy or, when started as
// several processes, MultiWorkerMirroredStrategy.
//
//   fashion_mnist --model=cnn --replicas=2 --epochs=3
#include <signal.h>
#include <string.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/log_line.h"
#include "framework/core/terminal.h"
#include "framework/runtime/failure.h"
#include "framework/workers/connection.h"
#include "mirrorflow_debug.h"
#include "tools/flags/checkpoint_flags.h"
#include "tools/flags/cluster_flags.h"
#include "tools/flags/command_line.h"
#include "tools/flags/compute_flags.h"
#include "tools/flags/metrics_flags.h"
#include "tools/loss_log.h"
#include "tools/models/classifiers.h"

ABSL_FLAG(std::string, model, "cnn",
          "mlp (784-512-512-10), cnn (two convolutions, two dense) or resnet (ResNet-20)");
ABSL_FLAG(std::optional<int>, replicas, std::nullopt,
          "number of CPU replicas; default: one replica on each GPU or, without GPUs, on each "
          "core, or up to 16 replicas that share out all cores");
ABSL_FLAG(std::vector<std::string>, devices, {},
          "devices of the replicas: GPU:0,GPU:1,…; empty: see --replicas");
ABSL_FLAG(int, logical_gpus, 0, "number of replicas that share GPU:0; 0: see --devices");
ABSL_FLAG(int64_t, global_batch_size, 128, "examples per step, over all replicas");
ABSL_FLAG(int64_t, epochs, 20, "number of passes over the training images");
ABSL_FLAG(int64_t, steps, 0, "stop after this many steps; 0: train for --epochs");
ABSL_FLAG(std::string, optimizer, "momentum", "sgd, momentum or adam");
ABSL_FLAG(std::optional<double>, learning_rate, std::nullopt,
          "highest learning rate of the run; default: one that suits the optimizer");
ABSL_FLAG(std::string, schedule, "one_cycle",
          "learning rate schedule: one_cycle (up from near 0 and down again over --epochs) or "
          "constant");
ABSL_FLAG(uint64_t, seed, 1, "seed of the initial values and the order of examples");
ABSL_FLAG(std::string, data_dir, "",
          "folder with the four IDX files; empty: where Debian installs them");
ABSL_FLAG(std::string, loss_log, "", "write `step loss` lines to this file");
ABSL_FLAG(std::string, save_variables, "", "write the variables to this .safetensors file");
ABSL_FLAG(std::string, save_graph, "", "write the graph to this file (.pb, .pbtxt, .txt)");
ABSL_FLAG(std::string, trace, "",
          "write a Chrome trace of some steps to this file; it covers all workers unless the name "
          "contains {worker}, in which case each worker writes its own file");
ABSL_FLAG(bool, check_plan, false,
          "before each plan runs, check that every value is written before it is read");
ABSL_FLAG(int64_t, check_replicas, 0,
          "steps between comparisons of all replicas' variables, which must be equal; 0: never");
ABSL_FLAG(std::string, log_format, "auto", "progress format: auto, bar, text, json or off");

namespace mirrorflow {
namespace {

constexpr int64_t kTestBatchSize = 1000;
constexpr int kTracedSteps = 5;

// `total_steps` counts the steps of all epochs, even if --steps ends the run earlier.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(int64_t total_steps) {
  const std::string name = absl::GetFlag(FLAGS_optimizer);
  const std::string schedule = absl::GetFlag(FLAGS_schedule);
  const std::optional<double> given = absl::GetFlag(FLAGS_learning_rate);
  auto rate = [&](double otherwise) -> LearningRate {
    const double highest = given.value_or(otherwise);
    if (schedule == "constant") return highest;
    // Start near 0: at a high rate, the first steps of a network amplify every rounding error.
    return schedules::OneCycle(
        {.max_learning_rate = highest, .total_steps = total_steps, .div_factor = 1000});
  };
  if (name == "sgd") return std::make_unique<GradientDescent>(GradientDescent::Options{rate(0.2)});
  if (name == "momentum") {
    // A network with normalised layers needs a higher rate, and tolerates it.
    const bool resnet = absl::GetFlag(FLAGS_model) == "resnet";
    return std::make_unique<Momentum>(Momentum::Options{rate(resnet ? 0.1 : 0.03)});
  }
  return std::make_unique<Adam>(Adam::Options{rate(0.002)});
}

// Returns the fraction of test images that the model classifies correctly, with each batch weighted
// by its row count. Returns a numeric error if the loss of a batch is not finite.
absl::StatusOr<double> TestAccuracy(const Strategy& strategy, Step step, const Dataset& test) {
  DistributedDataset input = strategy.Distribute(test.Batch(kTestBatchSize));
  double right = 0;
  int64_t rows = 0;
  for (DistributedBatch batch; input.Next(&batch);) {
    MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run(batch));
    if (!std::isfinite(out[1].scalar<float>())) {
      return NumericError(
          absl::OutOfRangeError("test loss: not finite after the last variable update"));
    }
    right += static_cast<double>(out[0].scalar<float>()) * static_cast<double>(batch.num_rows());
    rows += batch.num_rows();
  }
  MF_RETURN_IF_ERROR(input.status());
  return rows > 0 ? right / static_cast<double>(rows) : 0.0;
}

absl::Status WriteTrace(Session& session, const Strategy& strategy, Step step, const Dataset& train,
                        const std::string& path) {
  TraceWriter trace;
  DistributedDataset input = strategy.Distribute(train.Take(kTracedSteps));
  MF_RETURN_IF_ERROR(session.TraceTo(&trace));
  for (DistributedBatch batch; input.Next(&batch);) MF_RETURN_IF_ERROR(step.Run(batch).status());
  MF_RETURN_IF_ERROR(input.status());
  return WriteTraceOfWorkers(session, trace, path, strategy);
}

RunDescription Describe(const Strategy& strategy, const Session& session, int64_t batch_size) {
  RunDescription run;
  const std::string& device = strategy.topology().replicas[0].device;
  run.devices = absl::StrCat(strategy.num_replicas_in_sync(), " x ", device.substr(0, 3));
  const int workers = strategy.topology().num_workers();
  run.strategy = workers == 1 ? "MirroredStrategy"
                              : absl::StrCat("MultiWorkerMirroredStrategy (", workers, " workers)");
  run.replicas = strategy.num_replicas_in_sync();
  run.global_batch = batch_size;
  for (const VariableInfo& variable : session.layout().variables()) {
    if (variable.bucket >= 0 && !variable.is_slot) run.parameters += variable.shape.num_elements();
  }
  run.precision = "float";
  return run;
}

absl::Status CheckFlags() {
  const double rate = absl::GetFlag(FLAGS_learning_rate).value_or(0);
  if (!std::isfinite(rate) || rate < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--learning_rate: out of range; expected a finite number of at least 0, got ", rate));
  }
  MF_RETURN_IF_ERROR(CheckChoice("model", absl::GetFlag(FLAGS_model), {"mlp", "cnn", "resnet"}));
  MF_RETURN_IF_ERROR(
      CheckChoice("optimizer", absl::GetFlag(FLAGS_optimizer), {"sgd", "momentum", "adam"}));
  MF_RETURN_IF_ERROR(
      CheckChoice("schedule", absl::GetFlag(FLAGS_schedule), {"one_cycle", "constant"}));
  MF_RETURN_IF_ERROR(
      CheckFlagRange("global_batch_size", absl::GetFlag(FLAGS_global_batch_size), 1));
  MF_RETURN_IF_ERROR(CheckFlagRange("epochs", absl::GetFlag(FLAGS_epochs), 1,
                                    std::numeric_limits<int32_t>::max()));
  MF_RETURN_IF_ERROR(CheckFlagRange("steps", absl::GetFlag(FLAGS_steps), 0));
  MF_RETURN_IF_ERROR(CheckFlagRange("check_replicas", absl::GetFlag(FLAGS_check_replicas), 0));
  MF_RETURN_IF_ERROR(CheckCheckpointFlags());
  MF_RETURN_IF_ERROR(CheckFlagRange("logical_gpus", absl::GetFlag(FLAGS_logical_gpus), 0, 16));
  // Fail now rather than after hours of training.
  MF_RETURN_IF_ERROR(CheckOutputFlag("loss_log", absl::GetFlag(FLAGS_loss_log)));
  MF_RETURN_IF_ERROR(CheckOutputFlag("save_variables", absl::GetFlag(FLAGS_save_variables)));
  MF_RETURN_IF_ERROR(CheckOutputFlag("save_graph", absl::GetFlag(FLAGS_save_graph)));
  return CheckOutputFlag("trace", absl::GetFlag(FLAGS_trace));
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(std::optional<Cluster> cluster,
                                                       ExitCode* code) {
  std::vector<std::string> devices = absl::GetFlag(FLAGS_devices);
  if (int n = absl::GetFlag(FLAGS_logical_gpus); n > 0) devices.assign(n, "GPU:0");
  MF_ASSIGN_OR_RETURN(CompileOptions compile, CompileOptionsOfFlags());
  compile.check_plan = absl::GetFlag(FLAGS_check_plan);
  MF_ASSIGN_OR_RETURN(const int64_t bucket_bytes, BucketBytesOfFlags());
  return StrategyOfFlags(std::move(cluster),
                         {.devices = devices,
                          .num_cpu_replicas = absl::GetFlag(FLAGS_replicas),
                          .bucket_bytes = bucket_bytes,
                          .seed = absl::GetFlag(FLAGS_seed),
                          .compile = compile},
                         code);
}

struct Data {
  Dataset train;  // batched
  Dataset test;
};

absl::StatusOr<Data> OpenData() {
  FashionMnist::Options data{.data_dir = absl::GetFlag(FLAGS_data_dir),
                             .shape_images = absl::GetFlag(FLAGS_model) != "mlp"};
  MF_ASSIGN_OR_RETURN(const Dataset images, FashionMnist::Open(data));
  data.split = Split::kTest;
  MF_ASSIGN_OR_RETURN(Dataset test, FashionMnist::Open(data));
  Dataset train =
      images.Shuffle(absl::GetFlag(FLAGS_seed)).Batch(absl::GetFlag(FLAGS_global_batch_size));
  MF_RETURN_IF_ERROR(train.status());
  return Data{train, test};
}

// The lines that worker 0 prints at the end.
struct Outcome {
  std::string output;  // for standard output
  std::string error;   // for standard error
};

// Trains and tests the model. RunWithRejoin calls it again after a worker has been lost. `metrics`
// can be null. Sets `*code` to the program's exit code, also if the program was asked to end, which
// is not an error.
absl::Status TrainAndTest(const Strategy& strategy, const Data& data, LogFormat format,
                          MetricsServer* metrics, CleanupWatchdog& watchdog, Outcome* outcome,
                          ExitCode* code) {
  const Dataset& train = data.train;
  const int64_t batch_size = absl::GetFlag(FLAGS_global_batch_size);
  *code = kExitUsage;
  const int64_t total_steps = absl::GetFlag(FLAGS_epochs) * train.size().value();
  MF_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer, MakeOptimizer(total_steps));
  Graph graph;
  Scope root(&graph);
  Classifier model;
  Operation train_op;
  {
    auto mirrored = strategy.scope();
    MF_ASSIGN_OR_RETURN(model, BuildClassifier(root, absl::GetFlag(FLAGS_model)));
    MinimizeOptions minimize;
    MF_ASSIGN_OR_RETURN(const CompileOptions compile, CompileOptionsOfFlags());
    if (compile.compute_dtype == DT_HALF) minimize.loss_scale = LossScaleOptions();
    train_op = optimizer->Minimize(root, model.loss, minimize);
  }

  *code = kExitInternal;
  MF_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(strategy, graph,
                                                          {.inputs = {model.images, model.labels},
                                                           .loss = model.loss,
                                                           .train = train_op}));
  Session& session = trainer->session();
  MF_ASSIGN_OR_RETURN(Step test_step, session.Prepare({model.images, model.labels},
                                                      {model.accuracy, model.test_loss}));
  MF_ASSIGN_OR_RETURN(
      const Checkpoints checkpoints,
      CheckpointsOfFlags(session, {{"global_batch_size", absl::StrCat(batch_size)}}, code));
  ProgressBar progress(format, Describe(strategy, session, batch_size));
  StopOnSignal stop;
  FitOptions fit{.epochs = absl::GetFlag(FLAGS_epochs),
                 .steps = absl::GetFlag(FLAGS_steps),
                 .callbacks = {&progress},
                 .start = checkpoints.start,
                 .checkpoints = checkpoints.manager.get(),
                 .checkpoint_every = checkpoints.every,
                 .check_replicas = absl::GetFlag(FLAGS_check_replicas)};
  if (checkpoints.manager != nullptr) fit.callbacks.push_back(&stop);
  if (metrics != nullptr) fit.callbacks.push_back(metrics);
  *code = kExitBadInput;
  MF_ASSIGN_OR_RETURN(
      LossLog losses,
      LossLog::Open(PathOfWorker(absl::GetFlag(FLAGS_loss_log), strategy), checkpoints.start.step));
  fit.on_step = [&](int64_t step, float loss) { return losses.Add(step, loss); };
  const absl::Cleanup cleanup = [&] { watchdog.Start(strategy, session.connection().failure()); };
  MF_ASSIGN_OR_RETURN(const TrainResult result, trainer->Fit(train, fit));
  if (stop.signal().has_value()) {
    *code = kExitResources;
    MF_RETURN_IF_ERROR(result.last_save);
    *code = *stop.signal() == SIGINT ? kExitInterrupted : kExitPreempted;
    if (strategy.worker() != 0) return absl::OkStatus();
    outcome->error = absl::StrCat("stopped by SIG", sigabbrev_np(*stop.signal()), " after step ",
                                  result.steps, "; run the same command to continue from there");
    return absl::OkStatus();
  }
  MF_ASSIGN_OR_RETURN(const double accuracy, TestAccuracy(strategy, test_step, data.test));

  *code = kExitResources;  // if a file cannot be written
  if (const std::string path = absl::GetFlag(FLAGS_save_variables); !path.empty()) {
    MF_RETURN_IF_ERROR(SaveVariables(session, path));
  }
  if (std::string path = PathOfWorker(absl::GetFlag(FLAGS_save_graph), strategy); !path.empty()) {
    MF_RETURN_IF_ERROR(WriteGraphFile(graph, path));
  }
  if (std::string path = absl::GetFlag(FLAGS_trace); !path.empty()) {
    MF_RETURN_IF_ERROR(WriteTrace(session, strategy, trainer->train_step(), train, path));
  }
  *code = result.last_save.ok() ? kExitOk : kExitResources;
  if (strategy.worker() != 0) return result.last_save;
  outcome->output =
      absl::StrFormat("test_accuracy=%.4f train_loss=%.4f examples_per_s=%.0f step_ms=%.3f",
                      accuracy, result.loss, result.examples_per_s, result.median_step_ms);
  if (result.median_host_us > 0) {
    absl::StrAppendFormat(&outcome->output, " host_us=%.1f", result.median_host_us);
  }
  return result.last_save;
}

// Sets `*code` to the program's exit code.
absl::Status Run(ExitCode* code) {
  *code = kExitUsage;
  MF_RETURN_IF_ERROR(CheckFlags());
  if (!CheckpointDirOfFlags().empty()) MF_RETURN_IF_ERROR(PreemptionHandler::TakeSignals());
  MF_ASSIGN_OR_RETURN(const LogFormat format, ParseLogFormat(absl::GetFlag(FLAGS_log_format)));
  MF_ASSIGN_OR_RETURN(std::optional<Cluster> cluster, ClusterOfFlags());
  MF_ASSIGN_OR_RETURN(const std::unique_ptr<MetricsServer> metrics, MetricsOfFlags(cluster));
  MF_ASSIGN_OR_RETURN(const std::unique_ptr<Strategy> strategy,
                      MakeStrategy(std::move(cluster), code));
  if (metrics != nullptr) metrics->SetWaiting("loading data, the model and its checkpoint");
  *code = kExitBadInput;
  const absl::StatusOr<Data> data = OpenData();
  CleanupWatchdog watchdog;
  Outcome outcome;
  const auto run = [&]() -> absl::Status {
    MF_RETURN_IF_ERROR(data.status());
    outcome = Outcome();
    const absl::Status trained =
        TrainAndTest(*strategy, *data, format, metrics.get(), watchdog, &outcome, code);
    watchdog.Stop();
    return trained;
  };
  const absl::Status status = RunWithRejoin(*strategy, run, [&](const absl::Status& loss) {
    if (metrics == nullptr) return;
    metrics->SetWaiting(absl::StrCat("all workers to return: ", loss.message()));
  });
  if (metrics != nullptr && !status.ok()) metrics->Fail(status);  // before a possibly slow cleanup
  *code = ExitCodeOf(status, *strategy, *code);
  watchdog.Start(*strategy, *code == kExitCluster ? status : absl::OkStatus());
  if (!outcome.output.empty()) PrintLine(outcome.output);
  if (!outcome.error.empty()) PrintErrorLine(absl::LogSeverity::kWarning, outcome.error);
  return status;
}

int Main(int argc, char** argv) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return ExitWithError(line.status(), kExitUsage);
  if (line->help) {
    std::printf(
        "Trains a classifier of Fashion-MNIST images under MirroredStrategy, or as one of several "
        "workers under MultiWorkerMirroredStrategy.\n\n%s",
        FlagHelp("tools/fashion_mnist tools/flags/").c_str());
    return FlushOutput();
  }
  if (!line->positional.empty()) {
    return ExitWithError(
        absl::InvalidArgumentError(
            absl::StrCat("'", line->positional[0], "': unexpected argument; expected flags only")),
        kExitUsage);
  }
  ExitCode code = kExitOk;
  const absl::Status status = Run(&code);
  if (!status.ok()) return ExitWithError(status, code);
  return code == kExitOk ? FlushOutput() : code;
}

}  // namespace
}  // namespace mirrorflow

int main(int argc, char** argv) { return mirrorflow::Main(argc, argv); }
