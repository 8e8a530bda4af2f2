// SPDX-License-Identifier: Apache-2.0
//
// Workers with their own rows (AutoShardPolicy FILE) run the same number of steps and end together.
// Workers that share the batches of a dataset start only if all have the same dataset.
#include "distribute/strategy/input_agreement.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distribute/strategy/distributed_dataset.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/cluster/memory_worker_group.h"
#include "tests/support/forwarding_worker_group.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A source of batches with the given row counts and row shape, followed by an error or the end.
class TestSource final : public BatchSource {
 public:
  TestSource(std::vector<int64_t> rows, Shape shape, absl::Status last, int num_labels = 1)
      : rows_(std::move(rows)),
        shape_(std::move(shape)),
        last_(std::move(last)),
        num_labels_(num_labels) {}

  absl::StatusOr<bool> Next(SourceBatch* batch) override {
    batch->components.clear();
    if (next_ == rows_.size()) {
      if (!last_.ok()) return last_;
      return false;
    }
    Shape shape = Shape({rows_[next_++]});
    for (const int64_t dim : shape_.dims()) shape = WithDim(shape, dim);
    MF_ASSIGN_OR_RETURN(batch->components.emplace_back(), Tensor::Allocate(DT_FLOAT, shape));
    for (int i = 0; i < num_labels_; ++i) {
      MF_ASSIGN_OR_RETURN(batch->components.emplace_back(),
                          Tensor::Allocate(DT_INT32, {shape.dim(0)}));
    }
    batch->global_rows = shape.dim(0);
    if (on_read_) on_read_();
    return true;
  }

  // Sets a function that is called for each batch that is read.
  void OnRead(std::function<void()> call) { on_read_ = std::move(call); }

 private:
  static Shape WithDim(const Shape& shape, int64_t dim) {
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    dims.push_back(dim);
    return Shape(dims);
  }

  const std::vector<int64_t> rows_;
  const Shape shape_;
  const absl::Status last_;
  const int num_labels_;
  size_t next_ = 0;
  std::function<void()> on_read_;
};

// Counts the messages that a worker sends, and can change the answers that it receives.
class Observed final : public ForwardingWorkerGroup {
 public:
  using Change = std::function<void(std::vector<std::string>*)>;
  explicit Observed(std::unique_ptr<WorkerGroup> group, Change change = nullptr)
      : ForwardingWorkerGroup(*group), group_(std::move(group)), change_(std::move(change)) {}

  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view name, std::string value,
                                                     MonotonicTime deadline) override {
    ++messages_;
    longest_ = std::max(longest_, value.size());
    auto answers = ForwardingWorkerGroup::AllGather(name, std::move(value), deadline);
    if (answers.ok() && change_) change_(&*answers);
    return answers;
  }
  int messages() const { return messages_; }
  // Returns the size of the longest message, in bytes.
  size_t longest() const { return longest_; }

 private:
  const std::unique_ptr<WorkerGroup> group_;
  const Change change_;
  // Modified by one thread at a time.
  int messages_ = 0;
  size_t longest_ = 0;
};

struct TestInput {
  std::vector<int64_t> rows;
  Shape shape = {2, 3};
  absl::Status last = absl::OkStatus();
  bool drop_remainder = false;
  std::string files = "files";
  absl::Status opened = absl::OkStatus();
  int num_labels = 1;
};

struct Seen {
  std::vector<std::string> steps;  // row counts of all replicas, and components of this worker
  absl::Status status;
  int messages = 0;
  size_t longest_message = 0;
  int64_t most_ahead = 0;  // the most batches that were read and had not yet been used
};

