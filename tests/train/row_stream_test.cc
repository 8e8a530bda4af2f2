// SPDX-License-Identifier: Apache-2.0
#include "train/row_stream.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using Rows = std::vector<int64_t>;

// The elements of one pass, at most `limit`.
std::vector<Rows> Elements(RowStream& stream, int64_t epoch, int limit = 1000) {
  stream.Start(epoch);
  std::vector<Rows> elements;
  for (Rows rows; static_cast<int>(elements.size()) < limit && stream.Next(&rows); rows.clear()) {
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

TEST(AllRowsTest, CountsUpAndStartsOver) {
  const auto stream = AllRows(3);
  EXPECT_THAT(Flat(*stream, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(Flat(*stream, 1), ElementsAre(0, 1, 2));
  EXPECT_THAT(Flat(*AllRows(0), 0), IsEmpty());
}

TEST(ShuffleRowsTest, YieldsEveryRowOnce) {
  const auto stream = ShuffleRows(AllRows(997), 1);
  Rows rows = Flat(*stream, 0);
  EXPECT_FALSE(std::is_sorted(rows.begin(), rows.end()));
  std::sort(rows.begin(), rows.end());
  Rows expected(997);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(rows, expected);
}

TEST(ShuffleRowsTest, OrderDependsOnlyOnSeedAndEpoch) {
  const auto one = ShuffleRows(AllRows(50), 1);
  const Rows first = Flat(*one, 0);
  EXPECT_NE(Flat(*one, 1), first);
  EXPECT_EQ(Flat(*one, 0), first) << "an epoch must have the same order again";
  EXPECT_EQ(Flat(*ShuffleRows(AllRows(50), 1), 0), first);
  EXPECT_NE(Flat(*ShuffleRows(AllRows(50), 2), 0), first);
  EXPECT_NE(Flat(*ShuffleRows(AllRows(50), 0), 1), first) << "seed and epoch must not be added";
}

// Runs are reproduced and compared across machines and versions, so these orders must not change.
TEST(ShuffleRowsTest, OrderMatchesRecordedOrder) {
  EXPECT_THAT(Flat(*ShuffleRows(AllRows(10), 1), 0), ElementsAre(6, 4, 7, 2, 9, 1, 5, 0, 8, 3));
  EXPECT_THAT(Flat(*ShuffleRows(AllRows(10), 1), 1), ElementsAre(7, 6, 9, 3, 4, 0, 1, 8, 2, 5));
}

TEST(ShuffleRowsTest, AllOrdersAreEquallyLikely) {
  std::map<Rows, int> seen;
  const auto stream = ShuffleRows(AllRows(4), 7);
  constexpr int kEpochs = 24'000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) ++seen[Flat(*stream, epoch)];
  ASSERT_EQ(seen.size(), 24u);
  double chi_square = 0;
  for (const auto& [rows, count] : seen) chi_square += (count - 1000.0) * (count - 1000.0) / 1000;
  // With 23 degrees of freedom, 49.7 is exceeded with a probability of 0.001. A naive swap of every
  // position with any other one would give about 2,000.
  EXPECT_LT(chi_square, 49.7);
}

TEST(ShuffleRowsTest, MovesBatchesAsUnits) {
  const auto stream = ShuffleRows(BatchRows(AllRows(7), 2, /*drop_remainder=*/false), 3);
  std::vector<Rows> batches = Elements(*stream, 0);
  EXPECT_THAT(batches, Not(ElementsAre(Rows{0, 1}, Rows{2, 3}, Rows{4, 5}, Rows{6})));
  std::sort(batches.begin(), batches.end());
  EXPECT_THAT(batches, ElementsAre(Rows{0, 1}, Rows{2, 3}, Rows{4, 5}, Rows{6}));
}

TEST(BatchRowsTest, KeepsPartialLastBatch) {
  EXPECT_THAT(Elements(*BatchRows(AllRows(5), 2, false), 0),
              ElementsAre(Rows{0, 1}, Rows{2, 3}, Rows{4}));
  EXPECT_THAT(Elements(*BatchRows(AllRows(2), 5, false), 0), ElementsAre(Rows{0, 1}));
}

TEST(BatchRowsTest, DropsPartialLastBatchOnRequest) {
  EXPECT_THAT(Elements(*BatchRows(AllRows(5), 2, true), 0), ElementsAre(Rows{0, 1}, Rows{2, 3}));
  EXPECT_THAT(Elements(*BatchRows(AllRows(2), 5, true), 0), IsEmpty());
}

TEST(RepeatRowsTest, NumbersEpochsAcrossPasses) {
  const auto shuffled = ShuffleRows(AllRows(20), 1);
  Rows expected = Flat(*shuffled, 6);
  for (int64_t row : Flat(*shuffled, 7)) expected.push_back(row);
  // With two epochs per pass, pass 3 consists of epochs 6 and 7.
  EXPECT_EQ(Flat(*RepeatRows(ShuffleRows(AllRows(20), 1), 2), 3), expected);
  EXPECT_EQ(Flat(*RepeatRows(ShuffleRows(AllRows(20), 1), -1), 6, /*limit=*/40), expected);
}

TEST(RepeatRowsTest, BatchesAfterRepeatSpanEpochs) {
  EXPECT_THAT(Elements(*BatchRows(RepeatRows(AllRows(3), 2), 2, false), 0),
              ElementsAre(Rows{0, 1}, Rows{2, 0}, Rows{1, 2}));
}

TEST(RepeatRowsTest, EndsIfNothingIsRepeated) {
  EXPECT_THAT(Flat(*RepeatRows(AllRows(0), -1), 0), IsEmpty());
  EXPECT_THAT(Flat(*RepeatRows(AllRows(0), 3), 0), IsEmpty());
  EXPECT_THAT(Flat(*RepeatRows(AllRows(3), 0), 0), IsEmpty());
}

TEST(TakeRowsTest, StopsEarlyAndStartsOver) {
  const auto stream = TakeRows(RepeatRows(AllRows(3), -1), 5);
  EXPECT_THAT(Flat(*stream, 0), ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(Flat(*stream, 1), ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(Flat(*TakeRows(AllRows(2), 5), 0), ElementsAre(0, 1));
}

}  // namespace
}  // namespace mirrorflow
