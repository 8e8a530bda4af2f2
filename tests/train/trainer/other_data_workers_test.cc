// SPDX-License-Identifier: Apache-2.0
//
// Workers with different data must fail before the first step rather than train a wrong model. The
// workers are threads of this process.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/support/reserved_port.h"

namespace mirrorflow {
namespace {

using ::testing::Each;

constexpr int kWorkers = 2;  // with one replica each
constexpr int64_t kRows = 12, kBatch = 4;

// Returns y = slope x - 1 at kRows points.
Dataset Line(float slope = 2) {
  std::vector<float> x, y;
  for (int64_t i = 0; i < kRows; ++i) {
    x.push_back(0.25f * static_cast<float>(i));
    y.push_back(slope * x.back() - 1);
  }
  return Dataset::FromTensors({Tensor::Of<float>({kRows, 1}, x), Tensor::Of<float>({kRows, 1}, y)});
}

// Calls work(strategy, worker) in one thread per worker, and returns the results.
std::vector<absl::Status> OnEach(
    const std::function<absl::Status(const Strategy&, int worker)>& work,
    absl::Duration step_timeout = absl::Seconds(60)) {
  MultiWorkerMirroredStrategy::Options options{
      .replicas = {.num_cpu_replicas = 1, .step_timeout = step_timeout},
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

// Like OnEach, but also passes each worker a trainer for a linear model.
std::vector<absl::Status> WithTrainers(
    const std::function<absl::Status(Trainer&, int worker)>& work) {
  return OnEach([&](const Strategy& strategy, int worker) -> absl::Status {
    Graph graph;
    const Scope root(&graph);
    const auto scope = strategy.scope();
    const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 1});
    const Output y = ops::Placeholder(root, DT_FLOAT, {-1, 1});
    const Output predictions = layers::Dense(root, x, 1);
    const Output loss = losses::MeanSquaredError(root, predictions, y);
    const Operation train = GradientDescent({.learning_rate = 0.05}).Minimize(root, loss);
    MF_ASSIGN_OR_RETURN(
        const auto trainer,
        Trainer::Create(
            strategy, graph,
            {.inputs = {x, y}, .loss = loss, .train = train, .predictions = predictions}));
    return work(*trainer, worker);
  });
}

struct Training {
  std::vector<absl::Status> statuses;
  int steps = 0;  // summed over all workers
};

// Trains each worker on its own dataset.
Training Train(const std::function<Dataset(int worker)>& dataset,
               const std::function<void(int worker, FitOptions*)>& change = nullptr) {
  Training training;
  std::atomic<int> steps{0};
  training.statuses = WithTrainers([&](Trainer& trainer, int worker) {
    FitOptions options = {.epochs = 1};
    options.on_step = [&](int64_t, float) {
      ++steps;
      return absl::OkStatus();
    };
    if (change) change(worker, &options);
    return trainer.Fit(dataset(worker), options).status();
  });
  training.steps = steps;
  return training;
}

// Expects both workers to end with the same error, which names worker 1 and the difference.
void ExpectDifference(const std::vector<absl::Status>& statuses, const std::string& what) {
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "worker 1",
                                absl::StrCat("in its ", what)));
    ASSERT_TRUE(FailureOf(status).has_value()) << status;
    EXPECT_EQ(FailureOf(status)->worker, 1) << status;
  }
}

TEST(OtherDataTest, WorkerWithDifferentLabelsEndsTrainingBeforeTheFirstStep) {
  for (const bool shuffled : {false, true}) {
    const Training training = Train([&](int worker) {
      const Dataset rows = Line(worker == 0 ? 2 : 3);
      return (shuffled ? rows.Shuffle(1) : rows).Batch(kBatch);
    });
    ExpectDifference(training.statuses, "first batch");
    EXPECT_EQ(training.steps, 0);
  }
}

TEST(OtherDataTest, WorkerWithStaleFileEndsTrainingBeforeTheFirstStep) {
  std::string stale = "x,y\n";
  for (int i = 1; i < kRows; ++i) absl::StrAppend(&stale, i, ".5,", i, ".5\n");
  const std::string paths[] = {
      WriteTemporary("other_data_own/line.csv", absl::StrCat(stale, "0.5,0.5\n")),
      WriteTemporary("other_data_stale/line.csv", stale)};
  const Training training = Train(
      [&](int worker) { return Dataset::FromCsv(paths[worker], {.label = "y"}).Batch(kBatch); });
  ExpectDifference(training.statuses, "pipeline");
  EXPECT_EQ(training.steps, 0);
}

