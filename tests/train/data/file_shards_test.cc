// SPDX-License-Identifier: Apache-2.0
//
// Tests datasets in which each worker reads its own files, as with TensorFlow's
// AutoShardPolicy.FILE.
#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "train/data/dataset.h"
#include "train/data/sources.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Values = std::vector<int64_t>;

// Writes file number `file` of the dataset `name`: one column with consecutive integers that start
// at `first`.
std::string WriteNumbers(absl::string_view name, int file, int first, int rows) {
  std::string text = "n\n";
  for (int i = 0; i < rows; ++i) absl::StrAppend(&text, first + i, "\n");
  return WriteTemporary(absl::StrCat(name, "/part-", file, ".csv"), text);
}

// Writes four files of 5, 1, 3 and 2 rows, with values 0 … 4; 10; 20 … 22; and 30, 31.
std::string FourFiles(absl::string_view name) {
  constexpr int kRows[] = {5, 1, 3, 2};
  for (int file = 0; file < 4; ++file) WriteNumbers(name, file, 10 * file, kRows[file]);
  return absl::StrCat(TemporaryPath(name), "/part-*.csv");
}

// Returns the shard of worker `worker` out of two workers with one replica each.
FileShard OfTwo(int worker) {
  return {.worker = worker, .num_workers = 2, .batch = {worker, 1, 2}};
}

absl::StatusOr<std::vector<Values>> BatchesOf(BatchSource& source) {
  std::vector<Values> batches;
  for (SourceBatch batch;;) {
    MF_ASSIGN_OR_RETURN(const bool more, source.Next(&batch));
    if (!more) return batches;
    const auto values = batch.components[0].flat<int64_t>();
    batches.emplace_back(values.begin(), values.end());
  }
}

absl::StatusOr<std::vector<Values>> BatchesOf(const Dataset& dataset, const FileShard& shard,
                                              int64_t epoch = 0) {
  MF_ASSIGN_OR_RETURN(const FileBatches files, dataset.OpenFiles(epoch, shard));
  return BatchesOf(*files.source);
}

