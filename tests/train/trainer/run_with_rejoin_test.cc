// SPDX-License-Identifier: Apache-2.0
//
// Tests that training survives the loss of a worker. Workers are threads. To simulate a crash, a
// worker destroys its strategy in the middle of training and starts over with a new one.
// //tests/tools:rejoin_test kills real processes.
#include "distribute/strategy/run_with_rejoin.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/runtime/failure.h"
#include "framework/workers/connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/support/reserved_port.h"
#include "train/checkpoint/directory.h"

namespace mirrorflow {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr int kWorkers = 3;  // with one replica each
constexpr int64_t kRows = 24, kBatch = 6, kEpochs = 3;

Dataset Line() {
  std::vector<float> x, y;
  for (int64_t i = 0; i < kRows; ++i) {
    x.push_back(0.125f * static_cast<float>(i));
    y.push_back(2 * x.back() - 1);
  }
  return Dataset::FromTensors({Tensor::Of<float>({kRows, 1}, x), Tensor::Of<float>({kRows, 1}, y)})
      .Shuffle(/*seed=*/5)
      .Batch(kBatch);
}

// The points where a worker can be killed.
enum class Place { kBeforeCheckpoints, kBeforeRestore, kInStep, kAfterTraining };

struct Victim {
  int worker;
  Place place = Place::kInStep;
  int64_t step = 5;
  bool returns = true;
};

// Blocks victims until all of them have reached their kill points. Otherwise, the loss of the first
// victim would fail the others' steps before they reach their kill points.
class Victims {
 public:
  explicit Victims(size_t count) : num_missing_(count) {}

  // Blocks until all victims have arrived. Returns false if that takes too long.
  bool Await() {
    MutexLock lock(&mutex_);
    if (--num_missing_ == 0) all_here_.NotifyAll();
    return all_here_.WaitFor(
        lock, absl::Seconds(60),
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return num_missing_ == 0; });
  }

 private:
  Mutex mutex_;
  CondVar all_here_;
  size_t num_missing_ ABSL_GUARDED_BY(mutex_);
};

// Counts a worker's events.
struct Record {
  absl::Status status;
  int starts = 0;  // how often the worker started
  int runs = 0;    // how often the function ran
  int losses = 0;  // losses passed to on_loss
  std::vector<Tensor> variables;
};