// Both files have the same number of rows of the same types.
TEST(OtherDataTest, WorkerWithFileOfDifferentSizeEndsTraining) {
  std::string own = "x,y\n";
  for (int i = 0; i < kRows; ++i) absl::StrAppend(&own, i, ".5,", i, ".5\n");
  const std::string paths[] = {WriteTemporary("other_size.csv", own),
                               WriteTemporary("other_size_copy.csv", absl::StrCat(own, "\n"))};
  const Training training = Train(
      [&](int worker) { return Dataset::FromCsv(paths[worker], {.label = "y"}).Batch(kBatch); });
  ExpectDifference(training.statuses, "files");
}

TEST(OtherDataTest, FilesNamedByTheUserMayHaveDifferentNames) {
  std::string contents = "x,y\n";
  for (int i = 0; i < kRows; ++i) absl::StrAppend(&contents, i, ".5,", i, ".5\n");
  const auto statuses = OnEach([&](const Strategy& strategy, int worker) {
    const std::string path = WriteTemporary(absl::StrCat("download.", worker), contents);
    DistributedDataset input = strategy.Distribute(Dataset::FromCsv(path, {}).Batch(kBatch));
    DistributedBatch batch;
    EXPECT_TRUE(input.Next(&batch));
    return input.status();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

TEST(OtherDataTest, WorkerWithDifferentLastBatchEndsTraining) {
  const Training training = Train([](int worker) {
    return Line()
        .Map([worker](const RowId& id, Row* row) {
          if (worker == 1 && id.row == kRows - 1) (*row)[1] = Tensor::Of<float>({1}, {-7});
          return absl::OkStatus();
        })
        .Batch(kBatch);
  });
  ExpectDifference(training.statuses, "last batch");
  EXPECT_EQ(training.steps, 0);
}

TEST(OtherDataTest, WorkerWithDifferentPolicyEndsAllWorkers) {
  for (const char* name : {"other_policy/a.csv", "other_policy/b.csv"}) {
    WriteTemporary(name, "x,y\n1.5,2.5\n3.5,4.5\n");
  }
  const std::string paths = absl::StrCat(TemporaryPath("other_policy"), "/*.csv");
  const Training training =
      Train([&](int) { return Dataset::FromCsv(paths, {.label = "y"}).Batch(2); },
            [](int worker, FitOptions* options) {
              if (worker == 1) options->distribute.auto_shard_policy = AutoShardPolicy::kFile;
            });
  for (const absl::Status& status : training.statuses) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "AutoShardPolicy"));
    EXPECT_TRUE(FailureOf(status).has_value()) << status;
  }
  EXPECT_EQ(training.steps, 0);
}

TEST(OtherDataTest, WorkerWithDifferentOrderEndsTraining) {
  const Training training = Train([](int worker) { return Line().Shuffle(worker).Batch(kBatch); });
  ExpectDifference(training.statuses, "pipeline");
}

TEST(OtherDataTest, WorkerWithDifferentValidationDataEndsTraining) {
  const Training training = Train([](int) { return Line().Batch(kBatch); },
                                  [](int worker, FitOptions* options) {
                                    options->validation = Line(worker == 0 ? 2 : 3).Batch(kBatch);
                                  });
  ExpectDifference(training.statuses, "first batch");
}

TEST(OtherDataTest, ErrorInFirstBatchOfOneWorkerEndsAllWorkers) {
  const Training training = Train([](int worker) {
    return Line()
        .Map([worker](Row*) -> absl::Status {
          if (worker == 1) return absl::DataLossError("unreadable");
          return absl::OkStatus();
        })
        .Batch(kBatch);
  });
  EXPECT_THAT(training.statuses[0], IsError(absl::StatusCode::kDataLoss, "worker 1"));
  EXPECT_THAT(training.statuses[1], IsError(absl::StatusCode::kDataLoss, "unreadable"));
}

