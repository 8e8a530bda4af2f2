// SPDX-License-Identifier: Apache-2.0
//
// Tests training on two workers that each read their own files. The workers are threads of this
// process.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/support/reserved_port.h"

namespace mirrorflow {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr int kWorkers = 2;  // with one replica each
constexpr int64_t kBatch = 4;
const DistributeOptions kByFile = {.auto_shard_policy = AutoShardPolicy::kFile};

// Writes one file per entry of `rows`, with that many points of y = 2 x - 1. The x of a row is its
// row number / 16.
std::string WriteLine(absl::string_view name, const std::vector<int>& rows) {
  const std::string directory = TemporaryPath(name);
  std::filesystem::remove_all(directory);
  int next = 0;
  for (size_t file = 0; file < rows.size(); ++file) {
    std::string text = "x,y\n";
    for (int i = 0; i < rows[file]; ++i, ++next) {
      const double x = next / 16.0;
      absl::StrAppend(&text, x, ",", 2 * x - 1, "\n");
    }
    WriteTemporary(absl::StrCat(name, "/part-", file, ".csv"), text);
  }
  return absl::StrCat(directory, "/part-*.csv");
}

Dataset Line(const std::string& pattern) {
  const CsvOptions csv = {
      .columns = {{.name = "x", .dtype = DT_FLOAT}, {.name = "y", .dtype = DT_FLOAT}}};
  return Dataset::FromCsv(pattern, {.label = "y", .csv = csv}).Map([](Row* row) {
    (*row)[1] = (*row)[1].Reshaped({1});
    return absl::OkStatus();
  });
}

// Returns the row numbers in a batch of Line().
std::vector<int> RowsOf(absl::Span<const Tensor> components) {
  std::vector<int> rows;
  for (const float x : components[0].flat<float>()) {
    rows.push_back(static_cast<int>(std::lround(16 * x)));
  }
  return rows;
}

constexpr float kSlow = 1e-3f;  // small enough to converge with many rows, whose x is larger

struct Training {
  static absl::StatusOr<std::unique_ptr<Training>> Create(const Strategy& strategy,
                                                          float learning_rate = 0.05f) {
    auto training = std::make_unique<Training>();
    const Scope root(&training->graph);
    const auto scope = strategy.scope();
    const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 1});
    const Output y = ops::Placeholder(root, DT_FLOAT, {-1, 1});
    const Output loss =
        losses::MeanSquaredError(root, layers::Dense(root, layers::Dense(root, x, 4), 1), y);
    const Operation train = Momentum({.learning_rate = learning_rate}).Minimize(root, loss);
    MF_ASSIGN_OR_RETURN(training->trainer,
                        Trainer::Create(strategy, training->graph,
                                        {.inputs = {x, y}, .loss = loss, .train = train}));
    return training;
  }

  absl::StatusOr<std::vector<float>> Variables() const {
    std::vector<float> all;
    for (const std::string& name : trainer->session().VariableNames()) {
      MF_ASSIGN_OR_RETURN(const Tensor value, trainer->session().ReadVariable(name));
      all.insert(all.end(), value.flat<float>().begin(), value.flat<float>().end());
    }
    return all;
  }

  Graph graph;
  std::unique_ptr<Trainer> trainer;
};

