// SPDX-License-Identifier: Apache-2.0
//
// A dataset's fingerprint is the same for every shard and differs if the data differ. Computing it
// does not change the batches.
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
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

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using Ints = std::vector<int32_t>;

constexpr int kRows = 22;
constexpr int64_t kEpoch = 3;
const BatchShard kShards[] = {{0, 1, 3}, {1, 2, 3}};

Ints Values(int rows) {
  Ints values(rows);
  for (int i = 0; i < rows; ++i) values[i] = 10 * i;
  return values;
}

Dataset Numbers(const Ints& values) {
  return Dataset::FromTensors({Tensor::Vector<int32_t>(values)});
}

Dataset Generated(const Ints& values) {
  return Dataset::FromGenerator([values](int64_t) {
    return [values, i = size_t{0}](Row* row) mutable -> absl::StatusOr<bool> {
      if (i == values.size()) return false;
      *row = {Tensor::Scalar<int32_t>(values[i++])};
      return true;
    };
  });
}

std::vector<Ints> Read(BatchSource& source, int limit = 100) {
  std::vector<Ints> all;
  for (SourceBatch batch; static_cast<int>(all.size()) < limit;) {
    const absl::StatusOr<bool> more = source.Next(&batch);
    EXPECT_TRUE(more.ok()) << more.status();
    if (!more.ok() || !*more) break;
    const auto values = batch.components[0].flat<int32_t>();
    all.emplace_back(values.begin(), values.end());
  }
  return all;
}

DatasetFingerprint FingerprintOf(const Dataset& dataset, const BatchShard& shard = kShards[0]) {
  const FingerprintedBatches batches = dataset.OpenShard(kEpoch, shard);
  SourceBatch batch;
  EXPECT_TRUE(batches.source->Next(&batch).ok());
  return *batches.fingerprint;
}

struct Case {
  const char* name;
  std::function<Dataset(const Ints& values)> make;
};

class FingerprintTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    , FingerprintTest,
    testing::Values(
        Case{"Tensors", [](const Ints& v) { return Numbers(v).Batch(4); }},
        Case{"Dropped",
             [](const Ints& v) { return Numbers(v).Batch(4, {.drop_remainder = true}); }},
        Case{"OneBatch", [](const Ints& v) { return Numbers(v).Batch(100); }},
        Case{"Shuffled", [](const Ints& v) { return Numbers(v).Shuffle(1).Batch(4); }},
        Case{"ShuffledBatches", [](const Ints& v) { return Numbers(v).Batch(4).Shuffle(1); }},
        Case{"ShuffledInBuffer",
             [](const Ints& v) { return Numbers(v).Shuffle(1, {.buffer_size = 5}).Batch(4); }},
        Case{"ShuffledAndRepeated",
             [](const Ints& v) { return Numbers(v).Shuffle(1).Repeat(3).Batch(4); }},
        Case{"Endless", [](const Ints& v) { return Numbers(v).Repeat().Batch(4); }},
        Case{"Skipped", [](const Ints& v) { return Numbers(v).Batch(4).Skip(2); }},
        Case{"Sharded", [](const Ints& v) { return Numbers(v).Shard(2, 1).Batch(4); }},
        Case{"Mapped",
             [](const Ints& v) {
               return Numbers(v)
                   .Map(
                       [](const RowId& id, Row* row) {
                         const auto n = static_cast<int32_t>(id.row + 100 * id.epoch);
                         *row = {Tensor::Scalar<int32_t>((*row)[0].scalar<int32_t>() + n)};
                         return absl::OkStatus();
                       },
                       {.num_parallel_calls = 3})
                   .Batch(4);
             }},
        Case{"Padded", [](const Ints& v) { return Numbers(v).PaddedBatch(4); }},
        Case{"NotPrefetched", [](const Ints& v) { return Numbers(v).Batch(4).Prefetch(0); }},
        Case{"Generated", [](const Ints& v) { return Generated(v).Batch(4); }},
        Case{"GeneratedAndShuffled",
             [](const Ints& v) { return Generated(v).Shuffle(1, {.buffer_size = 7}).Batch(4); }},
        Case{"Filtered",
             [](const Ints& v) {
               return Numbers(v)
                   .Filter([](const Row& row) { return row[0].scalar<int32_t>() % 3 != 0; })
                   .Batch(4);
             }},
        Case{"Cached", [](const Ints& v) { return Generated(v).Cache().Batch(4); }},
        Case{"ZippedAndConcatenated",
             [](const Ints& v) {
               return Dataset::Zip({Numbers(v), Generated(v)})
                   .Concatenate(Dataset::Zip({Numbers(v), Numbers(v)}))
                   .Batch(4);
             }}),
    [](const auto& info) { return info.param.name; });