class RunWithRejoinTest : public testing::TestWithParam<CollectiveKind> {
 protected:
  // Trains a line on kWorkers workers, each of which is killed at most once.
  std::vector<Record> Train(const std::vector<Victim>& victims,
                            absl::Duration rejoin_timeout = absl::Seconds(60)) {
    std::filesystem::remove_all(directory_);
    MultiWorkerMirroredStrategy::Options options{.replicas = {.num_cpu_replicas = 1},
                                                 .join = {.collective = GetParam(),
                                                          .connect_timeout = absl::Seconds(60),
                                                          .rejoin_timeout = rejoin_timeout}};
    options.cluster.num_workers = kWorkers;
    const ReservedPort port;
    options.cluster.coordinator = port.At("127.0.0.1");
    std::vector<Record> records(kWorkers);
    Victims all(victims.size());
    std::vector<std::thread> threads;
    for (int worker = 0; worker < kWorkers; ++worker) {
      options.cluster.task_index = worker;
      const auto victim = std::find_if(victims.begin(), victims.end(),
                                       [&](const Victim& v) { return v.worker == worker; });
      const Victim* const kill = victim == victims.end() ? nullptr : &*victim;
      threads.emplace_back([this, options, kill, &all, &record = records[worker]] {
        record.status = Work(options, kill, all, &record);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return records;
  }

  absl::Status Work(const MultiWorkerMirroredStrategy::Options& options, const Victim* kill,
                    Victims& all, Record* record) {
    const bool returns = kill != nullptr && kill->returns;
    for (;;) {
      ++record->starts;
      MF_ASSIGN_OR_RETURN(const auto strategy, MultiWorkerMirroredStrategy::Create(options));
      bool killed = false;
      const absl::Status status = RunWithRejoin(
          *strategy,
          [&] { return Run(*strategy, std::exchange(kill, nullptr), all, &killed, record); },
          [&](const absl::Status& loss) {
            EXPECT_TRUE(IsLostWorker(loss)) << loss;
            ++record->losses;
          });
      if (!killed || !returns) return status;
    }
  }

  absl::Status Run(const Strategy& strategy, const Victim* kill, Victims& all, bool* killed,
                   Record* record) {
    ++record->runs;
    Graph graph;
    const Scope root(&graph);
    const auto scope = strategy.scope();
    const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 1});
    const Output y = ops::Placeholder(root, DT_FLOAT, {-1, 1});
    const Output hidden = layers::Dropout(root, layers::Dense(root, x, 4), 0.25f);
    const Output loss = losses::MeanSquaredError(root, layers::Dense(root, hidden, 1), y);
    const Operation train = Momentum({.learning_rate = 0.05}).Minimize(root, loss);
    MF_ASSIGN_OR_RETURN(
        const auto trainer,
        Trainer::Create(strategy, graph, {.inputs = {x, y}, .loss = loss, .train = train}));
    Session& session = trainer->session();
    const auto is_killed_at = [&](Place place) { return kill != nullptr && kill->place == place; };
    // Makes this worker look dead to the others.
    const auto die = [&]() -> absl::Status {
      if (!all.Await()) return absl::InternalError("another victim is missing");
      *killed = true;
      WorkerGroup& workers = *session.connection().workers();
      workers.SetStopped("killed by the test");
      const absl::Status death =
          WithFailure(absl::AbortedError("killed by the test"), {.worker = strategy.worker()});
      workers.ReportFailure(death, MonotonicTime::Now() + absl::Seconds(20)).IgnoreError();
      return absl::InternalError("killed");
    };
    if (is_killed_at(Place::kBeforeCheckpoints)) return die();
    MF_ASSIGN_OR_RETURN(const auto checkpoints,
                        CheckpointManager::Create(session, {.directory = directory_}));
    if (is_killed_at(Place::kBeforeRestore)) return die();
    MF_ASSIGN_OR_RETURN(const TrainingPosition start, checkpoints->Restore());
    FitOptions fit{
        .epochs = kEpochs, .start = start, .checkpoints = checkpoints.get(), .checkpoint_every = 2};
    fit.on_step = [&](int64_t step, float) -> absl::Status {
      return is_killed_at(Place::kInStep) && step == kill->step ? die() : absl::OkStatus();
    };
    MF_RETURN_IF_ERROR(trainer->Fit(Line(), fit).status());
    if (is_killed_at(Place::kAfterTraining)) return die();
    record->variables.clear();
    for (const std::string& name : session.VariableNames()) {
      MF_ASSIGN_OR_RETURN(record->variables.emplace_back(), session.ReadVariable(name));
    }
    return absl::OkStatus();
  }

  // Expects the job to have ended as if no worker had been killed.
  void ExpectUndisturbed(const std::vector<Record>& records, const std::vector<Victim>& victims) {
    const std::vector<Record> expected = Train({});
    for (int worker = 0; worker < kWorkers; ++worker) {
      SCOPED_TRACE(absl::StrCat("worker ", worker));
      const Record& record = records[worker];
      EXPECT_EQ(record.status, absl::OkStatus());
      EXPECT_EQ(expected[worker].status, absl::OkStatus());
      const bool was_killed = std::any_of(victims.begin(), victims.end(),
                                          [&](const Victim& v) { return v.worker == worker; });
      EXPECT_EQ(record.starts, was_killed ? 2 : 1);
      EXPECT_EQ(record.runs, 2);
      EXPECT_EQ(record.losses, was_killed ? 0 : 1);
      EXPECT_FALSE(record.variables.empty());
      EXPECT_TRUE(std::equal(record.variables.begin(), record.variables.end(),
                             expected[worker].variables.begin(), expected[worker].variables.end(),
                             Tensor::Identical));
    }
  }

  const std::string directory_ = TemporaryPath("rejoin");
};

INSTANTIATE_TEST_SUITE_P(, RunWithRejoinTest,
                         testing::Values(CollectiveKind::kSharedMemory, CollectiveKind::kUcx,
                                         CollectiveKind::kTcp),
                         [](const auto& info) { return CollectiveKindName(info.param); });

TEST_P(RunWithRejoinTest, LostWorkerReturnsAndVariablesMatchUninterruptedTraining) {
  for (int worker = 0; worker < kWorkers; ++worker) {
    SCOPED_TRACE(absl::StrCat("victim ", worker));
    const std::vector<Victim> victims = {{.worker = worker}};
    ExpectUndisturbed(Train(victims), victims);
  }
}

TEST_P(RunWithRejoinTest, WorkerMayBeLostAtAnyPlace) {
  for (const Place place :
       {Place::kBeforeCheckpoints, Place::kBeforeRestore, Place::kAfterTraining}) {
    SCOPED_TRACE(static_cast<int>(place));
    const std::vector<Victim> victims = {{.worker = 1, .place = place}};
    ExpectUndisturbed(Train(victims), victims);
  }
}

TEST_P(RunWithRejoinTest, LossBeforeTheFirstCheckpointRestartsTraining) {
  const std::vector<Victim> victims = {{.worker = 2, .step = 1}};
  ExpectUndisturbed(Train(victims), victims);
}

TEST_P(RunWithRejoinTest, SeveralWorkersMayBeLostAtOnce) {
  const std::vector<Victim> victims = {{.worker = 0}, {.worker = 2}};
  ExpectUndisturbed(Train(victims), victims);
}

TEST_P(RunWithRejoinTest, WorkersEndIfTheLostWorkerDoesNotReturn) {
  const std::vector<Record> records = Train({{.worker = 1, .returns = false}}, absl::Seconds(1));
  for (const int worker : {0, 2}) {
    EXPECT_THAT(records[worker].status,
                IsError(absl::StatusCode::kAborted, "returned within 1s", "killed by the test"));
    EXPECT_EQ(FailureOf(records[worker].status).value_or(Failure()).worker, 1);
    EXPECT_EQ(records[worker].runs, 1);
  }
}

TEST_P(RunWithRejoinTest, WorkersEndImmediatelyWithoutTimeout) {
  const std::vector<Record> records =
      Train({{.worker = 1, .returns = false}}, absl::ZeroDuration());
  for (const int worker : {0, 2}) {
    EXPECT_THAT(records[worker].status, IsError(absl::StatusCode::kAborted, "killed by the test"));
    EXPECT_EQ(records[worker].runs, 1);
  }
}

TEST(RunWithRejoinOnOneWorkerTest, RunsOnceAndReturnsTheError) {
  const auto strategy = MirroredStrategy::Create({.num_cpu_replicas = 1}).value();
  int runs = 0;
  const absl::Status lost = WithFailure(absl::UnavailableError("lost"), {.worker = 1});
  EXPECT_EQ(RunWithRejoin(*strategy, [&] { return ++runs, lost; }), lost);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(RunWithRejoin(*strategy, [&] { return ++runs, absl::OkStatus(); }), absl::OkStatus());
  EXPECT_EQ(runs, 2);
}

// Calls work(strategy) in a thread for each of two workers.
std::vector<absl::Status> OnTwoWorkers(
    const std::function<absl::Status(MultiWorkerMirroredStrategy& strategy)>& work,
    std::vector<absl::Duration> rejoin_timeouts = {absl::Seconds(60), absl::Seconds(60)}) {
  const ReservedPort port;
  std::vector<absl::Status> statuses(2);
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 2; ++worker) {
    threads.emplace_back([&, worker] {
      const auto strategy = MultiWorkerMirroredStrategy::Create(
          {.cluster = {.num_workers = 2, .task_index = worker, .coordinator = port.At("127.0.0.1")},
           .replicas = {.num_cpu_replicas = 1, .step_timeout = absl::Seconds(20)},
           .join = {.connect_timeout = absl::Seconds(60),
                    .rejoin_timeout = rejoin_timeouts[worker]}});
      statuses[worker] = strategy.ok() ? work(**strategy) : strategy.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

const absl::Status kLost = WithFailure(absl::UnavailableError("lost"), {.worker = 1});

TEST(RejoinTest, ProgramErrorsEndTheRun) {
  const absl::Status errors[] = {
      absl::InvalidArgumentError("wrong"), absl::UnavailableError("of no worker"),
      NumericError(WithFailure(absl::AbortedError("infinite"), {.worker = 1}))};
  for (const absl::Status& error : errors) {
    const auto statuses = OnTwoWorkers([&](MultiWorkerMirroredStrategy& strategy) {
      return RunWithRejoin(strategy, [&] { return error; });
    });
    EXPECT_THAT(statuses, ElementsAre(error, error));
  }
}

// Workers that fail on every run although no process was lost eventually give up.
TEST(RejoinTest, GivesUpIfNoProcessIsReplaced) {
  const auto statuses = OnTwoWorkers([&](MultiWorkerMirroredStrategy& strategy) {
    return RunWithRejoin(strategy, [] { return kLost; });
  });
  EXPECT_THAT(statuses, Each(IsError(absl::StatusCode::kUnavailable, "lost", "new process")));
}

TEST(RejoinTest, SessionOutsideTheFunctionIsRejected) {
  const auto statuses = OnTwoWorkers([&](MultiWorkerMirroredStrategy& strategy) -> absl::Status {
    MF_ASSIGN_OR_RETURN(const auto session, strategy.NewSession(Graph()));
    return RunWithRejoin(strategy, [] { return kLost; });
  });
  EXPECT_THAT(statuses, Each(IsError(absl::StatusCode::kFailedPrecondition, "rejoin",
                                     "DistributedDataset", "lost")));
}

TEST(RejoinTest, DistributedDatasetOutsideTheFunctionIsRejected) {
  const Dataset line = Line();
  const auto statuses = OnTwoWorkers([&](MultiWorkerMirroredStrategy& strategy) -> absl::Status {
    const DistributedDataset input = strategy.Distribute(line);
    return RunWithRejoin(strategy, [] { return kLost; });
  });
  EXPECT_THAT(statuses, Each(IsError(absl::StatusCode::kFailedPrecondition, "rejoin")));
}

// The workers compare their inputs by number, and the numbers restart with each run.
TEST(RejoinTest, InputNumbersRestartWithEachRun) {
  const Dataset line = Line();
  const auto statuses = OnTwoWorkers([&](MultiWorkerMirroredStrategy& strategy) {
    int runs = 0;
    return RunWithRejoin(strategy, [&]() -> absl::Status {
      // In the first run, worker 1 makes fewer inputs, as if it had been restarted.
      const int inputs = ++runs == 1 && strategy.worker() == 0 ? 3 : 1;
      if (runs > 2) return absl::InternalError("the second run has failed");
      for (int i = 0; i < inputs; ++i) {
        DistributedDataset input = strategy.Distribute(line);
        DistributedBatch batch;
        if (runs == 2 && !input.Next(&batch)) return input.status();
      }
      return runs == 1 ? kLost : absl::OkStatus();
    });
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

// Saves a checkpoint on two workers. Worker 0 ends because another job owns its directory. Worker 1
// must not wait for worker 0.
std::vector<absl::Status> SaveOnTwoWorkers(const CheckpointManager::Options& options,
                                           const std::function<absl::Status()>& before_save) {
  return OnTwoWorkers([&](MultiWorkerMirroredStrategy& strategy) {
    const auto save = [&]() -> absl::Status {
      MF_ASSIGN_OR_RETURN(const auto session, strategy.NewSession(Graph()));
      MF_ASSIGN_OR_RETURN(const auto checkpoints, CheckpointManager::Create(*session, options));
      if (strategy.worker() == 0) MF_RETURN_IF_ERROR(before_save());
      MF_RETURN_IF_ERROR(checkpoints->Save({.step = 1}));
      return checkpoints->WaitForSave();
    };
    return RunWithRejoin(strategy, save, [](const absl::Status& loss) { ADD_FAILURE() << loss; });
  });
}

TEST(RejoinTest, LostDirectoryEndsAllWorkersAtOnce) {
  const std::string directory = TemporaryPath("lost");
  std::unique_ptr<CheckpointDirectory> other;
  const auto take_over = [&]() -> absl::Status {
    std::filesystem::remove(directory + "/lock");
    MF_ASSIGN_OR_RETURN(other, CheckpointDirectory::Open(directory));
    return absl::OkStatus();
  };
  EXPECT_THAT(SaveOnTwoWorkers({.directory = directory}, take_over),
              Each(IsError(absl::StatusCode::kAborted, "lost", "owns")));
}

TEST(RejoinTest, DirectoryOfAnotherJobEndsAllWorkersAtOnce) {
  const std::string directory = TemporaryPath("taken");
  const auto other = CheckpointDirectory::Open(directory);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(SaveOnTwoWorkers({.directory = directory, .lock_timeout = absl::Milliseconds(1)},
                               [] { return absl::OkStatus(); }),
              Each(IsError(absl::StatusCode::kDeadlineExceeded, "taken")));
}

TEST(RejoinTest, StrategyCannotBeUsedAfterFailedRejoin) {
  const auto statuses = OnTwoWorkers(
      [&](MultiWorkerMirroredStrategy& strategy) -> absl::Status {
        if (strategy.worker() == 1) return absl::OkStatus();
        EXPECT_THAT(RunWithRejoin(strategy, [] { return kLost; }),
                    IsError(absl::StatusCode::kUnavailable, "lost"));
        EXPECT_EQ(strategy.Rejoin(kLost), kLost);
        return strategy.NewSession(Graph()).status();
      },
      {absl::Milliseconds(300), absl::Milliseconds(300)});
  EXPECT_THAT(statuses[0], IsError(absl::StatusCode::kFailedPrecondition, "cluster"));
}

TEST(RejoinTest, WorkersMustAgreeOnRejoining) {
  const auto statuses = OnTwoWorkers([](MultiWorkerMirroredStrategy&) { return absl::OkStatus(); },
                                     {absl::ZeroDuration(), absl::Seconds(1)});
  EXPECT_THAT(statuses, Each(IsError(absl::StatusCode::kInvalidArgument, "`rejoin = on`")));
}

TEST(RejoinTest, NegativeTimeoutIsRejected) {
  EXPECT_THAT(
      MultiWorkerMirroredStrategy::Create({.join = {.rejoin_timeout = absl::Seconds(-1)}}).status(),
      IsError(absl::StatusCode::kInvalidArgument, "rejoin_timeout", "got -1s"));
}

}  // namespace
}  // namespace mirrorflow
