// SPDX-License-Identifier: Apache-2.0
//
// Tests MultiWorkerMirroredStrategy on GPUs, with fakes of CUDA and NCCL. The workers are threads
// of one process. They find each other through the real coordination service.
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "distribute/strategy/multi_worker_mirrored_strategy.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/session/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/nccl/fake_nccl.h"
#include "tests/support/is_error.h"
#include "tests/support/reserved_port.h"
#include "tests/support/tensors.h"
#include "tools/flags/cluster_flags.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

ABSL_DECLARE_FLAG(std::vector<std::string>, cluster_spec);
ABSL_DECLARE_FLAG(std::optional<int>, task_index);

namespace mirrorflow {
namespace {

using Options = MultiWorkerMirroredStrategy::Options;
using Devices = std::vector<std::string>;

void Reset(int num_gpus = 2, const FakeNcclOptions& nccl = {}) {
  ResetFakeCuda({.num_gpus = num_gpus});
  ResetFakeNccl(nccl);
}

// Returns the options of two workers on one host.
std::vector<Options> TwoWorkers() {
  std::vector<Options> workers(2);
  for (int w = 0; w < 2; ++w) {
    workers[w].cluster = {.num_workers = 2, .task_index = w, .local_rank = w, .local_size = 2};
    workers[w].replicas.bucket_bytes = 64;
    workers[w].replicas.seed = 5;
    workers[w].join.connect_timeout = absl::Seconds(60);
    workers[w].end_hanging_process = false;
  }
  return workers;
}

using Work = std::function<absl::Status(const MultiWorkerMirroredStrategy&, int worker)>;

// Runs `work` for each worker on a separate thread. Returns the results by worker.
std::vector<absl::Status> OnEach(std::vector<Options> options, const Work& work) {
  const ReservedPort port;
  const std::string coordinator = port.At("127.0.0.1");
  std::vector<absl::Status> statuses(options.size());
  std::vector<std::thread> threads;
  for (size_t w = 0; w < options.size(); ++w) {
    options[w].cluster.coordinator = coordinator;
    threads.emplace_back([&, w] {
      const auto strategy = MultiWorkerMirroredStrategy::Create(options[w]);
      statuses[w] = strategy.ok() ? work(**strategy, static_cast<int>(w)) : strategy.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

// Only joins. Returns the results by worker.
std::vector<absl::Status> Join(std::vector<Options> options) {
  return OnEach(std::move(options), [](const auto&, int) { return absl::OkStatus(); });
}

// Trains a small model, with one bucket per variable.
struct Training {
  Graph graph;
  Output x, loss;
  std::unique_ptr<Session> session;
  Step step;

  absl::StatusOr<float> Run(int64_t rows) {
    Random random(3);
    MF_ASSIGN_OR_RETURN(const StepOutputs out,
                        step.Run({RandomTensor(DT_FLOAT, Shape({rows, 6}), &random)}));
    return out[0].scalar<float>();
  }
};

absl::StatusOr<std::unique_ptr<Training>> Train(const Strategy& strategy) {
  auto t = std::make_unique<Training>();
  const Scope root(&t->graph);
  const auto mirrored = strategy.scope();
  t->x = ops::Placeholder(root, DT_FLOAT, {-1, 6});
  Output y = t->x;
  for (const char* name : {"a", "b", "c"}) {
    const Output w = CreateVariable(root, name, {6, 6}, initializers::GlorotUniform()).value;
    y = ops::Tanh(root, ops::MatMul(root, y, w));
  }
  t->loss = ops::Mean(root, ops::Square(root, y), {0, 1});
  const Operation train = Momentum({.learning_rate = 0.1}).Minimize(root, t->loss);
  MF_ASSIGN_OR_RETURN(t->session, strategy.NewSession(t->graph));
  MF_ASSIGN_OR_RETURN(t->step, t->session->Prepare({t->x}, {t->loss}, {train}));
  return t;
}

// Runs one step for each element of `rows`, which is the step's number of rows. Returns the losses.
absl::StatusOr<std::vector<float>> Losses(const Strategy& strategy,
                                          const std::vector<int64_t>& rows) {
  MF_ASSIGN_OR_RETURN(const auto t, Train(strategy));
  std::vector<float> losses;
  for (const int64_t each : rows) {
    MF_ASSIGN_OR_RETURN(losses.emplace_back(), t->Run(each));
  }
  return losses;
}

std::vector<float> LossesOfCpu(const std::vector<int64_t>& rows) {
  return Losses(**MirroredStrategy::Create({.num_cpu_replicas = 1, .seed = 5}), rows).value();
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4 * want[i]) << i;
}

// Returns the losses of both workers, which must be equal.
std::vector<float> LossesOfWorkers(const std::vector<Options>& options,
                                   const std::vector<int64_t>& rows) {
  std::vector<float> losses[2];
  for (const absl::Status& status :
       OnEach(options, [&](const Strategy&strategy, int w) -> absl::Status {
         MF_ASSIGN_OR_RETURN(losses[w], Losses(strategy, rows));
         return absl::OkStatus();
       })) {
    EXPECT_EQ(status, absl::OkStatus());
  }
  EXPECT_EQ(losses[0], losses[1]);
  return losses[0];
}

// With one GPU per process, the whole step is one graph, unless the option is off.
TEST(GpuMultiWorkerTest, TrainingMatchesCpuAndStepIsOneGraph) {
  const std::vector<int64_t> rows = {5, 5, 5, 5};  // do not divide evenly
  Reset();
  const std::vector<float> want = LossesOfCpu(rows);
  EXPECT_LT(want.back(), want.front());
  std::vector<float> captured;
  for (const auto capture : {std::optional<bool>(), std::optional(true), std::optional(false)}) {
    Reset();
    std::vector<Options> options = TwoWorkers();
    for (Options& each : options) each.replicas.capture_collectives = capture;
    const std::vector<float> losses = LossesOfWorkers(options, rows);
    ExpectNear(losses, want);
    EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
    EXPECT_EQ(NcclMisuse(), absl::OkStatus());
    if (capture.value_or(true)) {
      EXPECT_EQ(NumGraphLaunches(), 2 * 3);  // in each step except the first
      captured = losses;
    } else {
      EXPECT_GT(NumGraphLaunches(), 2 * 3);
      EXPECT_EQ(losses, captured);
    }
  }
  EXPECT_STREQ(getenv("NCCL_SOCKET_IFNAME"), "=lo");  // the coordination service's interface
}

// A 33rd row makes only worker 0's arena grow. Even so, worker 1 must not replay its graph of the
// step of 32 rows while worker 0 captures that step anew.
TEST(GpuMultiWorkerTest, AllWorkersRecaptureStepAfterOneArenaMoves) {
  const std::vector<int64_t> rows = {32, 32, 32, 33, 32, 32, 32, 33, 33};
  Reset();
  const std::vector<float> want = LossesOfCpu(rows);
  std::vector<Options> options = TwoWorkers();
  for (Options& each : options) each.replicas.collective_timeout = absl::Seconds(10);
  ExpectNear(LossesOfWorkers(options, rows), want);
  EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());
}

// With several GPUs per process, graphs end at collectives.
TEST(GpuMultiWorkerTest, SeveralGpusPerWorkerMatchCpu) {
  const std::vector<int64_t> rows = {9, 9, 9};
  Reset(4);
  const std::vector<float> want = LossesOfCpu(rows);
  ExpectNear(LossesOfWorkers(TwoWorkers(), rows), want);
  EXPECT_GT(NumGraphLaunches(), 4 * 2);
  EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());
}

TEST(GpuMultiWorkerTest, WorkersOnOneHostDivideItsGpus) {
  const auto devices_of = [](std::vector<Options> options) {
    std::vector<Devices> devices(2);
    for (const absl::Status& status :
         OnEach(std::move(options), [&](const Strategy&strategy, int w) {
           for (const int rank : strategy.topology().RanksOfWorker(w)) {
             devices[w].push_back(strategy.topology().replicas[rank].device);
           }
           EXPECT_EQ(strategy.topology().num_domains(), strategy.topology().world_size());
           return absl::OkStatus();
         })) {
      EXPECT_EQ(status, absl::OkStatus());
    }
    return devices;
  };
  Reset(2);
  EXPECT_EQ(devices_of(TwoWorkers()), (std::vector<Devices>{{"GPU:0"}, {"GPU:1"}}));
  Reset(4);
  EXPECT_EQ(devices_of(TwoWorkers()),
            (std::vector<Devices>{{"GPU:0", "GPU:1"}, {"GPU:2", "GPU:3"}}));
  std::vector<Options> named = TwoWorkers();
  named[0].replicas.devices = {"GPU:3"};
  named[1].replicas.devices = {"GPU:1", "GPU:2"};
  EXPECT_EQ(devices_of(named), (std::vector<Devices>{{"GPU:3"}, {"GPU:1", "GPU:2"}}));
}

// If one worker's collectives fail, the step fails on both workers. Training can then continue.
TEST(GpuMultiWorkerTest, FailureOfOneWorkerFailsStepOnAllAndTrainingContinues) {
  Reset(2, {.failing_rank = 1, .failing_collective = -1, .failing_replay = 1});
  const MonotonicTime begin = MonotonicTime::Now();
  std::vector<float> losses[2];
  for (const absl::Status& status :
       OnEach(TwoWorkers(), [&](const Strategy&strategy, int w) -> absl::Status {
         MF_ASSIGN_OR_RETURN(const auto t, Train(strategy));
         Session& session = *t->session;
         std::map<std::string, Tensor> initial;
         const std::vector<std::string> names = session.VariableNames();
         for (const std::string& name : names) {
           MF_ASSIGN_OR_RETURN(const Tensor value, session.ReadVariable(name));
           MF_ASSIGN_OR_RETURN(initial[name], value.Clone());
         }
         for (int i = 0; i < 2; ++i) {
           MF_ASSIGN_OR_RETURN(losses[w].emplace_back(), t->Run(4));
         }
         const absl::Status failed = t->Run(4).status();  // the second replay
         EXPECT_THAT(failed, IsError(absl::StatusCode::kUnavailable, "remote error"));
         MF_RETURN_IF_ERROR(session.AssignFromWorker0(names, initial));
         for (int i = 0; i < 2; ++i) {
           MF_ASSIGN_OR_RETURN(const float again, t->Run(4));
           EXPECT_EQ(again, losses[w][i]) << i;
         }
         return absl::OkStatus();
       })) {
    EXPECT_EQ(status, absl::OkStatus());
  }
  EXPECT_LT(MonotonicTime::Now() - begin, absl::Minutes(1));
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());
}

// Workers compare their programs before the first step, without any collective.
TEST(GpuMultiWorkerTest, DifferentBucketsAreDetectedBeforeFirstStep) {
  Reset();
  std::vector<Options> options = TwoWorkers();
  options[1].replicas.bucket_bytes = 1000;
  for (const absl::Status& status : OnEach(
           options, [](const Strategy&strategy, int) { return Losses(strategy, {4}).status(); })) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "workers differ", "worker 0",
                                "worker 1"));
  }
  EXPECT_EQ(NumNcclCollectives(), 0);
}

