// SPDX-License-Identifier: Apache-2.0
//
// Training that stops and resumes on the same replicas gives bitwise the same results as an
// uninterrupted run.
#include "train/checkpoint/checkpoint_manager.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/coordination/coordination_server.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow.h"
#include "tests/support/captured_log.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "train/checkpoint/checkpoint_contents.h"
#include "train/checkpoint/directory.h"
#include "train/checkpoint/directory_lock.h"

namespace {

std::atomic<int> num_stale_saves = 0;  // how many of the next saves fail with ESTALE
std::atomic<bool> reads_fail = false;

}  // namespace

// These replace the C library's functions, to inject failures.
extern "C" int mkdir(const char* path, mode_t mode) noexcept {
  if (std::strstr(path, "/.step-") != nullptr && num_stale_saves > 0) {
    --num_stale_saves;
    errno = ESTALE;
    return -1;
  }
  return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

extern "C" ssize_t pread(int fd, void* out, size_t size, off_t offset) {
  if (!reads_fail) return syscall(SYS_pread64, fd, out, size, offset);
  errno = EIO;
  return -1;
}

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kRows = 50, kBatch = 8, kSteps = 16;  // 7 batches per epoch

// Returns noisy samples of a straight line, in a different order in each epoch.
Dataset Points() {
  std::vector<float> x, y;
  for (int64_t i = 0; i < kRows; ++i) {
    x.push_back(0.1f * static_cast<float>(i % 17));
    y.push_back(2 * x.back() - 1 + 0.01f * static_cast<float>(i % 5));
  }
  return Dataset::FromTensors({Tensor::Of<float>({kRows, 1}, x), Tensor::Of<float>({kRows, 1}, y)})
      .Shuffle(3)
      .Batch(kBatch);
}

struct Training {
  TrainingPosition start;
  std::map<int64_t, float> losses;               // by step
  std::map<std::string, std::string> variables;  // the bytes of each variable, by name
  absl::Status last_save;
};

// Trains a network that has dropout, with Adam, up to step `steps`. If `options` has a directory,
// saves checkpoints there.
absl::StatusOr<Training> Train(const Strategy& strategy, int64_t steps,
                               const CheckpointManager::Options& options = {}, int64_t hidden = 5,
                               const std::function<void(int64_t)>& after_step = nullptr) {
  Graph graph;
  const Scope root(&graph);
  const auto scope = strategy.scope();
  const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 1});
  const Output y = ops::Placeholder(root, DT_FLOAT, {-1, 1});
  const Output inner = layers::Dropout(root, layers::Dense(root, x, hidden), 0.2);
  const Output loss = losses::MeanSquaredError(root, layers::Dense(root, inner, 1), y);
  const Operation train = Adam({.learning_rate = 0.01}).Minimize(root, loss);
  MF_ASSIGN_OR_RETURN(
      const auto trainer,
      Trainer::Create(strategy, graph, {.inputs = {x, y}, .loss = loss, .train = train}));
  Session& session = trainer->session();

  Training result;
  FitOptions loop{.steps = steps, .checkpoint_every = 3};
  loop.on_step = [&](int64_t number, float value) {
    result.losses[number] = value;
    if (after_step) after_step(number);
    return absl::OkStatus();
  };
  std::unique_ptr<CheckpointManager> checkpoints;
  if (!options.directory.empty()) {
    MF_ASSIGN_OR_RETURN(checkpoints, CheckpointManager::Create(session, options));
    MF_ASSIGN_OR_RETURN(result.start, checkpoints->Restore());
    loop.start = result.start;
    loop.checkpoints = checkpoints.get();
  }
  MF_ASSIGN_OR_RETURN(const TrainResult trained, trainer->Fit(Points(), loop));
  result.last_save = trained.last_save;
  for (const std::string& name : session.VariableNames()) {
    MF_ASSIGN_OR_RETURN(const Tensor value, session.ReadVariable(name));
    result.variables[name].assign(reinterpret_cast<const char*>(value.raw()), value.bytes());
  }
  return result;
}

std::unique_ptr<Strategy> Replicas(int count, uint64_t seed = 5) {
  auto strategy =
      MirroredStrategy::Create({.num_cpu_replicas = count, .seed = seed, .pin_threads = false});
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  return *std::move(strategy);
}

class CheckpointManagerTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(directory_); }

  CheckpointManager::Options Options(Resume resume = Resume::kAuto) {
    return {.directory = directory_, .resume = resume, .settings = {{"batch", "8"}}};
  }
  std::vector<int64_t> Steps() const { return *ListCheckpoints(directory_); }
  void Damage(int64_t step) const {
    std::ofstream(CheckpointPath(directory_, step) + "/manifest.json", std::ios::app) << "x";
  }

  const std::string directory_ = TemporaryPath("manager");
  const CapturedLog log_;
};

TEST_F(CheckpointManagerTest, ResumedTrainingMatchesUninterruptedTrainingBitForBit) {
  for (const int replicas : {1, 3}) {
    const auto strategy = Replicas(replicas);
    const auto whole = Train(*strategy, kSteps);
    ASSERT_TRUE(whole.ok()) << whole.status();
    // After the first batch, within an epoch, at its end, and after the last step.
    for (const int64_t stop : {1, 5, 7, 14, 16}) {
      std::filesystem::remove_all(directory_);
      const auto first = Train(*strategy, stop, Options());
      ASSERT_TRUE(first.ok()) << first.status();
      EXPECT_EQ(first->start.step, 0);
      const auto rest = Train(*strategy, kSteps, Options());
      ASSERT_TRUE(rest.ok()) << rest.status();
      EXPECT_EQ(rest->start.step, stop);
      std::map<int64_t, float> losses = first->losses;
      for (const auto& [step, loss] : rest->losses) EXPECT_TRUE(losses.emplace(step, loss).second);
      EXPECT_EQ(losses, whole->losses) << "stopped after " << stop;
      EXPECT_EQ(rest->variables, whole->variables) << "stopped after " << stop;
    }
  }
}

TEST_F(CheckpointManagerTest, TrainingResumesOnADifferentNumberOfReplicas) {
  const auto whole = Train(*Replicas(1), kSteps);
  ASSERT_TRUE(whole.ok()) << whole.status();
  int64_t stop = 3;
  for (const int replicas : {1, 4, 2, 3}) {
    const auto part = Train(*Replicas(replicas), stop, Options());
    ASSERT_TRUE(part.ok()) << part.status();
    for (const auto& [step, loss] : part->losses) {
      EXPECT_NEAR(loss, whole->losses.at(step), 1e-4 * whole->losses.at(step)) << step;
    }
    stop += 4;
  }
  EXPECT_THAT(log_.lines().back(),
              HasSubstr("saved by 1 worker and 2 replicas, on 1 worker and 3 replicas"));
}