// Calls work(strategy, worker) in one thread per worker, and returns the results.
std::vector<absl::Status> OnEach(
    const std::function<absl::Status(const Strategy&, int worker)>& work) {
  MultiWorkerMirroredStrategy::Options options{
      .replicas = {.num_cpu_replicas = 1, .collective_timeout = absl::Seconds(60)},
      .join = {.connect_timeout = absl::Seconds(20)}};
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

// The row numbers of each step; the outer index is the worker.
using Steps = std::vector<std::vector<int>>;
struct Read {
  Steps steps;
  std::vector<std::vector<int64_t>> replica_rows;
};
std::vector<Read> ReadOnEach(const Dataset& dataset, int64_t epoch = 0) {
  std::vector<Read> read(kWorkers);
  const auto statuses = OnEach([&](const Strategy& strategy, int worker) {
    DistributedDataset input = strategy.Distribute(dataset, epoch, kByFile);
    for (DistributedBatch batch; input.Next(&batch);) {
      read[worker].steps.push_back(RowsOf(batch.components()));
      read[worker].replica_rows.emplace_back(batch.replica_rows().begin(),
                                             batch.replica_rows().end());
    }
    return input.status();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
  return read;
}

TEST(FileShardsWorkersTest, EveryRowIsReadOnceAndUnevenFilesEndTogether) {
  const std::string pattern = WriteLine("every_row", {5, 1, 3, 0, 2});
  const auto read = ReadOnEach(Line(pattern).Batch(kBatch));
  EXPECT_THAT(read[0].steps, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 6),
                                         ElementsAre(7, 8), ElementsAre(9, 10)));
  using Empty = std::vector<int>;
  EXPECT_THAT(read[1].steps, ElementsAre(ElementsAre(5), Empty(), Empty(), Empty(), Empty()));
  for (const Read& of_worker : read) {
    EXPECT_THAT(of_worker.replica_rows,
                ElementsAre(ElementsAre(2, 1), ElementsAre(2, 0), ElementsAre(2, 0),
                            ElementsAre(2, 0), ElementsAre(2, 0)));
  }
  for (const int64_t epoch : {0, 1}) {  // each epoch is shuffled
    std::multiset<int> all;
    for (const Read& of_worker : ReadOnEach(Line(pattern).Shuffle(3).Batch(kBatch), epoch)) {
      for (const auto& rows : of_worker.steps) all.insert(rows.begin(), rows.end());
    }
    EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  }
}

// Worker 0's file has five rows and worker 1's has three, so they contribute different numbers of
// rows.
TEST(FileShardsWorkersTest, EachRowOfAStepHasTheSameWeight) {
  const std::string pattern = WriteLine("weights", {5, 3});
  std::vector<float> expected;
  double loss = 0;
  {
    const auto strategy = OneDeviceStrategy::Create();
    const auto training = Training::Create(**strategy);
    ASSERT_TRUE(training.ok()) << training.status();
    for (const std::vector<int>& rows : Steps({{0, 1, 5, 6}, {2, 3, 7}, {4}})) {
      std::vector<float> x, y;
      for (const int row : rows) {
        x.push_back(static_cast<float>(row) / 16);
        y.push_back(2 * x.back() - 1);
      }
      const Shape shape = {static_cast<int64_t>(rows.size()), 1};
      const Dataset batch =
          Dataset::FromTensors({Tensor::Of<float>(shape, x), Tensor::Of<float>(shape, y)}).Batch(8);
      const auto result = (*training)->trainer->Fit(batch);
      ASSERT_TRUE(result.ok()) << result.status();
      loss += result->loss * static_cast<double>(rows.size()) / 8;
    }
    expected = *(*training)->Variables();
  }
  const auto statuses = OnEach([&](const Strategy& strategy, int) -> absl::Status {
    MF_ASSIGN_OR_RETURN(const auto training, Training::Create(strategy));
    MF_ASSIGN_OR_RETURN(
        const TrainResult result,
        training->trainer->Fit(Line(pattern).Batch(kBatch), {.distribute = kByFile}));
    EXPECT_EQ(result.steps, 3);
    EXPECT_NEAR(result.loss, loss, 1e-6);
    MF_ASSIGN_OR_RETURN(const std::vector<float> variables, training->Variables());
    EXPECT_THAT(variables, testing::Pointwise(testing::FloatNear(1e-5f), expected));
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

// Worker 0 has no access to worker 1's files, and vice versa.
TEST(FileShardsWorkersTest, WorkerNeedsOnlyItsOwnFiles) {
  for (int worker = 0; worker < kWorkers; ++worker) {
    WriteLine(absl::StrCat("own_files_", worker), {4, 4});
    const int other = 1 - worker;
    std::filesystem::remove(
        TemporaryPath(absl::StrCat("own_files_", worker, "/part-", other, ".csv")));
  }
  const auto features = [](int worker, int file) {
    return TemporaryPath(absl::StrCat("own_files_", worker, "/part-", file, ".csv"));
  };
  const auto statuses = OnEach([&](const Strategy& strategy, int worker) -> absl::Status {
    // CSV files are not records, so the error names the first file that a worker opens.
    const Dataset rows =
        Dataset::FromTFRecords({features(worker, 0), features(worker, 1)}, {}).Batch(kBatch);
    DistributedDataset input = strategy.Distribute(rows, 0, kByFile);
    DistributedBatch batch;
    EXPECT_FALSE(input.Next(&batch));
    return input.status();
  });
  for (int worker = 0; worker < kWorkers; ++worker) {
    EXPECT_THAT(statuses[worker],
                IsError(absl::StatusCode::kInvalidArgument,
                        absl::StrCat("own_files_", worker, "/part-", worker, ".csv")));
  }
}

// Trains on both workers until `options` end training. Returns the variables. If `directory` is not
// empty, resumes from its newest checkpoint, and saves one there at the end.
std::vector<float> TrainOnEach(const Dataset& dataset, const FitOptions& options,
                               const std::string& directory) {
  std::vector<float> variables;
  const auto statuses = OnEach([&](const Strategy& strategy, int worker) -> absl::Status {
    MF_ASSIGN_OR_RETURN(const auto training, Training::Create(strategy, kSlow));
    FitOptions own = options;
    own.distribute = kByFile;
    std::unique_ptr<CheckpointManager> checkpoints;
    if (!directory.empty()) {
      MF_ASSIGN_OR_RETURN(checkpoints, CheckpointManager::Create(training->trainer->session(),
                                                                 {.directory = directory}));
      MF_ASSIGN_OR_RETURN(own.start, checkpoints->Restore());
      own.checkpoints = checkpoints.get();
    }
    MF_RETURN_IF_ERROR(training->trainer->Fit(dataset, own).status());
    if (worker != 0) return training->Variables().status();
    MF_ASSIGN_OR_RETURN(variables, training->Variables());
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
  return variables;
}

// Training stops at steps where the workers agree on further steps, and at steps between those. The
// files have different row counts, and validation runs within an epoch.
TEST(FileShardsWorkersTest, ResumedTrainingMatchesWhereverItStopped) {
  const Dataset dataset = Line(WriteLine("stopped", {70, 33, 9})).Shuffle(50).Batch(kBatch);
  const Dataset validation = Line(WriteLine("stopped_validation", {6, 6})).Batch(kBatch);
  const std::string directory = TemporaryPath("stopped_checkpoints");
  std::filesystem::remove_all(directory);
  FitOptions options{.epochs = 2, .validation = validation, .validation_steps = 5};
  const std::vector<float> whole = TrainOnEach(dataset, options, "");
  for (const int64_t steps : {9, 10, 11, 12, 13, 30, 45}) {  // out of 40 in an epoch
    options.steps = steps;
    EXPECT_NE(TrainOnEach(dataset, options, directory), whole);
  }
  options.steps = 0;
  EXPECT_EQ(TrainOnEach(dataset, options, directory), whole);
}

TEST(FileShardsWorkersTest, ResumesWithinAnEpochOnlyOnTheSameNumberOfWorkers) {
  const Dataset dataset = Line(WriteLine("resumed", {7, 2, 1, 3})).Shuffle(5).Batch(kBatch);
  const std::string directory = TemporaryPath("resumed_checkpoints");
  std::filesystem::remove_all(directory);
  const std::vector<float> whole = TrainOnEach(dataset, {.epochs = 2}, "");
  // An epoch has four steps.
  EXPECT_NE(TrainOnEach(dataset, {.epochs = 2, .steps = 3}, directory), whole);
  {
    const auto strategy = OneDeviceStrategy::Create();
    const auto training = Training::Create(**strategy);
    const auto checkpoints =
        CheckpointManager::Create((*training)->trainer->session(), {.directory = directory});
    const auto start = (*checkpoints)->Restore();
    ASSERT_TRUE(start.ok()) << start.status();
    FitOptions options{.epochs = 2, .start = *start, .distribute = kByFile};
    const absl::Status alone = (*training)->trainer->Fit(dataset, options).status();
    EXPECT_THAT(alone, IsError(absl::StatusCode::kInvalidArgument, "batch 3 of epoch 1",
                               "expected 2 workers", "got 1 and 1"));
    options.start.batch = 0;  // restarts the epoch
    EXPECT_TRUE((*training)->trainer->Fit(dataset, options).ok());
  }
  EXPECT_EQ(TrainOnEach(dataset, {.epochs = 2}, directory), whole);
}

// On worker 1, row 30 of the file and all later rows are bad. The worker reads row 30 long before
// the step that uses it.
TEST(FileShardsWorkersTest, BadRowEndsBothWorkersAtItsStep) {
  const Dataset dataset = Line(WriteLine("bad_row", {60, 60}))
                              .Map([](Row* row) -> absl::Status {
                                if ((*row)[0].scalar<float>() * 16 < 89.5) return absl::OkStatus();
                                return absl::DataLossError("row 30 of part-1: bad");
                              })
                              .Batch(kBatch);
  std::vector<int64_t> steps(kWorkers);
  const auto statuses = OnEach([&](const Strategy& strategy, int worker) -> absl::Status {
    MF_ASSIGN_OR_RETURN(const auto training, Training::Create(strategy, kSlow));
    const auto count = [&](int64_t step, float) {
      steps[worker] = step;
      return absl::OkStatus();
    };
    return training->trainer->Fit(dataset, {.on_step = count, .distribute = kByFile}).status();
  });
  EXPECT_THAT(steps, Each(15));
  EXPECT_THAT(statuses[0], IsError(absl::StatusCode::kDataLoss, "worker 1", "row 30 of part-1"));
  EXPECT_THAT(statuses[1], IsError(absl::StatusCode::kDataLoss, "row 30 of part-1"));
}

TEST(FileShardsWorkersTest, WorkerStopsWaitingIfTheOtherLeaves) {
  const Dataset dataset = Line(WriteLine("leaves", {20, 20})).Batch(kBatch);
  const MonotonicTime begin = MonotonicTime::Now();
  const auto statuses = OnEach([&](const Strategy& strategy, int worker) {
    DistributedDataset input = strategy.Distribute(dataset, 0, kByFile);
    DistributedBatch batch;
    while (input.Next(&batch) && worker == 0) continue;
    return input.status();
  });
  EXPECT_EQ(statuses[1], absl::OkStatus());
  EXPECT_THAT(statuses[0], IsError(absl::StatusCode::kFailedPrecondition, "worker 1", "has left"));
  EXPECT_LT(MonotonicTime::Now() - begin, absl::Seconds(60));  // well before the step timeout
}

TEST(FileShardsWorkersTest, AllWorkersReturnTheSameError) {
  const std::string pattern = WriteLine("errors", {3});
  const auto error_of = [](const Dataset& dataset) {
    const auto statuses = OnEach([&](const Strategy& strategy, int) -> absl::Status {
      MF_ASSIGN_OR_RETURN(const auto training, Training::Create(strategy));
      return training->trainer->Fit(dataset, {.distribute = kByFile}).status();
    });
    EXPECT_EQ(statuses[1], statuses[0]);
    return statuses[0];
  };
  EXPECT_THAT(error_of(Line(pattern).Batch(kBatch)),
              IsError(absl::StatusCode::kInvalidArgument, "files than workers", "got 1"));
  EXPECT_THAT(error_of(Dataset::FromTensors({Tensor::Vector<float>({1, 2})}).Batch(2)),
              IsError(absl::StatusCode::kInvalidArgument, "list of files"));
  // Worker 1 has an additional file.
  const auto statuses = OnEach([&](const Strategy& strategy, int worker) {
    WriteLine(absl::StrCat("errors_", worker), std::vector<int>(2 + worker, 4));
    const std::string own = absl::StrCat(TemporaryPath(absl::StrCat("errors_", worker)), "/*.csv");
    DistributedDataset input = strategy.Distribute(Line(own).Batch(kBatch), 0, kByFile);
    DistributedBatch batch;
    EXPECT_FALSE(input.Next(&batch));
    return input.status();
  });
  EXPECT_THAT(statuses[0], IsError(absl::StatusCode::kInvalidArgument, "different lists"));
  EXPECT_EQ(statuses[1], statuses[0]);
}

}  // namespace
}  // namespace mirrorflow
