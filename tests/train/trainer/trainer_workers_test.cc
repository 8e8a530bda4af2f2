// SPDX-License-Identifier: Apache-2.0
//
// Tests that training ends on both workers at the same step if only one worker's data or variables
// are bad. The workers are threads of this process.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/support/reserved_port.h"
#include "train/checkpoint/directory.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

constexpr int kWorkers = 2;  // with one replica each
constexpr int64_t kRows = 12, kBatch = 4;
constexpr float kLastY = 2 * 11 * 0.25f - 1;

// Returns kRows points of y = 2 x - 1, except that the last y is `last_y`. An epoch has three
// batches; rank 1 has the last row of each.
Dataset Line(float last_y = kLastY) {
  std::vector<float> x, y;
  for (int64_t i = 0; i < kRows; ++i) {
    x.push_back(0.25f * static_cast<float>(i));
    y.push_back(2 * x.back() - 1);
  }
  y.back() = last_y;
  return Dataset::FromTensors({Tensor::Of<float>({kRows, 1}, x), Tensor::Of<float>({kRows, 1}, y)});
}

// A trainer that fits a line on one worker.
struct Training {
  static absl::StatusOr<std::unique_ptr<Training>> Create(const Strategy& strategy,
                                                          bool has_metric = false) {
    auto training = std::make_unique<Training>();
    const Scope root(&training->graph);
    const auto scope = strategy.scope();
    const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 1});
    const Output y = ops::Placeholder(root, DT_FLOAT, {-1, 1});
    const Output prediction = layers::Dense(root, x, 1);
    const Output loss = losses::MeanSquaredError(root, prediction, y);
    const Operation train = Momentum({.learning_rate = 0.05}).Minimize(root, loss);
    Model model = {.inputs = {x, y}, .loss = loss, .train = train};
    if (has_metric) {
      model.metrics = {{"error", metrics::MeanAbsoluteError(root, prediction, y)}};
    }
    MF_ASSIGN_OR_RETURN(training->trainer, Trainer::Create(strategy, training->graph, model));
    return training;
  }

  absl::StatusOr<std::vector<Tensor>> Variables() const {
    std::vector<Tensor> values;
    for (const std::string& name : session().VariableNames()) {
      MF_ASSIGN_OR_RETURN(values.emplace_back(), session().ReadVariable(name));
    }
    return values;
  }

  absl::Status Run(const Dataset& dataset, const FitOptions& options) {
    return trainer->Fit(dataset, options).status();
  }
  Session& session() const { return trainer->session(); }

  Graph graph;
  std::unique_ptr<Trainer> trainer;
};

class TrainerWorkersTest : public testing::TestWithParam<CollectiveKind> {
 protected:
  void SetUp() override { std::filesystem::remove_all(directory_); }