TEST(OtherDataTest, DatasetThatOneWorkerCannotOpenEndsAllWorkers) {
  const auto statuses = OnEach([](const Strategy& strategy, int worker) {
    const Dataset rows = worker == 0 ? Line() : Dataset::FromNpy({"/no/such.npy"});
    DistributedDataset input = strategy.Distribute(rows.Batch(kBatch));
    DistributedBatch batch;
    EXPECT_FALSE(input.Next(&batch));
    return input.status();
  });
  EXPECT_THAT(statuses[0], IsError(absl::StatusCode::kNotFound, "worker 1: /no/such.npy"));
  EXPECT_THAT(statuses[1], IsError(absl::StatusCode::kNotFound, "/no/such.npy"));
}

TEST(OtherDataTest, DifferentOrderOfDatasetsIsAnError) {
  const auto statuses = OnEach([](const Strategy& strategy, int worker) {
    const Dataset train = Line().Shuffle(1).Batch(kBatch), test = Line().Batch(kBatch);
    DistributedDataset first = strategy.Distribute(worker == 0 ? train : test);
    DistributedDataset second = strategy.Distribute(worker == 0 ? test : train);
    DistributedBatch batch;
    EXPECT_FALSE(first.Next(&batch));
    return first.status();
  });
  ExpectDifference(statuses, "pipeline");
  EXPECT_THAT(statuses[0], IsError(absl::StatusCode::kInvalidArgument, "the same order"));
}

TEST(OtherDataTest, WorkerThatDoesNotReadTheDatasetIsNamedAfterTheTimeout) {
  std::atomic<bool> other_has_failed{false};
  const auto statuses = OnEach(
      [&](const Strategy& strategy, int worker) {
        DistributedDataset input = strategy.Distribute(Line().Batch(kBatch));
        if (worker == 1) {
          other_has_failed.wait(false);
          return absl::OkStatus();
        }
        DistributedBatch batch;
        EXPECT_FALSE(input.Next(&batch));
        other_has_failed = true;
        other_has_failed.notify_all();
        return input.status();
      },
      /*step_timeout=*/absl::Milliseconds(100));
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kDeadlineExceeded) << statuses[0];
  EXPECT_EQ(FailureOf(statuses[0])->worker, 1) << statuses[0];
}

// A user-defined batch provider that gives each worker whole batches.
class OwnBatches final : public BatchProvider {
 public:
  explicit OwnBatches(float value) : value_(value) {}
  std::unique_ptr<BatchSource> MakeIterator(int64_t, const BatchShard&) const override {
    return std::make_unique<Source>(value_);
  }
  bool is_sharded() const override { return false; }

 private:
  class Source final : public BatchSource {
   public:
    explicit Source(float value) : value_(value) {}
    absl::StatusOr<bool> Next(SourceBatch* batch) override {
      batch->components = {Tensor::Vector<float>({value_, value_})};
      batch->global_rows = 2;
      return true;
    }

   private:
    const float value_;
  };
  const float value_;
};

TEST(OtherDataTest, WholeBatchesFromUserTypesAreCompared) {
  for (const bool same : {true, false}) {
    const auto statuses = OnEach([&](const Strategy& strategy, int worker) {
      DistributedDataset input = strategy.Distribute(OwnBatches(same ? 0 : 1.0f * worker));
      DistributedBatch batch;
      EXPECT_EQ(input.Next(&batch), same);
      if (same) {
        EXPECT_EQ(batch.num_rows(), 2);
        EXPECT_FALSE(batch.has_local_rows());
      }
      return input.status();
    });
    if (same) {
      EXPECT_THAT(statuses, Each(absl::OkStatus()));
    } else {
      ExpectDifference(statuses, "first batch");
    }
  }
}

// A user-defined batch provider that yields only the worker's own rows of each batch.
class OwnShards final : public BatchProvider {
 public:
  explicit OwnShards(int64_t rows = 3, DataType dtype = DT_FLOAT) : rows_(rows), dtype_(dtype) {}
  std::unique_ptr<BatchSource> MakeIterator(int64_t, const BatchShard& shard) const override {
    return std::make_unique<Source>(rows_, dtype_, shard);
  }