// Runs one worker per input and returns what each worker receives. Worker w has `replicas[w]`
// replicas.
std::vector<Seen> Distribute(const std::vector<TestInput>& inputs, const std::vector<int>& replicas,
                             absl::Duration timeout = absl::Seconds(20),
                             const Observed::Change& change = nullptr) {
  auto groups = CreateMemoryWorkerGroups(static_cast<int>(inputs.size()));
  std::vector<Seen> seen(inputs.size());
  std::vector<std::thread> threads;
  for (size_t w = 0; w < inputs.size(); ++w) {
    threads.emplace_back([&, w] {
      const auto group = std::make_shared<Observed>(std::move(groups[w]), change);
      seen[w].status = group->Join(MonotonicTime::Now() + timeout).status();
      if (!seen[w].status.ok()) return;
      const TestInput& in = inputs[w];
      int64_t read = 0, steps = 0;
      absl::StatusOr<FileBatches> files = FileBatches();
      if (!in.opened.ok()) {
        files = in.opened;
      } else {
        auto source = std::make_unique<TestSource>(in.rows, in.shape, in.last, in.num_labels);
        source->OnRead([&] { seen[w].most_ahead = std::max(seen[w].most_ahead, ++read - steps); });
        files = FileBatches{std::move(source), in.drop_remainder, in.files};
      }
      DistributedDataset input(
          std::move(files),
          std::make_unique<InputAgreement>(InputAgreement::Options{
              .group = group, .name = "test", .replicas = replicas, .timeout = timeout}));
      for (DistributedBatch batch; ++steps, input.Next(&batch);) {
        std::string& step = seen[w].steps.emplace_back(absl::StrJoin(batch.replica_rows(), ","));
        for (const Tensor& t : batch.components()) step += " " + t.TypeString();
        int64_t rows = 0;
        for (const int64_t of_replica : batch.replica_rows()) rows += of_replica;
        EXPECT_EQ(batch.num_rows(), rows);
        EXPECT_TRUE(batch.has_local_rows());
      }
      seen[w].status = input.status();
      DistributedBatch after;
      EXPECT_FALSE(input.Next(&after));
      seen[w].messages = group->messages();
      seen[w].longest_message = group->longest();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return seen;
}

TEST(InputAgreementTest, AllWorkersRunAsManyStepsAsLongestInput) {
  const auto seen = Distribute({{.rows = {4, 3}}, {.rows = {2}}, {.rows = {}}}, {2, 1, 1});
  EXPECT_THAT(seen[0].steps,
              ElementsAre("2,2,2,0 float[4,2,3] int32[4]", "2,1,0,0 float[3,2,3] int32[3]"));
  EXPECT_THAT(seen[1].steps,
              ElementsAre("2,2,2,0 float[2,2,3] int32[2]", "2,1,0,0 float[0,2,3] int32[0]"));
  EXPECT_THAT(seen[2].steps,
              ElementsAre("2,2,2,0 float[0,2,3] int32[0]", "2,1,0,0 float[0,2,3] int32[0]"));
  for (const Seen& of_worker : seen) EXPECT_EQ(of_worker.status, absl::OkStatus());
}

TEST(InputAgreementTest, EmptyInputsRunNoStep) {
  for (const Seen& of_worker : Distribute({{}, {}}, {1, 1})) {
    EXPECT_THAT(of_worker.steps, IsEmpty());
    EXPECT_EQ(of_worker.status, absl::OkStatus());
  }
}

TEST(InputAgreementTest, RowsCanBeScalars) {
  const auto seen = Distribute({{.rows = {1}, .shape = {}}, {.shape = {}}}, {1, 1});
  EXPECT_THAT(seen[1].steps, ElementsAre("1,0 float[0] int32[0]"));
}

TEST(InputAgreementTest, ShortestInputEndsAllIfRemainderIsDropped) {
  const auto seen = Distribute(
      {{.rows = {2, 2, 2}, .drop_remainder = true}, {.rows = {2, 2}, .drop_remainder = true}},
      {1, 1});
  for (const Seen& of_worker : seen) {
    EXPECT_EQ(of_worker.steps.size(), 2u);
    EXPECT_EQ(of_worker.status, absl::OkStatus());
  }
}

TEST(InputAgreementTest, ErrorOfOneWorkerEndsAllAtSameStep) {
  const auto seen = Distribute(
      {{.rows = {2, 2, 2, 2}}, {.rows = {2, 2}, .last = absl::DataLossError("a.csv: bad")}},
      {1, 1});
  for (const Seen& of_worker : seen) EXPECT_EQ(of_worker.steps.size(), 2u);
  EXPECT_THAT(seen[0].status, IsError(absl::StatusCode::kDataLoss, "worker 1: a.csv: bad"));
  EXPECT_EQ(FailureOf(seen[0].status)->worker, 1);
  EXPECT_EQ(seen[1].status, absl::DataLossError("a.csv: bad"));
}

TEST(InputAgreementTest, ErrorBeforeFirstStepEndsAll) {
  const auto seen =
      Distribute({{.opened = absl::NotFoundError("a.csv: none")}, {.rows = {2}}}, {1, 1});
  for (const Seen& of_worker : seen) EXPECT_THAT(of_worker.steps, IsEmpty());
  EXPECT_EQ(seen[0].status, absl::NotFoundError("a.csv: none"));
  EXPECT_THAT(seen[1].status, IsError(absl::StatusCode::kNotFound, "worker 0: a.csv: none"));
}

TEST(InputAgreementTest, DifferentInputsAreRejected) {
  const auto status_of = [](const TestInput& second) {
    const auto seen = Distribute({{.rows = {2, 2}}, second}, {1, 1});
    EXPECT_EQ(seen[0].status, seen[1].status);
    return seen[0].status;
  };
  EXPECT_THAT(
      status_of({.rows = {2}, .files = "others"}),
      IsError(absl::StatusCode::kInvalidArgument, "files", "worker 0", "got others", "worker 1"));
  EXPECT_THAT(status_of({.rows = {2}, .shape = {2, 4}}),
              IsError(absl::StatusCode::kInvalidArgument, "rows", "float[2,3] and int32[]",
                      "float[2,4] and int32[]", "worker 1"));
}

// Returns the row counts of `count` batches with `rows` rows each.
std::vector<int64_t> Batches(int64_t count, int64_t rows = 2) {
  return std::vector<int64_t>(count, rows);
}

TEST(InputAgreementTest, OneAgreementCoversManySteps) {
  const auto seen = Distribute({{.rows = Batches(1000)}, {.rows = Batches(1000)}}, {1, 1});
  for (const Seen& of_worker : seen) {
    EXPECT_EQ(of_worker.status, absl::OkStatus());
    EXPECT_EQ(of_worker.steps.size(), 1000u);
    EXPECT_LE(of_worker.messages, 1000 / 20);
    EXPECT_EQ(of_worker.most_ahead, DistributedDataset::kMaxBatchesAhead);
    EXPECT_LE(of_worker.longest_message, 100u);
  }
}

// Batch sizes and batch counts differ between the workers.
TEST(InputAgreementTest, EveryStepHasItsRowsHoweverFarWorkersReadAhead) {
  const std::vector<int> counts = {400, 37, 0, 250};
  std::vector<TestInput> inputs(counts.size());
  uint32_t random = 1;
  for (size_t w = 0; w < counts.size(); ++w) {
    for (int i = 0; i < counts[w]; ++i) {
      random = random * 1664525 + 1013904223;
      inputs[w].rows.push_back(1 + (random >> 24) % (1 + w));
    }
  }
  const auto seen = Distribute(inputs, {1, 1, 1, 1});
  for (size_t w = 0; w < counts.size(); ++w) {
    ASSERT_EQ(seen[w].steps.size(), 400u);
    for (size_t step = 0; step < 400; ++step) {
      std::vector<int64_t> rows;
      for (const TestInput& in : inputs) rows.push_back(step < in.rows.size() ? in.rows[step] : 0);
      EXPECT_EQ(seen[w].steps[step], absl::StrCat(absl::StrJoin(rows, ","), " float[", rows[w],
                                                  ",2,3] int32[", rows[w], "]"));
    }
    EXPECT_EQ(seen[w].status, absl::OkStatus());
    EXPECT_LE(seen[w].messages, 400 / 10);
  }
}

TEST(InputAgreementTest, ShortestInputReadFarAheadEndsAllIfRemainderIsDropped) {
  for (const int shortest : {90, 91, 92, 93, 150}) {
    const auto seen = Distribute({{.rows = Batches(200), .drop_remainder = true},
                                  {.rows = Batches(shortest), .drop_remainder = true}},
                                 {1, 1});
    for (const Seen& of_worker : seen) {
      EXPECT_EQ(of_worker.steps.size(), static_cast<size_t>(shortest));
      EXPECT_EQ(of_worker.status, absl::OkStatus());
    }
  }
}

// The worker reads the error long before the step that it belongs to.
TEST(InputAgreementTest, ErrorFarAheadEndsAllAtItsStep) {
  for (const int good : {90, 91, 92, 93, 150}) {
    const auto seen = Distribute({{.rows = Batches(200)},
                                  {.rows = Batches(good), .last = absl::DataLossError("a: bad")},
                                  {.rows = Batches(20)}},
                                 {1, 1, 1});
    for (const Seen& of_worker : seen) {
      EXPECT_EQ(of_worker.steps.size(), static_cast<size_t>(good));
    }
    EXPECT_THAT(seen[0].status, IsError(absl::StatusCode::kDataLoss, "worker 1: a: bad"));
    EXPECT_EQ(FailureOf(seen[0].status)->worker, 1);
    EXPECT_THAT(seen[1].status, IsError(absl::StatusCode::kDataLoss, "a: bad"));
    EXPECT_EQ(seen[2].status, seen[0].status);
  }
}

// The error of the earliest step wins, no matter which worker reads its error first.
TEST(InputAgreementTest, EarlierErrorWins) {
  const auto seen = Distribute({{.rows = Batches(95), .last = absl::DataLossError("late")},
                                {.rows = Batches(91), .last = absl::DataLossError("early")}},
                               {1, 1});
  for (const Seen& of_worker : seen) EXPECT_EQ(of_worker.steps.size(), 91u);
  EXPECT_THAT(seen[0].status, IsError(absl::StatusCode::kDataLoss, "worker 1: early"));
  EXPECT_THAT(seen[1].status, IsError(absl::StatusCode::kDataLoss, "early"));
}

TEST(InputAgreementTest, LargeBatchesAreNotReadFarAhead) {
  const Shape row = {1 << 20};  // 4 MiB
  const auto seen = Distribute(
      {{.rows = Batches(200, 3), .shape = row}, {.rows = Batches(200, 1), .shape = row}}, {1, 1});
  EXPECT_EQ(seen[0].most_ahead, 6);   // 12 MiB each
  EXPECT_EQ(seen[1].most_ahead, 16);  // 4 MiB each, plus a few bytes
  for (const Seen& of_worker : seen) EXPECT_EQ(of_worker.steps.size(), 200u);
}

// Messages stay below the size limit even if batches have many components and alternating sizes.
TEST(InputAgreementTest, MessagesStayShort) {
  std::vector<int64_t> rows;
  for (int i = 0; i < 300; ++i) rows.push_back(1 + i % 2);
  const auto seen = Distribute({{.rows = rows, .num_labels = 400}}, {1});
  EXPECT_EQ(seen[0].status, absl::OkStatus());
  EXPECT_EQ(seen[0].steps.size(), 300u);
  EXPECT_GT(seen[0].longest_message, 10'000u);
  EXPECT_LE(seen[0].longest_message, 17'000u);
}

TEST(InputAgreementTest, MalformedMessageIsRejected) {
  // The third message has neither a batch nor an end. The last one has a run of zero batches.
  for (const std::string& message : {std::string(), std::string("x"), std::string("\x12\x00", 2),
                                     std::string("\x12\x02\x12\x00", 4)}) {
    const auto seen = Distribute({{.rows = {2}}}, {1}, absl::Seconds(20),
                                 [&](std::vector<std::string>* all) { (*all)[0] = message; });
    EXPECT_THAT(seen[0].status, IsError(absl::StatusCode::kInternal, "input", "malformed"));
  }
}

// Returns the result of Compare() on each worker.
std::vector<absl::Status> Compare(const std::vector<absl::StatusOr<DatasetFingerprint>>& data) {
  auto groups = CreateMemoryWorkerGroups(static_cast<int>(data.size()));
  std::vector<absl::Status> statuses(data.size());
  std::vector<std::thread> threads;
  for (size_t w = 0; w < data.size(); ++w) {
    threads.emplace_back([&, w] {
      const std::shared_ptr<WorkerGroup> group = std::move(groups[w]);
      statuses[w] = group->Join(MonotonicTime::Now() + absl::Seconds(20)).status();
      if (!statuses[w].ok()) return;
      statuses[w] = InputAgreement({.group = group,
                                    .name = "test",
                                    .replicas = std::vector<int>(data.size(), 1),
                                    .timeout = absl::Seconds(20)})
                        .Compare(data[w]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST(InputAgreementTest, SameDataIsAccepted) {
  const DatasetFingerprint data = {.pipeline = "FromTensors()", .first_batch = "CRC-32C 0"};
  EXPECT_THAT(Compare({data, data, data}), Each(absl::OkStatus()));
  EXPECT_THAT(Compare({DatasetFingerprint(), DatasetFingerprint()}), Each(absl::OkStatus()));
}

TEST(InputAgreementTest, DifferentDataOfOneWorkerFailsAll) {
  const DatasetFingerprint data = {.batches = "12", .first_batch = "CRC-32C 0"};
  DatasetFingerprint other = data;
  other.first_batch = "CRC-32C 1";
  const std::vector<absl::Status> statuses = Compare({data, data, other});
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "worker 2", "CRC-32C 1"));
    EXPECT_EQ(FailureOf(status)->worker, 2) << status;
    EXPECT_EQ(status, statuses[0]);
  }
  EXPECT_THAT(statuses[0], IsError(absl::StatusCode::kInvalidArgument, "worker 2", "CRC-32C 0",
                                   "got CRC-32C 1"));
}

TEST(InputAgreementTest, UnreadableDataOfOneWorkerFailsAll) {
  const auto statuses = Compare({DatasetFingerprint(), absl::DataLossError("a.csv: bad")});
  EXPECT_THAT(statuses[0], IsError(absl::StatusCode::kDataLoss, "worker 1: a.csv: bad"));
  EXPECT_EQ(FailureOf(statuses[0])->worker, 1);
  EXPECT_EQ(statuses[1], absl::DataLossError("a.csv: bad"));
}

TEST(InputAgreementTest, DifferentPolicyOfOneWorkerFailsBoth) {
  auto groups = CreateMemoryWorkerGroups(2);
  std::vector<absl::Status> statuses(2);
  std::vector<std::thread> threads;
  for (int w = 0; w < 2; ++w) {
    threads.emplace_back([&, w] {
      const std::shared_ptr<WorkerGroup> group = std::move(groups[w]);
      ASSERT_TRUE(group->Join(MonotonicTime::Now() + absl::Seconds(20)).ok());
      auto agreement = std::make_unique<InputAgreement>(InputAgreement::Options{
          .group = group, .name = "test", .replicas = {1, 1}, .timeout = absl::Seconds(20)});
      auto source =
          std::make_unique<TestSource>(std::vector<int64_t>{2}, Shape(), absl::OkStatus());
      DistributedBatch batch;
      if (w == 0) {
        DistributedDataset input(FileBatches{std::move(source)}, std::move(agreement));
        EXPECT_FALSE(input.Next(&batch));
        statuses[w] = input.status();
      } else {
        DistributedDataset input(FingerprintedBatches{std::move(source)},
                                 /*has_local_rows=*/false, {}, std::move(agreement));
        EXPECT_FALSE(input.Next(&batch));
        statuses[w] = input.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "AutoShardPolicy"));
  }
}

TEST(InputAgreementTest, MissingWorkerIsNamedAtTimeout) {
  auto groups = CreateMemoryWorkerGroups(2);
  const std::shared_ptr<WorkerGroup> group = std::move(groups[0]);
  std::thread other([&] { groups[1]->Join(MonotonicTime::InfiniteFuture()).IgnoreError(); });
  ASSERT_TRUE(group->Join(MonotonicTime::InfiniteFuture()).ok());
  other.join();
  DistributedDataset input(
      FileBatches{std::make_unique<TestSource>(std::vector<int64_t>{2}, Shape(), absl::OkStatus())},
      std::make_unique<InputAgreement>(InputAgreement::Options{
          .group = group, .name = "test", .replicas = {1, 1}, .timeout = absl::Milliseconds(50)}));
  DistributedBatch batch;
  EXPECT_FALSE(input.Next(&batch));
  EXPECT_THAT(input.status(), IsError(absl::StatusCode::kDeadlineExceeded, "worker 1"));
  EXPECT_EQ(FailureOf(input.status())->worker, 1);
}

}  // namespace
}  // namespace mirrorflow