  // Calls work(strategy, worker) in one thread per worker, and returns the results.
  std::vector<absl::Status> OnEach(
      const std::function<absl::Status(const Strategy&, int worker)>& work,
      absl::Duration collective_timeout = absl::Seconds(60),
      absl::Duration progress_timeout = absl::Minutes(5)) const {
    MultiWorkerMirroredStrategy::Options options{
        .replicas = {.num_cpu_replicas = 1, .collective_timeout = collective_timeout},
        .join = {.collective = GetParam(),
                 .connect_timeout = absl::Seconds(20),
                 .progress_timeout = progress_timeout}};
    options.cluster.num_workers = kWorkers;
    const ReservedPort port;
    options.cluster.coordinator = port.At("127.0.0.1");
    std::vector<absl::Status> statuses(kWorkers);
    std::vector<std::thread> threads;
    for (int worker = 0; worker < kWorkers; ++worker) {
      options.cluster.task_index = worker;
      threads.emplace_back([&, options, worker] {
        const auto strategy = MultiWorkerMirroredStrategy::Create(options);
        statuses[worker] = strategy.ok() ? work(**strategy, worker) : strategy.status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  // Returns the steps of the checkpoints.
  std::vector<int64_t> Saved() const { return *ListCheckpoints(directory_); }

  const std::string directory_ = TemporaryPath("loop_workers");
};

INSTANTIATE_TEST_SUITE_P(, TrainerWorkersTest,
                         testing::Values(CollectiveKind::kSharedMemory, CollectiveKind::kUcx,
                                         CollectiveKind::kTcp),
                         [](const auto& info) { return CollectiveKindName(info.param); });

TEST_P(TrainerWorkersTest, NonFiniteRowOnOneRankStopsAllRanksAtTheSameStepAndChangesNothing) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    SCOPED_TRACE(bad);
    SetUp();
    const auto statuses = OnEach([&](const Strategy& strategy, int worker) -> absl::Status {
      MF_ASSIGN_OR_RETURN(const auto training, Training::Create(strategy));
      MF_ASSIGN_OR_RETURN(
          const auto checkpoints,
          CheckpointManager::Create(training->session(), {.directory = directory_}));
      MF_RETURN_IF_ERROR(checkpoints->Restore().status());
      std::vector<Tensor> before;
      FitOptions options{.epochs = 2, .checkpoints = checkpoints.get(), .checkpoint_every = 1};
      options.on_step = [&](int64_t step, float) -> absl::Status {
        EXPECT_LE(step, 3);
        if (step != 2) return absl::OkStatus();
        MF_ASSIGN_OR_RETURN(before, training->Variables());
        return absl::OkStatus();
      };
      const absl::Status status = training->Run(Line(bad).Batch(kBatch), options);
      MF_ASSIGN_OR_RETURN(const std::vector<Tensor> after, training->Variables());
      EXPECT_EQ(after.size(), 4u);
      EXPECT_TRUE(
          std::equal(before.begin(), before.end(), after.begin(), after.end(), Tensor::Identical));
      return status;
    });
    EXPECT_THAT(statuses[0],
                IsError(absl::StatusCode::kOutOfRange, "step 3:", "loss", "expected a number"));
    EXPECT_EQ(statuses[1], statuses[0]);
    EXPECT_THAT(Saved(), ElementsAre(1, 2));
  }
}

// Runs only on transports where each worker has its own copy. With shared memory, there is only one
// copy.
class OwnCopiesTest : public TrainerWorkersTest {};
INSTANTIATE_TEST_SUITE_P(, OwnCopiesTest,
                         testing::Values(CollectiveKind::kUcx, CollectiveKind::kTcp),
                         [](const auto& info) { return CollectiveKindName(info.param); });

TEST_P(OwnCopiesTest, DifferingCopyStopsAllRanksAtTheSameStep) {
  const auto statuses = OnEach([&](const Strategy& strategy, int worker) -> absl::Status {
    MF_ASSIGN_OR_RETURN(const auto training, Training::Create(strategy));
    MF_ASSIGN_OR_RETURN(const auto checkpoints,
                        CheckpointManager::Create(training->session(), {.directory = directory_}));
    MF_RETURN_IF_ERROR(checkpoints->Restore().status());
    FitOptions options{
        .epochs = 3, .checkpoints = checkpoints.get(), .checkpoint_every = 1, .check_replicas = 2};
    options.on_step = [&](int64_t step, float) -> absl::Status {
      if (step != 4 || worker != 1) return absl::OkStatus();
      return training->session().AssignVariable("dense/bias", Tensor::Vector<float>({7}));
    };
    return training->Run(Line().Batch(kBatch), options);
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kDataLoss) << statuses[0];
  EXPECT_THAT(std::string(statuses[0].message()),
              testing::AllOf(testing::StartsWith("step 4: variable 'dense/bias'"),
                             testing::ContainsRegex("[0-9a-f]+ on rank 0"),
                             testing::ContainsRegex("[0-9a-f]+ on rank 1")));
  EXPECT_EQ(statuses[1], statuses[0]);
  EXPECT_THAT(Saved(), ElementsAre(2, 3));
}

TEST_P(TrainerWorkersTest, CheckingEqualCopiesChangesNothing) {
  std::vector<Tensor> values[2];
  uint64_t steps[2];  // each worker's session step, which random ops depend on
  for (const int64_t check_replicas : {0, 1}) {
    const auto statuses = OnEach([&](const Strategy& strategy, int worker) -> absl::Status {
      MF_ASSIGN_OR_RETURN(const auto training, Training::Create(strategy));
      MF_RETURN_IF_ERROR(training->Run(Line().Batch(kBatch), {
                                                                 .epochs = 3,
                                                                 .check_replicas = check_replicas,
                                                             }));
      MF_ASSIGN_OR_RETURN(std::vector<Tensor> variables, training->Variables());
      if (worker == 1) {
        values[check_replicas] = std::move(variables);
        steps[check_replicas] = training->session().step();
      }
      return absl::OkStatus();
    });
    EXPECT_THAT(statuses, testing::Each(absl::OkStatus()));
  }
  EXPECT_TRUE(std::equal(values[0].begin(), values[0].end(), values[1].begin(), values[1].end(),
                         Tensor::Identical));
  EXPECT_EQ(steps[0], steps[1]);
}

TEST_P(TrainerWorkersTest, WorkerZeroWritesTheVariablesThatAllWorkersSave) {
  const std::string path = TemporaryPath("variables_of_workers.safetensors");
  const auto statuses = OnEach([&](const Strategy& strategy, int) -> absl::Status {
    MF_ASSIGN_OR_RETURN(const auto training, Training::Create(strategy, /*has_metric=*/true));
    MF_RETURN_IF_ERROR(training->Run(Line().Batch(kBatch), {.epochs = 2}));
    MF_RETURN_IF_ERROR(SaveVariables(training->session(), path));
    MF_RETURN_IF_ERROR(training->session().CheckReplicas());   // waits for worker 0
    return LoadVariables(path, training->session()).status();  // the file has all variables
  });
  EXPECT_THAT(statuses, testing::Each(absl::OkStatus()));
}

// While worker 1 is in a callback, worker 0 waits in its step for longer than the progress timeout.
// The clock advances in small steps, because the service would take a large jump as a sign that it
// was suspended itself.
TEST_P(OwnCopiesTest, WorkersWaitForSlowCallback) {
  constexpr absl::Duration kProgressTimeout = absl::Seconds(1);  // a heartbeat every 250 ms
  const auto statuses = OnEach(
      [&](const Strategy& strategy, int worker) -> absl::Status {
        MF_ASSIGN_OR_RETURN(const auto training, Training::Create(strategy));
        FitOptions options{.epochs = 2};
        options.on_step = [&](int64_t step, float) -> absl::Status {
          if (step != 2 || worker != 1) return absl::OkStatus();
          // This takes long enough for several heartbeats from both workers.
          for (int i = 0; i < 32; ++i) {
            absl::SleepFor(absl::Milliseconds(25));  // longer than the service's polling interval
            MonotonicTime::AdvanceForTest(kProgressTimeout / 8);
          }
          return absl::OkStatus();
        };
        return training->Run(Line().Batch(kBatch), options);
      },
      absl::Seconds(60), kProgressTimeout);
  EXPECT_THAT(statuses, testing::Each(absl::OkStatus()));
}

// Each worker ends its session as soon as it is done. Whether the other worker is still running at
// that moment is a matter of chance, so the test repeats this several times.
TEST_P(TrainerWorkersTest, WorkerThatFinishesFirstDoesNotDisturbTheOther) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const auto statuses = OnEach([](const Strategy& strategy, int) -> absl::Status {
      MF_ASSIGN_OR_RETURN(const auto training, Training::Create(strategy, /*has_metric=*/true));
      return training->Run(Line().Batch(kBatch), {.validation = Line().Batch(kBatch)});
    });
    EXPECT_THAT(statuses, testing::Each(absl::OkStatus())) << attempt;
  }
}

// With AutoShardPolicy::kOff, each worker has its own dataset. Worker 0 saves the checkpoint, so
// the checkpoint cannot describe the other workers' datasets.
TEST_P(TrainerWorkersTest, WorkersWithOwnDatasetsResume) {
  std::vector<Tensor> whole, resumed;
  const auto run = [&](int64_t steps, bool saves, std::vector<Tensor>* variables) {
    const auto statuses = OnEach([&](const Strategy& strategy, int worker) -> absl::Status {
      MF_ASSIGN_OR_RETURN(const auto training, Training::Create(strategy));
      FitOptions options = {
          .epochs = 2, .steps = steps, .distribute = {.auto_shard_policy = AutoShardPolicy::kOff}};
      std::unique_ptr<CheckpointManager> checkpoints;
      if (saves) {
        MF_ASSIGN_OR_RETURN(
            checkpoints, CheckpointManager::Create(training->session(), {.directory = directory_}));
        MF_ASSIGN_OR_RETURN(options.start, checkpoints->Restore());
        options.checkpoints = checkpoints.get();
      }
      const Dataset own = Line(kLastY + static_cast<float>(worker)).Shuffle(worker).Batch(2);
      MF_RETURN_IF_ERROR(training->Run(own, options));
      MF_ASSIGN_OR_RETURN(const std::vector<Tensor> values, training->Variables());
      if (worker == 0) *variables = values;
      return absl::OkStatus();
    });
    EXPECT_THAT(statuses, testing::Each(absl::OkStatus()));
  };
  run(0, /*saves=*/false, &whole);
  run(4, /*saves=*/true, &resumed);
  run(0, /*saves=*/true, &resumed);
  EXPECT_TRUE(
      std::equal(whole.begin(), whole.end(), resumed.begin(), resumed.end(), Tensor::Identical));
}

// If each worker has its own dataset, the datasets may differ in length.
TEST_P(TrainerWorkersTest, WorkerWithFewerBatchesIsNamedBeforeTheTimeout) {
  constexpr absl::Duration kTimeout = absl::Seconds(2);
  for (const bool leaves : {true, false}) {
    SCOPED_TRACE(leaves ? "it leaves" : "it stays");
    absl::Notification other_has_failed;
    std::vector<int> steps(kWorkers);
    absl::Duration took;
    const auto statuses = OnEach(
        [&](const Strategy& strategy, int worker) -> absl::Status {
          MF_ASSIGN_OR_RETURN(const auto training, Training::Create(strategy));
          DistributedDataset input =
              strategy.Distribute(Line().Take(kRows - 2 * worker).Batch(2), 0,
                                  {.auto_shard_policy = AutoShardPolicy::kOff});
          absl::Status status;
          MonotonicTime begin;
          for (DistributedBatch batch; status.ok() && input.Next(&batch);) {
            begin = MonotonicTime::Now();
            status = training->trainer->TrainStep(batch).status();
            if (status.ok()) ++steps[worker];
          }
          status.Update(input.status());
          if (worker == 0) {
            took = MonotonicTime::Now() - begin;
            other_has_failed.Notify();
          } else if (!leaves) {
            other_has_failed.WaitForNotification();
          }
          return status;
        },
        kTimeout);
    EXPECT_THAT(steps, ElementsAre(5, 5));
    EXPECT_EQ(statuses[1], absl::OkStatus());
    // How soon worker 0 detects that worker 1 has left depends on the transport.
    const auto names_worker_1 = [](absl::StatusCode code) {
      return testing::AnyOf(IsError(code, "worker 1"), IsError(code, "rank 1"));
    };
    EXPECT_THAT(statuses[0], testing::AnyOf(names_worker_1(absl::StatusCode::kAborted),
                                            names_worker_1(absl::StatusCode::kUnavailable),
                                            names_worker_1(absl::StatusCode::kDeadlineExceeded)));
    EXPECT_TRUE(leaves || absl::IsDeadlineExceeded(statuses[0])) << statuses[0];
    ASSERT_TRUE(FailureOf(statuses[0]).has_value()) << statuses[0];
    EXPECT_EQ(FailureOf(statuses[0])->worker, 1) << statuses[0];
    EXPECT_LT(took, 4 * kTimeout);
  }
}

}  // namespace
}  // namespace mirrorflow