 private:
  class Source final : public BatchSource {
   public:
    Source(int64_t rows, DataType dtype, const BatchShard& shard)
        : rows_(rows), dtype_(dtype), shard_(shard) {}
    absl::StatusOr<bool> Next(SourceBatch* batch) override {
      const int64_t first = FirstRowOf(shard_.first_rank, rows_, shard_.world_size);
      const int last_rank = shard_.first_rank + shard_.num_ranks;
      const int64_t count = FirstRowOf(last_rank, rows_, shard_.world_size) - first;
      MF_ASSIGN_OR_RETURN(Tensor rows, Tensor::Allocate(dtype_, {count, 3}));
      batch->components = {std::move(rows)};
      batch->global_rows = rows_;
      return true;
    }

   private:
    const int64_t rows_;
    const DataType dtype_;
    const BatchShard shard_;
  };
  const int64_t rows_;
  const DataType dtype_;
};

TEST(OtherDataTest, ShardsFromUserTypesAreComparedByRowsAndTypes) {
  const struct {
    OwnShards other;
    const char* difference;
  } cases[] = {{OwnShards(), ""}, {OwnShards(4), "first batch"}, {OwnShards(3, DT_INT32), "types"}};
  for (const auto& [other, difference] : cases) {
    const bool same = *difference == '\0';
    const auto statuses = OnEach([&, other = other](const Strategy& strategy, int worker) {
      DistributedDataset input = strategy.Distribute(worker == 0 ? OwnShards() : other);
      DistributedBatch batch;
      EXPECT_EQ(input.Next(&batch), same);
      if (same) {
        EXPECT_TRUE(batch.has_local_rows());
        EXPECT_EQ(batch.num_rows(), 3);
        EXPECT_EQ(batch.components()[0].shape().dim(0), worker == 0 ? 2 : 1);
      }
      return input.status();
    });
    if (same) {
      EXPECT_THAT(statuses, Each(absl::OkStatus()));
    } else {
      ExpectDifference(statuses, difference);
    }
  }
}

// The error occurs immediately, not after the step timeout.
TEST(OtherDataTest, DatasetOnOneWorkerAndUserTypeOnAnotherIsRejected) {
  const auto statuses = OnEach([](const Strategy& strategy, int worker) {
    DistributedDataset input =
        worker == 0 ? strategy.Distribute(Line().Batch(kBatch)) : strategy.Distribute(OwnShards());
    DistributedBatch batch;
    EXPECT_FALSE(input.Next(&batch));
    return input.status();
  });
  ExpectDifference(statuses, "pipeline");
}

TEST(OtherDataTest, ComparisonCanBeDisabled) {
  for (const DistributeOptions& distribute :
       {DistributeOptions{.auto_shard_policy = AutoShardPolicy::kOff},
        DistributeOptions{.compare_data = false}}) {
    const Training training =
        Train([](int worker) { return Line(worker == 0 ? 2 : 3).Batch(kBatch); },
              [&](int, FitOptions* options) { options->distribute = distribute; });
    EXPECT_THAT(training.statuses, Each(absl::OkStatus()));
  }
}

TEST(OtherDataTest, ComparisonOfValidationDataCanBeDisabled) {
  for (const AutoShardPolicy policy : {AutoShardPolicy::kOff, AutoShardPolicy::kData}) {
    const Training training =
        Train([](int) { return Line().Batch(kBatch); },
              [&](int worker, FitOptions* options) {
                options->distribute = {.auto_shard_policy = policy, .compare_data = false};
                options->validation = Line(worker == 0 ? 2 : 3).Batch(kBatch);
              });
    EXPECT_THAT(training.statuses, Each(absl::OkStatus()));
  }
}

TEST(OtherDataTest, EvaluateAndPredictCompareDataUnlessDisabled) {
  for (const bool compares : {true, false}) {
    const InferenceOptions options = {.compare_data = compares};
    const auto data = [](int worker) { return Line(worker == 0 ? 2 : 3).Batch(kBatch); };
    const std::vector<absl::Status> statuses[] = {
        WithTrainers([&](Trainer& trainer, int worker) {
          return trainer.Evaluate(data(worker), options).status();
        }),
        WithTrainers([&](Trainer& trainer, int worker) {
          return trainer.Predict(data(worker), options).status();
        })};
    for (const std::vector<absl::Status>& of_workers : statuses) {
      if (compares) {
        ExpectDifference(of_workers, "first batch");
      } else {
        EXPECT_THAT(of_workers, Each(absl::OkStatus()));
      }
    }
  }
}

}  // namespace
}  // namespace mirrorflow