void ExpectAll(const std::vector<absl::Status>& statuses, const std::vector<const char*>& parts) {
  for (const absl::Status& status : statuses) {
    for (const char* part : parts) {
      EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, part));
    }
  }
}

TEST(GpuMultiWorkerErrorsTest, WorkersThatDifferAreNamed) {
  Reset(3);
  std::vector<Options> options = TwoWorkers();
  options[0].replicas.devices = {"GPU:1"};
  options[1].replicas.num_cpu_replicas = 1;
  ExpectAll(Join(options),
            {"worker 0 has `type of devices = ", "worker 1 has `type of devices = ", "GPU", "CPU"});
  options = TwoWorkers();
  options[0].replicas.devices = {"GPU:0", "GPU:1"};
  options[1].replicas.devices = {"GPU:2", "GPU:1"};
  ExpectAll(Join(options), {"worker 0 (GPU:1) and worker 1 (GPU:1) use the same GPU"});
  options[1].replicas.devices = {"GPU:2"};
  options[0].replicas.capture_collectives = false;
  ExpectAll(Join(options), {"capture_collectives = off", "capture_collectives = default"});
}

// A worker detects these errors before it contacts other workers, so the test starts no others.
TEST(GpuMultiWorkerErrorsTest, InvalidOptionsAreRejected) {
  Reset(3);
  const auto create = [](const std::function<void(Options&)>& change) {
    Options options = TwoWorkers()[1];
    options.cluster.coordinator = "127.0.0.1:1";
    change(options);
    const MonotonicTime begin = MonotonicTime::Now();
    const absl::Status status = MultiWorkerMirroredStrategy::Create(options).status();
    EXPECT_LT(MonotonicTime::Now() - begin, options.join.connect_timeout / 2);
    return std::vector{status};
  };
  ExpectAll(create([](Options&) {}), {"3 GPUs"});
  Reset(2);
  ExpectAll(create([](Options& o) { o.cluster.local_rank = std::nullopt; }), {"index"});
  ExpectAll(create([](Options& o) { o.replicas.devices = {"GPU:0", "GPU:0"}; }), {"logical GPUs"});
  ExpectAll(create([](Options& o) { o.join.collective = CollectiveKind::kUcx; }),
            {"auto, got ucx"});
}

