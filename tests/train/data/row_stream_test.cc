// SPDX-License-Identifier: Apache-2.0
#include "train/data/row_stream.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using Rows = std::vector<int64_t>;

// Appends the next element's row numbers to `rows`. Returns false at the end.
bool Next(RowStream& stream, Rows* rows) {
  std::vector<RowRef> refs;
  const absl::StatusOr<bool> more = stream.Next(&refs);
  EXPECT_TRUE(more.ok()) << more.status();
  for (const RowRef& ref : refs) rows->push_back(ref.id.row);
  return more.ok() && *more;
}

// Returns at most `limit` elements of one pass.
std::vector<Rows> Elements(RowStream& stream, int64_t epoch, int limit = 1000) {
  EXPECT_EQ(stream.Start(epoch), absl::OkStatus());
  std::vector<Rows> elements;
  for (Rows rows; static_cast<int>(elements.size()) < limit && Next(stream, &rows); rows.clear()) {
    elements.push_back(rows);
  }
  return elements;
}

Rows Flat(RowStream& stream, int64_t epoch, int limit = 1000) {
  Rows all;
  for (const Rows& rows : Elements(stream, epoch, limit)) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

TEST(AllRowsTest, CountsUpAndRestartsWithEachPass) {
  const auto stream = AllRows(3);
  EXPECT_THAT(Flat(*stream, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(Flat(*stream, 1), ElementsAre(0, 1, 2));
  EXPECT_THAT(Flat(*AllRows(0), 0), IsEmpty());
}

TEST(ShuffleRowsTest, YieldsEveryRowOnce) {
  const auto stream = ShuffleRows(1)(AllRows(997));
  Rows rows = Flat(*stream, 0);
  EXPECT_FALSE(std::is_sorted(rows.begin(), rows.end()));
  std::sort(rows.begin(), rows.end());
  Rows expected(997);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(rows, expected);
}

TEST(ShuffleRowsTest, OrderDependsOnlyOnSeedAndEpoch) {
  const auto one = ShuffleRows(1)(AllRows(50));
  const Rows first = Flat(*one, 0);
  EXPECT_NE(Flat(*one, 1), first);
  EXPECT_EQ(Flat(*one, 0), first) << "the order of an epoch must be reproducible";
  EXPECT_EQ(Flat(*ShuffleRows(1)(AllRows(50)), 0), first);
  EXPECT_NE(Flat(*ShuffleRows(2)(AllRows(50)), 0), first);
  EXPECT_NE(Flat(*ShuffleRows(0)(AllRows(50)), 1), first)
      << "the order must not depend on only the sum of seed and epoch";
}

// Users reproduce and compare runs across machines and versions, so these orders must never change.
TEST(ShuffleRowsTest, OrderMatchesRecordedOrder) {
  EXPECT_THAT(Flat(*ShuffleRows(1)(AllRows(10)), 0), ElementsAre(6, 4, 7, 2, 9, 1, 5, 0, 8, 3));
  EXPECT_THAT(Flat(*ShuffleRows(1)(AllRows(10)), 1), ElementsAre(7, 6, 9, 3, 4, 0, 1, 8, 2, 5));
}

TEST(ShuffleRowsTest, AllOrdersAreEquallyLikely) {
  std::map<Rows, int> seen;
  const auto stream = ShuffleRows(7)(AllRows(4));
  constexpr int kEpochs = 24'000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) ++seen[Flat(*stream, epoch)];
  ASSERT_EQ(seen.size(), 24u);
  double chi_square = 0;
  for (const auto& [rows, count] : seen) chi_square += (count - 1000.0) * (count - 1000.0) / 1000;
  // With 23 degrees of freedom, chi-square exceeds 49.7 with probability 0.001. A naive shuffle,
  // which swaps every position with an arbitrary other one, gives about 2,000.
  EXPECT_LT(chi_square, 49.7);
}

TEST(ShuffleRowsTest, MovesBatchesAsUnits) {
  const auto stream = ShuffleRows(3)(BatchRows(2, /*drop_remainder=*/false)(AllRows(7)));
  std::vector<Rows> batches = Elements(*stream, 0);
  EXPECT_THAT(batches, Not(ElementsAre(Rows{0, 1}, Rows{2, 3}, Rows{4, 5}, Rows{6})));
  std::sort(batches.begin(), batches.end());
  EXPECT_THAT(batches, ElementsAre(Rows{0, 1}, Rows{2, 3}, Rows{4, 5}, Rows{6}));
}

TEST(BatchRowsTest, KeepsPartialLastBatch) {
  EXPECT_THAT(Elements(*BatchRows(2, false)(AllRows(5)), 0),
              ElementsAre(Rows{0, 1}, Rows{2, 3}, Rows{4}));
  EXPECT_THAT(Elements(*BatchRows(5, false)(AllRows(2)), 0), ElementsAre(Rows{0, 1}));
}

TEST(BatchRowsTest, DropsPartialLastBatchOnRequest) {
  EXPECT_THAT(Elements(*BatchRows(2, true)(AllRows(5)), 0), ElementsAre(Rows{0, 1}, Rows{2, 3}));
  EXPECT_THAT(Elements(*BatchRows(5, true)(AllRows(2)), 0), IsEmpty());
}

TEST(RepeatRowsTest, EpochNumbersContinueAcrossPasses) {
  const auto shuffled = ShuffleRows(1)(AllRows(20));
  Rows expected = Flat(*shuffled, 6);
  for (int64_t row : Flat(*shuffled, 7)) expected.push_back(row);
  // With two epochs per pass, pass 3 consists of epochs 6 and 7.
  EXPECT_EQ(Flat(*RepeatRows(2)(ShuffleRows(1)(AllRows(20))), 3), expected);
  EXPECT_EQ(Flat(*RepeatRows(-1)(ShuffleRows(1)(AllRows(20))), 6, /*limit=*/40), expected);
}

TEST(RepeatRowsTest, BatchesAfterRepeatSpanEpochs) {
  EXPECT_THAT(Elements(*BatchRows(2, false)(RepeatRows(2)(AllRows(3))), 0),
              ElementsAre(Rows{0, 1}, Rows{2, 0}, Rows{1, 2}));
}

TEST(RepeatRowsTest, RepeatOfAnEmptyStreamEnds) {
  EXPECT_THAT(Flat(*RepeatRows(-1)(AllRows(0)), 0), IsEmpty());
  EXPECT_THAT(Flat(*RepeatRows(3)(AllRows(0)), 0), IsEmpty());
  EXPECT_THAT(Flat(*RepeatRows(0)(AllRows(3)), 0), IsEmpty());
}

TEST(TakeRowsTest, StopsEarlyAndRestartsWithEachPass) {
  const auto stream = TakeRows(5)(RepeatRows(-1)(AllRows(3)));
  EXPECT_THAT(Flat(*stream, 0), ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(Flat(*stream, 1), ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(Flat(*TakeRows(5)(AllRows(2)), 0), ElementsAre(0, 1));
}

TEST(ShardRowsTest, ShardsPartitionTheElements) {
  EXPECT_THAT(Flat(*ShardRows(3, 0)(AllRows(8)), 0), ElementsAre(0, 3, 6));
  EXPECT_THAT(Flat(*ShardRows(3, 1)(AllRows(8)), 0), ElementsAre(1, 4, 7));
  EXPECT_THAT(Flat(*ShardRows(3, 2)(AllRows(8)), 0), ElementsAre(2, 5));
  EXPECT_THAT(Flat(*ShardRows(3, 2)(AllRows(2)), 0), IsEmpty());
  EXPECT_THAT(Elements(*ShardRows(2, 0)(BatchRows(2, false)(AllRows(5))), 0),
              ElementsAre(Rows{0, 1}, Rows{4}));
}

TEST(ShuffleInBufferTest, YieldsEveryRowOnceAndNoneBeforeItEntersTheBuffer) {
  const auto stream = ShuffleInBuffer(1, 10)(AllRows(100));
  const Rows rows = Flat(*stream, 0);
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_LT(rows[i], static_cast<int64_t>(i) + 10);
  EXPECT_FALSE(std::is_sorted(rows.begin(), rows.end()));
  Rows sorted = rows, expected(100);
  std::sort(sorted.begin(), sorted.end());
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(sorted, expected);
  EXPECT_EQ(Flat(*stream, 0), rows) << "the order of an epoch must be reproducible";
  EXPECT_NE(Flat(*stream, 1), rows);
  EXPECT_NE(Flat(*ShuffleInBuffer(2, 10)(AllRows(100)), 0), rows);
  EXPECT_EQ(Flat(*ShuffleInBuffer(2, 1)(AllRows(9)), 0), Flat(*AllRows(9), 0));
}

// A stream that skips elements continues like one whose first elements have been read.
TEST(SkipRowsTest, SkipsTheFirstElementsOfEveryKindOfStream) {
  const RowTransform shuffle = ShuffleRows(7), batch = BatchRows(3, false);
  const RowTransform full_batch = BatchRows(3, true), repeat = RepeatRows(3);
  const RowTransform forever = RepeatRows(-1), take = TakeRows(5), skip = SkipRows(2);
  const RowTransform shard = ShardRows(3, 1), buffer = ShuffleInBuffer(7, 3);
  const std::vector<std::vector<RowTransform>> pipelines = {
      {},
      {shuffle},
      {shuffle, batch},
      {shuffle, full_batch},
      {shuffle, repeat, batch},
      {shuffle, forever, full_batch},
      {batch, shuffle},
      {batch, repeat, take},
      {repeat, skip, batch},
      {take, repeat},
      {shard},
      {repeat, shard, batch},
      {buffer},
      {buffer, repeat, batch},
      {batch, buffer, shard},
  };
  for (size_t p = 0; p < pipelines.size(); ++p) {
    for (const int64_t count : {0, 1, 2, 3, 4, 5, 7, 8, 30, 100}) {
      const auto make = [&] {
        std::unique_ptr<RowStream> stream = AllRows(8);
        for (const RowTransform& stage : pipelines[p]) stream = stage(std::move(stream));
        return stream;
      };
      std::vector<Rows> expected = Elements(*make(), 4, 200);
      expected.erase(expected.begin(),
                     expected.begin() + std::min<int64_t>(count, expected.size()));
      const auto skipping = SkipRows(count)(make());
      for (int pass = 0; pass < 2; ++pass) {
        std::vector<Rows> got = Elements(*skipping, 4, static_cast<int>(expected.size()) + 1);
        got.resize(std::min(got.size(), expected.size()));
        EXPECT_EQ(got, expected) << "pipeline " << p << ", skipping " << count;
      }
    }
  }
}

TEST(SkipRowsTest, SkipReturnsHowManyElementsItSkipped) {
  const auto stream = BatchRows(3, false)(RepeatRows(2)(AllRows(4)));
  ASSERT_EQ(stream->Start(0), absl::OkStatus());
  EXPECT_EQ(*stream->Skip(2), 2);
  EXPECT_EQ(*stream->Skip(5), 1);
  EXPECT_EQ(*stream->Skip(5), 0);
  const auto nothing = RepeatRows(-1)(AllRows(0));
  ASSERT_EQ(nothing->Start(0), absl::OkStatus());
  EXPECT_EQ(*nothing->Skip(10), 0);
}

}  // namespace
}  // namespace mirrorflow
