// SPDX-License-Identifier: Apache-2.0
//
// Tests Dataset::Cache(path).
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "train/data/dataset.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using Ints = std::vector<int32_t>;

int32_t NumberOf(const Row& row) { return row[0].scalar<int32_t>(); }

// Returns the rows 0 to n - 1.
Dataset Range(int n) {
  return Dataset::FromRandomAccess(n, [](int64_t i, Row* row) {
    *row = {Tensor::Scalar<int32_t>(static_cast<int32_t>(i))};
    return absl::OkStatus();
  });
}

absl::StatusOr<Ints> TryValues(const Dataset& dataset, int64_t epoch = 0) {
  Ints all;
  const std::unique_ptr<BatchSource> source = dataset.MakeIterator(epoch);
  for (SourceBatch batch;;) {
    MF_ASSIGN_OR_RETURN(const bool more, source->Next(&batch));
    if (!more) return all;
    const auto values = batch.components[0].flat<int32_t>();
    all.insert(all.end(), values.begin(), values.end());
  }
}

Ints Values(const Dataset& dataset, int64_t epoch = 0) {
  absl::StatusOr<Ints> all = TryValues(dataset, epoch);
  EXPECT_TRUE(all.ok()) << all.status();
  return all.ok() ? *std::move(all) : Ints();
}

absl::Status ErrorOf(const Dataset& dataset) { return TryValues(dataset).status(); }

class FileCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  // Returns a dataset that counts the rows read from its source.
  Dataset Counted(int64_t rows) {
    return Range(rows).Map([this](Row*) {
      ++reads_;
      return absl::OkStatus();
    });
  }
  void Write(const std::string& contents) { std::ofstream(path_, std::ios::binary) << contents; }
  int NumFiles() const {
    const std::filesystem::directory_iterator files(directory_);
    return static_cast<int>(std::distance(begin(files), end(files)));
  }

  const std::string directory_ =
      TemporaryPath(::testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string path_ = directory_ + "/rows";
  std::atomic<int> reads_ = 0;
};

TEST_F(FileCacheTest, LaterPassesAndDatasetsReadTheFile) {
  const Dataset cached = Counted(10).Cache(path_);
  const Dataset shuffled = cached.Shuffle(1, {.buffer_size = 10}).Batch(4).Prefetch(0);
  const Ints first = Values(shuffled, 0), second = Values(shuffled, 1);
  EXPECT_NE(first, second);
  EXPECT_THAT(Values(Counted(10).Cache(path_)), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(Values(cached.Skip(7)), ElementsAre(7, 8, 9));
  EXPECT_THAT(Values(cached.Skip(11)), ElementsAre());
  EXPECT_EQ(reads_, 10);
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(FileCacheTest, PassThatEndsEarlyLeavesNoFile) {
  EXPECT_THAT(Values(Counted(10).Cache(path_).Take(3)), ElementsAre(0, 1, 2));
  EXPECT_EQ(NumFiles(), 0);
}

TEST_F(FileCacheTest, CachedRowsKeepShapesDtypesAndRowNumbers) {
  const Row row = {Tensor::Of<float>({2, 0}, {}), Tensor::Scalar<bool>(true),
                   Tensor::Of<double>({1, 2}, {0.5, -3})};
  const Dataset dataset = Range(2)
                              .Filter([](const Row& r) { return NumberOf(r) == 1; })
                              .Map([&](Row* r) {
                                *r = row;
                                return absl::OkStatus();
                              })
                              .Cache(path_)
                              .Map([](const RowId& id, Row* r) {
                                r->push_back(Tensor::Scalar<int64_t>(10 * id.epoch + id.row));
                                return absl::OkStatus();
                              });
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto iterator = dataset.MakeIterator(epoch);
    SourceBatch batch;
    ASSERT_TRUE(*iterator->Next(&batch));
    ASSERT_EQ(batch.components.size(), 4u);
    EXPECT_EQ(batch.components[0].TypeString(), "float[1,2,0]");
    EXPECT_EQ(batch.components[1].data<bool>()[0], true);
    EXPECT_EQ(batch.components[2].data<double>()[1], -3);
    EXPECT_EQ(batch.components[3].data<int64_t>()[0], 10 * epoch + 1);
    EXPECT_FALSE(*iterator->Next(&batch));
  }
}

TEST_F(FileCacheTest, DamagedOrForeignFileIsAnError) {
  ASSERT_EQ(Values(Range(50).Cache(path_)).size(), 50u);
  std::ifstream file(path_, std::ios::binary);
  const std::string good(std::istreambuf_iterator<char>(file), {});
  for (size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    Write(bad);
    EXPECT_EQ(ErrorOf(Range(50).Cache(path_)).code(), absl::StatusCode::kDataLoss) << at;
    Write(good.substr(0, at));
    EXPECT_EQ(ErrorOf(Range(50).Cache(path_)).code(), absl::StatusCode::kDataLoss) << at;
  }
}

TEST_F(FileCacheTest, MissingDirectoryIsAnError) {
  EXPECT_THAT(ErrorOf(Range(5).Cache(directory_ + "/none/rows")),
              IsError(absl::StatusCode::kNotFound, "/none/rows", "No such file"));
}

}  // namespace
}  // namespace mirrorflow