TEST(GpuMultiWorkerErrorsTest, ForeignNcclIdIsRejected) {
  Reset();
  ASSERT_EQ(setenv("NCCL_COMM_ID", "192.0.2.1:9", 1), 0);
  const std::vector<const char*> refused = {"NCCL_COMM_ID", "192.0.2.1:9"};
  Options options = TwoWorkers()[1];
  options.cluster.coordinator = "127.0.0.1:1";
  ExpectAll({MultiWorkerMirroredStrategy::Create(options).status()}, refused);
  // A lone worker also needs an id, unless it has only one GPU.
  ExpectAll({MirroredStrategy::Create().status(), MultiWorkerMirroredStrategy::Create({}).status()},
            refused);
  EXPECT_EQ(MirroredStrategy::Create({.devices = {"GPU:0"}}).status(), absl::OkStatus());
  EXPECT_EQ(MirroredStrategy::Create({.devices = {"GPU:0", "GPU:0"}}).status(), absl::OkStatus());
  // Commands exit with the exit code for usage errors.
  absl::SetFlag(&FLAGS_cluster_spec, std::vector<std::string>{"127.0.0.1:1", "127.0.0.1:2"});
  absl::SetFlag(&FLAGS_task_index, 1);
  ExitCode code = kExitOk;
  ExpectAll({StrategyOfFlags(*ClusterOfFlags(), {}, &code).status()}, refused);
  EXPECT_EQ(code, kExitUsage);
  unsetenv("NCCL_COMM_ID");
}

TEST(GpuMultiWorkerTest, LoneWorkerNeedsNoCoordinationService) {
  const std::vector<int64_t> rows = {4, 4, 4};
  Reset();
  const std::vector<float> want = LossesOfCpu(rows);
  const auto strategy = MultiWorkerMirroredStrategy::Create({.replicas = {.seed = 5}});
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  EXPECT_EQ((*strategy)->topology().devices(), Devices({"GPU:0", "GPU:1"}));
  const auto losses = Losses(**strategy, rows);
  ASSERT_TRUE(losses.ok()) << losses.status();
  ExpectNear(*losses, want);
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());
}

}  // namespace
}  // namespace mirrorflow