Values Joined(const std::vector<Values>& batches) {
  Values all;
  for (const Values& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

absl::Status ErrorOf(const Dataset& dataset, const FileShard& shard) {
  return dataset.OpenFiles(0, shard).status();
}

TEST(FileShardsTest, PatternExpandsToItsFilesInOrder) {
  const Dataset rows = Dataset::FromCsv(FourFiles("pattern"), {});
  EXPECT_EQ(rows.size(), 11);
  EXPECT_THAT(Joined(*BatchesOf(*rows.Batch(4).MakeIterator())),
              ElementsAre(0, 1, 2, 3, 4, 10, 20, 21, 22, 30, 31));
  const absl::Status none = Dataset::FromCsv("/no/such-*.csv", {}).status();
  EXPECT_THAT(none, IsError(absl::StatusCode::kNotFound, "such-*.csv:", "at least one"));
  // A file whose name looks like a pattern is opened by its literal name.
  const std::string literal = WriteTemporary("literal/data[1].csv", "n\n7\n");
  EXPECT_THAT(Joined(*BatchesOf(*Dataset::FromCsv(literal, {}).MakeIterator())), ElementsAre(7));
}

TEST(FileShardsTest, FilesOfAPatternMustHaveTheSameColumns) {
  const auto status_of = [](absl::string_view name, absl::string_view second) {
    WriteTemporary(absl::StrCat(name, "/0.csv"), "a,b\n1,2\n");
    WriteTemporary(absl::StrCat(name, "/1.csv"), second);
    return Dataset::FromCsv(absl::StrCat(TemporaryPath(name), "/*.csv"), {}).status();
  };
  EXPECT_TRUE(status_of("same_columns", "a,b\n3,4\n").ok());
  EXPECT_TRUE(status_of("no_rows", "a,b\n").ok());
  EXPECT_THAT(status_of("other_columns", "a,c\n3,4\n"),
              IsError(absl::StatusCode::kInvalidArgument, "1.csv:", "columns a,b", "got a,c"));
  EXPECT_THAT(
      status_of("other_types", "a,b\n3,4.5\n"),
      IsError(absl::StatusCode::kInvalidArgument, "1.csv:", "column 'b' of int64", "got float"));
}

TEST(FileShardsTest, EachOfTwoWorkersReadsEverySecondFileAndItsPartOfABatch) {
  const Dataset batches = Dataset::FromCsv(FourFiles("every_second"), {}).Batch(5);
  EXPECT_THAT(*BatchesOf(batches, OfTwo(0)),
              ElementsAre(Values({0, 1, 2}), Values({3, 4, 20}), Values({21, 22})));
  EXPECT_THAT(*BatchesOf(batches, OfTwo(1)), ElementsAre(Values({10, 30}), Values({31})));
  // Three workers; worker 1 has two of the four replicas.
  EXPECT_THAT(*BatchesOf(batches, {.worker = 0, .num_workers = 3, .batch = {0, 1, 4}}),
              ElementsAre(Values({0, 1}), Values({2, 3}), Values({4, 30}), Values({31})));
  EXPECT_THAT(*BatchesOf(batches, {.worker = 1, .num_workers = 3, .batch = {1, 2, 4}}),
              ElementsAre(Values({10})));
  const auto with_remainder = batches.OpenFiles(0, OfTwo(0));
  EXPECT_FALSE(with_remainder->drop_remainder);
  EXPECT_EQ(with_remainder->files, batches.OpenFiles(1, OfTwo(1))->files);
  EXPECT_TRUE(Dataset::FromCsv(FourFiles("dropped"), {})
                  .Batch(5, {.drop_remainder = true})
                  .OpenFiles(0, OfTwo(0))
                  ->drop_remainder);
}

// Worker 0 reads its file although worker 1's file does not exist.
TEST(FileShardsTest, WorkerOpensOnlyItsFiles) {
  const std::string bytes = WriteTemporary("only/0.tfrecord", "");
  const Dataset batches = Dataset::FromTFRecords({bytes, "/no/such.tfrecord"}, {}).Batch(2);
  EXPECT_THAT(*BatchesOf(batches, OfTwo(0)), IsEmpty());
  const absl::Status missing = BatchesOf(batches, OfTwo(1)).status();
  EXPECT_THAT(missing, IsError(absl::StatusCode::kNotFound, "/no/such.tfrecord"));
  // Without sharding, the dataset needs every file.
  EXPECT_THAT(batches.status(), IsError(absl::StatusCode::kNotFound, "/no/such.tfrecord"));
}

TEST(FileShardsTest, StagesRunOnRowsOfOneWorker) {
  const Dataset rows = Dataset::FromCsv(FourFiles("stages"), {});
  const auto of_worker_0 = [](const Dataset& dataset) {
    return Joined(*BatchesOf(dataset.Batch(2), OfTwo(0)));
  };
  const Values own = {0, 1, 2, 3, 4, 20, 21, 22};
  EXPECT_EQ(of_worker_0(rows.Prefetch(0).IgnoreErrors(1)), own);
  EXPECT_THAT(of_worker_0(rows.Take(6).Skip(4)), ElementsAre(4, 20));
  EXPECT_THAT(of_worker_0(rows.Shard(4, 1)), ElementsAre(1, 20));
  EXPECT_THAT(of_worker_0(rows.Take(2).Repeat(2)), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(of_worker_0(rows.Filter([](const Row& row) -> absl::StatusOr<bool> {
                return row[0].scalar<int64_t>() >= 4;
              })),
              ElementsAre(4, 20, 21, 22));
  EXPECT_THAT(of_worker_0(rows.Window(3, {.shift = 4})), ElementsAre(0, 1, 2, 4, 20, 21));
  EXPECT_EQ(of_worker_0(rows.Interleave([](const Row& row) -> absl::StatusOr<Dataset> {
              return Dataset::FromTensors({Tensor::Vector<int64_t>({row[0].scalar<int64_t>()})});
            })),
            own);
  for (const ShuffleOptions options : {ShuffleOptions(), ShuffleOptions{.buffer_size = 3}}) {
    Values shuffled = of_worker_0(rows.Shuffle(/*seed=*/1, options));
    EXPECT_NE(shuffled, own);
    std::sort(shuffled.begin(), shuffled.end());
    EXPECT_EQ(shuffled, own);
  }
}

// Resumed training relies on this: batch k of each worker belongs to step k.
TEST(FileShardsTest, SkipCountsBatchesOfOneWorker) {
  const Dataset batches = Dataset::FromCsv(FourFiles("skipped"), {}).Shuffle(7).Batch(4);
  for (const int worker : {0, 1}) {
    std::vector<Values> rest = *BatchesOf(batches, OfTwo(worker), 3);
    rest.erase(rest.begin(), rest.begin() + 1);
    EXPECT_EQ(*BatchesOf(batches.Skip(1), OfTwo(worker), 3), rest);
    EXPECT_THAT(*BatchesOf(batches.Skip(9), OfTwo(worker), 3), IsEmpty());
  }
}

TEST(FileShardsTest, RowNumbersAreUniqueAcrossWorkers) {
  const Dataset numbers = Dataset::FromCsv(FourFiles("numbers"), {})
                              .Map([](const RowId& id, Row* row) {
                                *row = {Tensor::Scalar<int64_t>(id.row)};
                                return absl::OkStatus();
                              })
                              .Batch(2);
  Values all = Joined(*BatchesOf(numbers, OfTwo(0)));
  for (const int64_t number : Joined(*BatchesOf(numbers, OfTwo(1)))) all.push_back(number);
  EXPECT_EQ(all.size(), 11u);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

TEST(FileShardsTest, EachWorkerHasItsOwnCache) {
  const std::string pattern = FourFiles("cached");
  const std::string path = TemporaryPath("cached_rows");
  int reads = 0;
  const Dataset counted = Dataset::FromCsv(pattern, {}).Map([&reads](Row*) {
    ++reads;
    return absl::OkStatus();
  });
  for (const Dataset& cached : {counted.Cache(), counted.Cache(path)}) {
    reads = 0;
    // As in Fit(), each epoch uses another dataset after the cache.
    for (const int epoch : {0, 1, 2}) {
      const Dataset batches = cached.Batch(2).Skip(0);
      EXPECT_THAT(Joined(*BatchesOf(batches, OfTwo(0), epoch)),
                  ElementsAre(0, 1, 2, 3, 4, 20, 21, 22));
      EXPECT_THAT(Joined(*BatchesOf(batches, OfTwo(1), epoch)), ElementsAre(10, 30, 31));
      EXPECT_EQ(Joined(*BatchesOf(*batches.MakeIterator(epoch))).size(), 11u);
    }
    EXPECT_EQ(reads, 22);
  }
  for (const char* const suffix : {"", ".0-of-2", ".1-of-2"}) {
    EXPECT_TRUE(std::filesystem::exists(absl::StrCat(path, suffix))) << suffix;
  }
}

TEST(FileShardsTest, ErrorsSayWhatFileShardingNeeds) {
  const Dataset rows = Dataset::FromCsv(FourFiles("errors"), {});
  const FileShard of_five = {.worker = 1, .num_workers = 5, .batch = {1, 1, 5}};
  EXPECT_THAT(ErrorOf(rows.Batch(8), of_five),
              IsError(absl::StatusCode::kInvalidArgument, "files", "at least 5", "got 4"));
  EXPECT_THAT(ErrorOf(rows, OfTwo(0)),
              IsError(absl::StatusCode::kInvalidArgument, "batches", "got rows"));
  EXPECT_THAT(ErrorOf(rows.Batch(1), OfTwo(0)),
              IsError(absl::StatusCode::kInvalidArgument, "replicas", "got 1"));
  EXPECT_THAT(ErrorOf(rows.Batch(0), OfTwo(0)),
              IsError(absl::StatusCode::kInvalidArgument, "Batch()", "size"));
  EXPECT_THAT(ErrorOf(rows.PaddedBatch(2), OfTwo(0)),
              IsError(absl::StatusCode::kInvalidArgument, "padded_shapes", "unknown dimensions"));
  EXPECT_TRUE(rows.PaddedBatch(2, {.padded_shapes = {Shape()}}).OpenFiles(0, OfTwo(0)).ok());
  const Dataset numbers = Dataset::FromTensors({Tensor::Vector<int64_t>({1, 2, 3})});
  for (const Dataset& other : {numbers, Dataset::Zip({rows, rows}), rows.Concatenate(rows)}) {
    EXPECT_TRUE(other.status().ok());
    EXPECT_THAT(ErrorOf(other.Batch(2), OfTwo(0)),
                IsError(absl::StatusCode::kInvalidArgument, "list of files"));
  }
  EXPECT_THAT(
      Dataset::FromTFRecords({}, {}).Batch(2).OpenFiles(0, OfTwo(0)).status(),
      IsError(absl::StatusCode::kInvalidArgument, "FromTFRecords():", "one file", "got none"));
}

}  // namespace
}  // namespace mirrorflow