TEST_F(CheckpointManagerTest, AllWorkersResumeFromWhatWorker0Reads) {
  const auto whole = Train(*Replicas(2), kSteps);
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const int64_t stop : {int64_t{5}, kSteps}) {
    MultiWorkerMirroredStrategy::Options options{.replicas = {.num_cpu_replicas = 1, .seed = 5},
                                                 .join = {.connect_timeout = absl::Seconds(20)}};
    options.cluster.num_workers = 2;
    options.cluster.coordinator = absl::StrCat(
        "127.0.0.1:",
        (*CoordinationServer::Start({.address = "127.0.0.1:0", .num_workers = 1}))->port());
    std::vector<std::thread> workers;
    for (int worker = 0; worker < 2; ++worker) {
      options.cluster.task_index = worker;
      workers.emplace_back([&, options, worker] {
        const auto strategy = MultiWorkerMirroredStrategy::Create(options);
        ASSERT_TRUE(strategy.ok()) << strategy.status();
        CheckpointManager::Options own = Options();
        if (worker == 1) own.directory = "/nonexistent/directory";  // must not be used
        const auto training = Train(**strategy, stop, own);
        ASSERT_TRUE(training.ok()) << training.status();
        EXPECT_EQ(training->start.step, stop == 5 ? 0 : 5);
        for (const auto& [step, loss] : training->losses) {
          EXPECT_EQ(loss, whole->losses.at(step)) << "worker " << worker << ", step " << step;
        }
        if (stop == kSteps) {
          EXPECT_EQ(training->variables, whole->variables);
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
  }
}

TEST_F(CheckpointManagerTest, KeepsTheNewestCheckpoints) {
  ASSERT_TRUE(Train(*Replicas(1), 10, Options()).ok());
  EXPECT_THAT(Steps(), ElementsAre(9, 10));
  CheckpointManager::Options options = Options();
  options.keep = 3;
  ASSERT_TRUE(Train(*Replicas(1), kSteps, options).ok());
  EXPECT_THAT(Steps(), ElementsAre(12, 15, 16));
  options.keep = 1;
  EXPECT_THAT(Train(*Replicas(1), kSteps, options).status(),
              IsError(absl::StatusCode::kInvalidArgument, "keep", "got 1"));
}

TEST_F(CheckpointManagerTest, DamagedNewestCheckpointIsReportedUnlessOlderOneMayBeUsed) {
  const auto strategy = Replicas(1);
  ASSERT_TRUE(Train(*strategy, 7, Options()).ok());
  Damage(7);
  const absl::Status damaged = Train(*strategy, 10, Options()).status();
  EXPECT_THAT(damaged, IsError(absl::StatusCode::kDataLoss, "step-000000007/manifest.json"));
  const auto resumed = Train(*strategy, 10, Options(Resume::kLatestValid));
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->start.step, 6);
  EXPECT_THAT(log_.lines(), testing::Contains(HasSubstr("damaged checkpoint")));
  EXPECT_THAT(Steps(), ElementsAre(9, 10));
  // Training resumes from the checkpoint before the damaged one. The next save removes the damaged
  // one, which does not count towards the checkpoints to keep.
  Damage(10);
  ASSERT_TRUE(Train(*strategy, 12, Options(Resume::kLatestValid)).ok());
  EXPECT_THAT(Steps(), ElementsAre(9, 12));
}

// If the checkpoint counted as damaged, the next save would remove it.
TEST_F(CheckpointManagerTest, UnreadableNewestCheckpointIsNotTreatedAsDamaged) {
  const auto strategy = Replicas(1);
  ASSERT_TRUE(Train(*strategy, 7, Options()).ok());
  reads_fail = true;
  const absl::Status unread = Train(*strategy, 10, Options(Resume::kLatestValid)).status();
  reads_fail = false;
  EXPECT_THAT(unread, IsError(absl::StatusCode::kUnknown, "step-000000007/manifest.json"));
  EXPECT_THAT(Steps(), ElementsAre(6, 7));
}

TEST_F(CheckpointManagerTest, RestoreWarnsAboutNonFiniteTensors) {
  const auto strategy = Replicas(1);
  ASSERT_TRUE(Train(*strategy, 1, Options()).ok());
  const std::string path = CheckpointPath(directory_, 1);
  auto data = ReadCheckpointContents(path);
  ASSERT_TRUE(data.ok()) << data.status();
  std::string infinite;
  for (auto& [name, tensor] : data->variables.tensors) {
    if (tensor.dtype() != DT_FLOAT) continue;
    tensor.data<float>()[0] = std::numeric_limits<float>::infinity();
    infinite = name;
    break;
  }
  ASSERT_TRUE(WriteCheckpointContents(path, *data).ok());
  ASSERT_TRUE(Train(*strategy, 1, Options()).ok());
  EXPECT_THAT(log_.lines(),
              testing::Contains(absl::StrCat("WARNING: ", path, ": tensor '", infinite,
                                             "' has values that are not finite")));
}

TEST_F(CheckpointManagerTest, ResumeUsesOnlyPermittedCheckpoints) {
  const auto strategy = Replicas(1);
  EXPECT_THAT(Train(*strategy, 1, Options(Resume::kLatestValid)).status(),
              IsError(absl::StatusCode::kNotFound, "undamaged checkpoint", "found none"));
  ASSERT_TRUE(Train(*strategy, 1, Options(Resume::kNever)).ok());
  EXPECT_THAT(Train(*strategy, 2, Options(Resume::kNever)).status(),
              IsError(absl::StatusCode::kAlreadyExists, "step-00000000", "exists"));
}

TEST_F(CheckpointManagerTest, DifferentModelSeedOrSettingIsNamed) {
  ASSERT_TRUE(Train(*Replicas(1), 1, Options()).ok());
  EXPECT_THAT(Train(*Replicas(1), 2, Options(), /*hidden=*/6).status(),
              IsError(absl::StatusCode::kInvalidArgument, "expected float[1,6], got float[1,5]"));
  EXPECT_THAT(Train(*Replicas(1, /*seed=*/6), 2, Options()).status(),
              IsError(absl::StatusCode::kInvalidArgument, "seed:", "expected 5", "got 6"));
  CheckpointManager::Options options = Options();
  options.settings["batch"] = "9";
  EXPECT_THAT(Train(*Replicas(1), 2, options).status(),
              IsError(absl::StatusCode::kInvalidArgument, "batch: expected 8"));
}

// NFS returns ESTALE while a server fails over. Its status code is Aborted, like that of a lost
// directory.
TEST_F(CheckpointManagerTest, StaleFileHandleFailsOnlyThatSave) {
  num_stale_saves = 1;
  const auto trained = Train(*Replicas(1), kSteps, Options());
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("not saved (1 of at most 2 in a row)")));
  EXPECT_THAT(Steps(), ElementsAre(15, 16));
}