TEST_P(FingerprintTest, AllShardsHaveTheSameFingerprintAndUnchangedBatches) {
  constexpr int kLimit = 40;
  std::vector<std::string> texts;
  for (const BatchShard& shard : kShards) {
    const Dataset dataset = GetParam().make(Values(kRows));
    const FingerprintedBatches batches = dataset.OpenShard(kEpoch, shard);
    const std::vector<Ints> read = Read(*batches.source, kLimit);
    const Dataset again = GetParam().make(Values(kRows));
    EXPECT_EQ(read, Read(*again.MakeIterator(kEpoch, shard), kLimit));
    EXPECT_THAT(read, testing::Not(IsEmpty()));
    texts.push_back(batches.fingerprint->Serialize());
    EXPECT_THAT(batches.fingerprint->first_batch, HasSubstr("CRC-32C"));
    EXPECT_THAT(batches.fingerprint->types, StartsWith("int32[]"));
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST_P(FingerprintTest, DetectsDifferentValues) {
  Ints others = Values(kRows);
  for (int32_t& value : others) ++value;
  EXPECT_NE(FingerprintOf(GetParam().make(Values(kRows))).first_batch,
            FingerprintOf(GetParam().make(others)).first_batch);
}

TEST(DatasetFingerprintTest, DetectsOneDifferentRowInTheFirstOrLastBatch) {
  const DatasetFingerprint own = FingerprintOf(Numbers(Values(kRows)).Batch(4));
  const auto with_other = [](int row) {
    Ints values = Values(kRows);
    values[row] = -1;
    return FingerprintOf(Numbers(values).Batch(4));
  };
  for (const int row : {0, 3}) {
    EXPECT_NE(with_other(row).first_batch, own.first_batch) << row;
    EXPECT_EQ(with_other(row).last_batch, own.last_batch) << row;
  }
  for (const int row : {20, 21}) {
    EXPECT_EQ(with_other(row).first_batch, own.first_batch) << row;
    EXPECT_NE(with_other(row).last_batch, own.last_batch) << row;
  }
}

TEST(DatasetFingerprintTest, DetectsDifferentStagesAndBatchCounts) {
  const DatasetFingerprint own = FingerprintOf(Numbers(Values(kRows)).Shuffle(1).Batch(4));
  EXPECT_EQ(own.batches, "6");
  EXPECT_NE(FingerprintOf(Numbers(Values(kRows)).Shuffle(2).Batch(4)).pipeline, own.pipeline);
  EXPECT_EQ(FingerprintOf(Numbers(Values(30)).Shuffle(1).Batch(4)).batches, "8");
}

TEST(DatasetFingerprintTest, LastBatchIsCoveredOnlyWithRandomAccess) {
  EXPECT_THAT(FingerprintOf(Numbers(Values(kRows)).Batch(4)).last_batch, HasSubstr("2 rows with"));
  EXPECT_THAT(FingerprintOf(Generated(Values(kRows)).Batch(4)).last_batch, IsEmpty());
  EXPECT_THAT(FingerprintOf(Numbers(Values(kRows)).Repeat().Batch(4)).last_batch, IsEmpty());
}

// Reading the last batch would take as long as reading all passes.
TEST(DatasetFingerprintTest, DistantLastBatchIsOmitted) {
  constexpr int64_t kPasses = std::numeric_limits<int64_t>::max() / kRows;
  EXPECT_THAT(FingerprintOf(Numbers(Values(kRows)).Shuffle(1).Repeat(kPasses).Batch(4)).last_batch,
              IsEmpty());
}

TEST(DatasetFingerprintTest, ReadsOnlySomeRowsOfLargeBatches) {
  constexpr int kManyRows = 10000;
  std::atomic<int> reads{0};
  const Dataset dataset =
      Dataset::FromRandomAccess(2 * kManyRows,
                                [&](int64_t i, Row* row) {
                                  ++reads;
                                  *row = {Tensor::Scalar<int32_t>(static_cast<int32_t>(i))};
                                  return absl::OkStatus();
                                })
          .Batch(kManyRows)
          .Prefetch(0);
  const BatchShard shard = {0, 1, 10};
  EXPECT_THAT(FingerprintOf(dataset, shard).first_batch, HasSubstr("10000 rows"));
  EXPECT_LT(reads, kManyRows / 10 + 500);
}

TEST(DatasetFingerprintTest, ReadsOnlySomeRowsIfRowsAreLarge) {
  constexpr int64_t kBytes = int64_t{16} << 20;
  std::atomic<int> reads{0};
  const Dataset dataset = Dataset::FromRandomAccess(40,
                                                    [&](int64_t, Row* row) -> absl::Status {
                                                      ++reads;
                                                      const absl::StatusOr<Tensor> value =
                                                          Tensor::Allocate(DT_UINT8, {kBytes});
                                                      MF_RETURN_IF_ERROR(value.status());
                                                      std::memset(value->raw(), 1, kBytes);
                                                      *row = {*value};
                                                      return absl::OkStatus();
                                                    })
                              .Batch(20)
                              .Prefetch(0);
  const BatchShard shard = {0, 1, 20};
  EXPECT_THAT(FingerprintOf(dataset, shard).last_batch, HasSubstr("20 rows"));
  EXPECT_LE(reads, 10);
}

// To find the last batch, the shuffle buffer would have to draw the order of all rows.
TEST(DatasetFingerprintTest, LastBatchAfterAShuffleBufferIsOmitted) {
  const Dataset dataset = Numbers(Values(kRows)).Shuffle(1, {.buffer_size = 5});
  EXPECT_THAT(FingerprintOf(dataset.Batch(4)).last_batch, IsEmpty());
  EXPECT_THAT(FingerprintOf(dataset.Batch(4).Take(3)).last_batch, IsEmpty());
}

TEST(DatasetFingerprintTest, GeneratorRunsOnce) {
  int opened = 0;
  const Dataset dataset = Dataset::FromSource([&](int64_t epoch) {
                            ++opened;
                            class Source final : public RowSource {
                             public:
                              absl::StatusOr<bool> Next(Row* row) override {
                                *row = {Tensor::Scalar<int32_t>(next_)};
                                return next_++ < kRows;
                              }

                             private:
                              int32_t next_ = 0;
                            };
                            return std::make_unique<Source>();
                          }).Batch(4);
  EXPECT_EQ(Read(*dataset.OpenShard(0, {}).source).size(), 6u);
  EXPECT_EQ(opened, 1);
}

TEST(DatasetFingerprintTest, EmptyDatasetHasNoFirstBatch) {
  const FingerprintedBatches batches = Numbers(Values(2)).Batch(4).Skip(1).OpenShard(0, {});
  EXPECT_THAT(Read(*batches.source), IsEmpty());
  EXPECT_EQ(batches.fingerprint->batches, "0");
  EXPECT_THAT(batches.fingerprint->first_batch, IsEmpty());
}

TEST(DatasetFingerprintTest, ErrorsOfTheFirstBatchAreReturned) {
  const auto status_of = [](const Dataset& dataset) {
    SourceBatch batch;
    return dataset.OpenShard(0, kShards[0]).source->Next(&batch).status();
  };
  const Dataset rows = Dataset::FromRandomAccess(8, [](int64_t i, Row* row) -> absl::Status {
    if (i == 3) return absl::DataLossError("bad");
    *row = {Tensor::Scalar<int32_t>(0)};
    return absl::OkStatus();
  });
  EXPECT_THAT(status_of(rows.Batch(4)), IsError(absl::StatusCode::kDataLoss, "row 3", "bad"));
  EXPECT_THAT(status_of(rows.Batch(0)),
              IsError(absl::StatusCode::kInvalidArgument, "Batch()", "got 0"));
}

// If file names or sizes differ, a worker has a stale copy.
TEST(DatasetFingerprintTest, DetectsDifferentFileNamesAndSizes) {
  const auto files_of = [](absl::string_view folder, absl::string_view file,
                           absl::string_view last) {
    WriteTemporary(absl::StrCat(folder, "/", file), absl::StrCat("n\n1\n2\n", last));
    return FingerprintOf(Dataset::FromCsv(absl::StrCat(TemporaryPath(folder), "/*.csv"), {})
                             .Shuffle(1)
                             .Batch(2))
        .files;
  };
  const std::string own = files_of("fingerprint_own", "a.csv", "3\n");
  EXPECT_THAT(own, StartsWith("1 file with"));
  EXPECT_THAT(own, HasSubstr(" 8 bytes"));
  EXPECT_EQ(files_of("fingerprint_copy", "a.csv", "3\n"), own);
  EXPECT_NE(files_of("fingerprint_renamed", "b.csv", "3\n"), own);
  EXPECT_NE(files_of("fingerprint_stale", "a.csv", ""), own);
}

// Workers may have downloaded the file under different temporary names.
TEST(DatasetFingerprintTest, FileNamedByTheUserCountsOnlyWithItsSize) {
  const auto files_of = [](absl::string_view file, absl::string_view contents) {
    return FingerprintOf(Dataset::FromCsv(WriteTemporary(file, contents), {}).Batch(2)).files;
  };
  const std::string own = files_of("fingerprint_named.a", "n\n1\n2\n");
  EXPECT_EQ(files_of("fingerprint_named.b", "n\n1\n2\n"), own);
  EXPECT_NE(files_of("fingerprint_named.c", "n\n1\n2\n3\n"), own);
}

TEST(DatasetFingerprintTest, ImageFileNamesAreIncluded) {
  const auto files_of = [](absl::string_view folder, absl::string_view image) {
    for (const char* label : {"cat", "dog"}) {
      WriteTemporary(absl::StrCat(folder, "/", label, "/", image), "");
    }
    return Dataset::FromImageFolder(TemporaryPath(folder), {})
        .Batch(1)
        .Prefetch(0)
        .OpenShard(0, kShards[0])
        .fingerprint->files;
  };
  const std::string own = files_of("fingerprint_images", "a.png");
  EXPECT_THAT(own, StartsWith("2 files"));
  EXPECT_EQ(files_of("fingerprint_images_copy/", "a.png"), own);
  EXPECT_NE(files_of("fingerprint_images_stale", "b.png"), own);
}

TEST(DatasetFingerprintTest, FilesOfAllSourcesAreIncluded) {
  const Dataset a = Dataset::FromCsv(WriteTemporary("fingerprint_a.csv", "n\n1\n"), {});
  const Dataset b = Dataset::FromCsv(WriteTemporary("fingerprint_b.csv", "n\n1\n2\n"), {});
  for (const Dataset& both : {Dataset::Zip({a, b}), a.Concatenate(b)}) {
    EXPECT_THAT(FingerprintOf(both.Batch(1)).files, HasSubstr("4 bytes, "));
    EXPECT_THAT(FingerprintOf(both.Batch(1)).files, HasSubstr("6 bytes"));
  }
}

}  // namespace
}  // namespace mirrorflow