TEST_F(CheckpointManagerTest, TrainingFailsAtTheNextSaveAfterAnotherProcessTakesTheDirectory) {
  std::unique_ptr<CheckpointDirectory> other;
  const auto take_over = [&](int64_t step) {
    if (step != 1) return;
    std::filesystem::remove(directory_ + "/lock");
    auto opened = CheckpointDirectory::Open(directory_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    other = *std::move(opened);
  };
  const absl::Status stopped = Train(*Replicas(1), kSteps, Options(), 5, take_over).status();
  EXPECT_TRUE(IsLostDirectory(stopped)) << stopped;
  EXPECT_THAT(Steps(), ElementsAre());
}

// Worker 0 waits up to lock_timeout for the lock, and the other workers wait for worker 0.
TEST_F(CheckpointManagerTest, OtherWorkersWaitForTheLockOfWorker0) {
  const auto owner = CheckpointDirectory::Open(directory_);
  ASSERT_TRUE(owner.ok()) << owner.status();
  MultiWorkerMirroredStrategy::Options options{.replicas = {.num_cpu_replicas = 1, .seed = 5},
                                               .join = {.connect_timeout = absl::Seconds(20)}};
  options.cluster.num_workers = 2;
  options.cluster.coordinator = absl::StrCat(
      "127.0.0.1:",
      (*CoordinationServer::Start({.address = "127.0.0.1:0", .num_workers = 1}))->port());
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 2; ++worker) {
    options.cluster.task_index = worker;
    workers.emplace_back([&, options, worker] {
      const auto strategy = MultiWorkerMirroredStrategy::Create(options);
      ASSERT_TRUE(strategy.ok()) << strategy.status();
      CheckpointManager::Options own = Options();
      own.lock_timeout = worker == 0 ? absl::Milliseconds(500) : absl::Seconds(20);
      own.timeout = absl::Milliseconds(100);
      EXPECT_THAT(Train(**strategy, 1, own).status(),
                  IsError(absl::StatusCode::kDeadlineExceeded, "in use"))
          << worker;
    });
  }
  for (std::thread& worker : workers) worker.join();
}

TEST_F(CheckpointManagerTest, FailedSavesWarnAndThenStopTraining) {
  const auto strategy = Replicas(1);
  // Removes the directory, so no checkpoint can be saved.
  const auto remove = [&](int64_t step) {
    if (step == 1) std::filesystem::remove_all(directory_);
  };
  const absl::Status stopped = Train(*strategy, kSteps, Options(), 5, remove).status();
  EXPECT_THAT(stopped,
              IsError(absl::StatusCode::kResourceExhausted, "3 saves in", "failed", directory_));
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("not saved (1 of at most 2 in a row)"),
                                        HasSubstr("not saved (2 of at most 2 in a row)")));

  const auto remove_for_a_while = [&](int64_t step) {
    if (step == 1) std::filesystem::remove_all(directory_);
    if (step == 7) std::filesystem::create_directory(directory_);
  };
  const auto trained = Train(*strategy, kSteps, Options(), 5, remove_for_a_while);
  EXPECT_TRUE(trained.ok()) << trained.status();
  EXPECT_THAT(Steps(), ElementsAre(15, 16));
}

// Training has ended normally, but no later save can make up for the failed last one.
TEST_F(CheckpointManagerTest, FailedLastSaveIsReported) {
  const auto strategy = Replicas(1);
  const auto remove = [&](int64_t step) {
    if (step != kSteps) return;
    // The previous save must finish first: losing the directory during a write is a different
    // error.
    while (!std::filesystem::exists(CheckpointPath(directory_, kSteps - 1))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    // The previous save may still be removing older checkpoints.
    for (std::error_code error; std::filesystem::exists(directory_);) {
      std::filesystem::remove_all(directory_, error);
    }
  };
  const auto trained = Train(*strategy, kSteps, Options(), 5, remove);
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_THAT(trained->last_save, IsError(absl::StatusCode::kNotFound, directory_));
  EXPECT_THAT(log_.lines(), testing::Contains(HasSubstr("not saved")));
}

}  // namespace
}  // namespace mirrorflow
