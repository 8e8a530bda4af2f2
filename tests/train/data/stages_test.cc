// SPDX-License-Identifier: Apache-2.0
//
// Tests the dataset stages that read rows, one at a time and combined in pipelines.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "train/data/dataset.h"
#include "train/data/split_mix.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using Ints = std::vector<int32_t>;

Row Number(int32_t n) { return {Tensor::Scalar<int32_t>(n)}; }

int32_t NumberOf(const Row& row) { return row[0].scalar<int32_t>(); }

// Returns the rows 0 to n - 1, with random access.
Dataset Range(int n) {
  Ints values(n);
  for (int i = 0; i < n; ++i) values[i] = i;
  return Dataset::FromTensors({Tensor::Vector<int32_t>(values)});
}

// Returns the same rows from a generator, which has no random access.
Dataset Generated(int n) {
  return Dataset::FromGenerator([n](int64_t) {
    return [n, i = 0](Row* row) mutable -> absl::StatusOr<bool> {
      if (i == n) return false;
      *row = Number(i++);
      return true;
    };
  });
}

absl::StatusOr<std::vector<Ints>> TryBatches(const Dataset& dataset, int64_t epoch = 0,
                                             const BatchShard& shard = {}, int limit = 1000) {
  std::vector<Ints> all;
  const std::unique_ptr<BatchSource> source = dataset.MakeIterator(epoch, shard);
  for (SourceBatch batch; static_cast<int>(all.size()) < limit;) {
    MF_ASSIGN_OR_RETURN(const bool more, source->Next(&batch));
    if (!more) break;
    const auto values = batch.components[0].flat<int32_t>();
    all.emplace_back(values.begin(), values.end());
  }
  return all;
}

std::vector<Ints> Batches(const Dataset& dataset, int64_t epoch = 0, int limit = 1000) {
  absl::StatusOr<std::vector<Ints>> all = TryBatches(dataset, epoch, {}, limit);
  EXPECT_TRUE(all.ok()) << all.status();
  return all.ok() ? *std::move(all) : std::vector<Ints>{};
}

// Returns the values of all batches, concatenated.
Ints Values(const Dataset& dataset, int64_t epoch = 0, int limit = 1000) {
  Ints flat;
  for (const Ints& batch : Batches(dataset, epoch, limit)) {
    flat.insert(flat.end(), batch.begin(), batch.end());
  }
  return flat;
}

absl::Status ErrorOf(const Dataset& dataset) { return TryBatches(dataset).status(); }

absl::Status Square(Row* row) {
  *row = Number(NumberOf(*row) * NumberOf(*row));
  return absl::OkStatus();
}

absl::StatusOr<bool> IsEven(const Row& row) { return NumberOf(row) % 2 == 0; }

TEST(MapTest, AppliesToEachRowInOrderOnAnyNumberOfThreads) {
  for (const Dataset& source : {Range(100), Generated(100)}) {
    for (const int threads : {1, 2, 5}) {
      const Ints got = Values(source.Map(Square, {.num_parallel_calls = threads}).Batch(7));
      ASSERT_EQ(got.size(), 100u);
      for (int i = 0; i < 100; ++i) EXPECT_EQ(got[i], i * i);
    }
  }
}

TEST(MapTest, ThreadsRunConcurrently) {
  std::mutex mu;
  std::set<std::thread::id> threads;
  std::atomic<int> inside = 0;
  const Dataset mapped = Range(64).Map(
      [&](Row* row) {
        // Row 0, which determines the shapes, is read alone. The next row waits until another one
        // is being read.
        ++inside;
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (NumberOf(*row) > 0 && inside < 3 && std::chrono::steady_clock::now() < end)
          std::this_thread::yield();
        std::lock_guard<std::mutex> lock(mu);
        threads.insert(std::this_thread::get_id());
        return absl::OkStatus();
      },
      {.num_parallel_calls = 3});
  Values(mapped.Batch(64));
  EXPECT_GE(threads.size(), 2u);
}

TEST(MapTest, RandomChangesDependOnlyOnPassAndRow) {
  const auto noisy = [](const Dataset& source, int threads) {
    return source.Map(
        [](const RowId& id, Row* row) {
          SplitMix64 random(17 + id.row, id.epoch);
          *row = Number(NumberOf(*row) * 1000 + static_cast<int32_t>(random.Below(1000)));
          return absl::OkStatus();
        },
        {.num_parallel_calls = threads});
  };
  const Ints first = Values(noisy(Range(50), 1).Batch(50));
  EXPECT_NE(Values(noisy(Range(50), 1).Batch(50), 1), first)
      << "each pass must have different changes";
  EXPECT_EQ(Values(noisy(Range(50), 3).Batch(50)), first);
  EXPECT_EQ(Values(noisy(Generated(50), 2).Batch(8)), first);
  EXPECT_EQ(Values(noisy(Range(50).Filter([](const Row&) { return true; }), 1).Batch(8)), first);
  // Rows get the same changes in any order.
  Ints shuffled = Values(noisy(Range(50).Shuffle(3), 2).Batch(8));
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, first);
  // Rows get the same changes on two workers.
  for (int rank = 0; rank < 2; ++rank) {
    const auto shard = TryBatches(noisy(Range(50), 2).Batch(50), 0, {rank, 1, 2});
    ASSERT_TRUE(shard.ok()) << shard.status();
    EXPECT_EQ((*shard)[0], Ints(first.begin() + 25 * rank, first.begin() + 25 * (rank + 1)));
  }
}

TEST(MapTest, WorkersReadOnlyTheirRowsWithRandomAccess) {
  std::atomic<int> reads = 0;
  const Dataset counted = Range(100).Shuffle(1).Map([&](Row*) {
    ++reads;
    return absl::OkStatus();
  });
  ASSERT_TRUE(TryBatches(counted.Batch(10).Prefetch(0), 0, {1, 1, 5}).ok());
  EXPECT_EQ(reads, 20);
  reads = 0;
  Values(counted.Batch(10).Skip(8).Prefetch(0));
  EXPECT_EQ(reads, 20) << "skipped batches must not be read";
}

TEST(MapTest, ErrorNamesTheRow) {
  const auto fails_at_5 = [](Row* row) {
    return NumberOf(*row) == 5 ? absl::DataLossError("broken") : absl::OkStatus();
  };
  for (const int threads : {1, 4}) {
    const absl::Status status =
        ErrorOf(Range(20).Map(fails_at_5, {.num_parallel_calls = threads}).Batch(10));
    EXPECT_THAT(status, IsError(absl::StatusCode::kDataLoss, "Map()", "row 5", "broken"));
  }
}

TEST(MapTest, ErrorOfFirstRowIsReturnedEvenIfLaterRowFailsEarlier) {
  std::atomic<bool> later_failed = false;
  const Dataset fails = Range(8).Map(
      [&](Row* row) {
        if (NumberOf(*row) == 4) later_failed = true;
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (NumberOf(*row) == 3 && !later_failed && std::chrono::steady_clock::now() < end) {
          std::this_thread::yield();
        }
        return NumberOf(*row) == 3 || NumberOf(*row) == 4 ? absl::DataLossError("broken")
                                                          : absl::OkStatus();
      },
      {.num_parallel_calls = 2});
  EXPECT_THAT(ErrorOf(fails.Batch(8)),
              IsError(absl::StatusCode::kDataLoss, "Map()", "row 3", "broken"));
}

TEST(MapTest, RowsOfABatchMustHaveTheSameShape) {
  const Dataset ragged = Range(4).Map([](Row* row) {
    const int32_t n = NumberOf(*row);
    *row = {*Tensor::Allocate(DT_FLOAT, {n == 2 ? 3 : 2})};
    return absl::OkStatus();
  });
  EXPECT_THAT(ErrorOf(ragged.Batch(4)),
              IsError(absl::StatusCode::kInvalidArgument, "row 2, component 0", "expected float[2]",
                      "got float[3]", "PaddedBatch"));
  const Dataset odd = Range(4).Map([](Row* row) {
    if (NumberOf(*row) == 1) row->push_back((*row)[0]);
    return absl::OkStatus();
  });
  EXPECT_THAT(ErrorOf(odd.Batch(4)),
              IsError(absl::StatusCode::kInvalidArgument, "expected 1 components"));
}

// A batch or window has one more dimension than its rows, which exceeds the maximum rank here.
TEST(MapTest, StackingRowsOfTheMaximumRankIsAnError) {
  const Dataset rows = Range(4).Map([](Row* row) {
    row->push_back(*Tensor::Allocate(DT_FLOAT, {1, 1, 1, 1, 1, 1, 1, 2}));
    return absl::OkStatus();
  });
  for (const Dataset& stacked : {rows, rows.Batch(2), rows.Window(2)}) {
    const absl::Status error = ErrorOf(stacked);
    EXPECT_THAT(error,
                IsError(absl::StatusCode::kInvalidArgument, "component 1", "[1,1,1,1,1,1,1,2]"));
  }
}

TEST(FilterTest, KeepsRowsInOrder) {
  for (const Dataset& source : {Range(10), Generated(10)}) {
    EXPECT_THAT(Values(source.Filter(IsEven)), ElementsAre(0, 2, 4, 6, 8));
    EXPECT_THAT(Values(source.Map(Square, {.num_parallel_calls = 3}).Filter(IsEven).Batch(2)),
                ElementsAre(0, 4, 16, 36, 64));
  }
  EXPECT_EQ(Range(10).Filter(IsEven).size(), std::nullopt);
}

TEST(FilterTest, AllWorkersSeeTheSameBatches) {
  const Dataset even = Range(40).Filter(IsEven).Batch(5);
  for (int rank = 0; rank < 2; ++rank) {
    const auto shard = TryBatches(even, 0, {rank, 1, 2});
    ASSERT_TRUE(shard.ok()) << shard.status();
    EXPECT_EQ(shard->size(), 4u);
    EXPECT_EQ((*shard)[0], rank == 0 ? Ints({0, 2, 4}) : Ints({6, 8}));
  }
}

TEST(ShuffleTest, UnknownNumberOfRowsRequiresABuffer) {
  EXPECT_THAT(ErrorOf(Generated(10).Shuffle(1)),
              IsError(absl::StatusCode::kInvalidArgument, "size is unknown", "buffer_size"));
  Ints values = Values(Generated(10).Shuffle(1, {.buffer_size = 4}));
  EXPECT_FALSE(std::is_sorted(values.begin(), values.end()));
  std::sort(values.begin(), values.end());
  EXPECT_EQ(values, Values(Range(10)));
}

TEST(ZipTest, JoinsComponentsAndEndsWithTheShortest) {
  const auto sum = [](Row* row) {
    *row = Number(NumberOf(*row) * 100 + (*row)[1].scalar<int32_t>());
    return absl::OkStatus();
  };
  const Dataset squares = Range(3).Map(Square);
  for (const Dataset& zipped :
       {Dataset::Zip({Range(5), squares}), Dataset::Zip({Generated(5), squares}),
        Dataset::Zip({Range(5).Shard(1, 0),
                      Range(3).Map(Square).Filter(IsEven).Take(0).Concatenate(squares)})}) {
    EXPECT_THAT(Values(zipped.Map(sum)), ElementsAre(0, 101, 204));
  }
  EXPECT_EQ(Dataset::Zip({Range(5), squares}).size(), 3);
  EXPECT_EQ(Dataset::Zip({Range(5).Repeat(), squares}).size(), 3);
  EXPECT_EQ(Dataset::Zip({Range(5), Generated(3)}).size(), std::nullopt);
  // Zipped random-access datasets can still be shuffled and skipped by row number.
  EXPECT_EQ(Values(Dataset::Zip({Range(5), Range(9)}).Map(sum).Shuffle(1).Batch(2).Skip(1)).size(),
            3u);
}

TEST(ConcatenateTest, RowsOfTheSecondDatasetFollowTheFirst) {
  for (const Dataset& first : {Range(2), Generated(2), Range(4).Filter(IsEven).Map([](Row* row) {
                                 *row = Number(NumberOf(*row) / 2);
                                 return absl::OkStatus();
                               })}) {
    EXPECT_THAT(Values(first.Concatenate(Range(3)).Concatenate(Range(1))),
                ElementsAre(0, 1, 0, 1, 2, 0));
    EXPECT_THAT(Values(first.Concatenate(Range(3)).Skip(3)), ElementsAre(1, 2));
  }
  EXPECT_EQ(Range(2).Concatenate(Range(3)).size(), 5);
  EXPECT_THAT(ErrorOf(Range(2).Repeat().Concatenate(Range(3))),
              IsError(absl::StatusCode::kInvalidArgument, "endless"));
}

TEST(WindowTest, StacksRowsOfEachWindow) {
  const auto windows = [](const Dataset& d, int64_t size, WindowOptions options = {}) {
    return Batches(d.Window(size, options));
  };
  for (const Dataset& source : {Range(7), Generated(7)}) {
    EXPECT_THAT(windows(source, 3, {.shift = 2}),
                ElementsAre(Ints{0, 1, 2}, Ints{2, 3, 4}, Ints{4, 5, 6}));
    EXPECT_THAT(windows(source, 2, {.shift = 3, .stride = 2}), ElementsAre(Ints{0, 2}, Ints{3, 5}));
    EXPECT_THAT(windows(source, 2, {.shift = 4}), ElementsAre(Ints{0, 1}, Ints{4, 5}));
    EXPECT_TRUE(windows(source, 8).empty());
  }
  EXPECT_EQ(Range(7).Window(3, {.shift = 2}).size(), 3);
  EXPECT_EQ(Range(7).Window(8).size(), 0);
  const Dataset two = Range(6).Window(2).Batch(5);
  const auto source = two.MakeIterator();
  SourceBatch batch;
  ASSERT_TRUE(source->Next(&batch).ok());
  EXPECT_EQ(batch.components[0].shape(), Shape({5, 2}));
}

// The example is from tf.data's documentation.
TEST(InterleaveTest, TakesBlocksInTurnLikeTfData) {
  const auto six_times = [](const Row& row) -> absl::StatusOr<Dataset> {
    return Dataset::FromTensors({Tensor::Vector<int32_t>(Ints(6, NumberOf(row)))});
  };
  const Dataset numbers = Range(6).Skip(1);
  EXPECT_THAT(Values(numbers.Interleave(six_times, {.cycle_length = 2, .block_length = 4})),
              ElementsAre(1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4, 5,
                          5, 5, 5, 5, 5));
  EXPECT_THAT(Values(Range(3).Interleave(
                  [](const Row& row) -> absl::StatusOr<Dataset> { return Range(NumberOf(row)); },
                  {.cycle_length = 5})),
              ElementsAre(0, 0, 1));
  const auto fails = [](const Row&) -> absl::StatusOr<Dataset> {
    return absl::NotFoundError("no such file");
  };
  EXPECT_THAT(ErrorOf(numbers.Interleave(fails)),
              IsError(absl::StatusCode::kNotFound, "no such file"));
}

TEST(CacheTest, ReadsEachRowOnce) {
  std::atomic<int> reads = 0;
  const auto counted = [&](Row*) {
    ++reads;
    return absl::OkStatus();
  };
  const Dataset cached = Generated(10).Map(counted).Cache();
  const Dataset shuffled = cached.Shuffle(1, {.buffer_size = 10}).Batch(4).Prefetch(0);
  const Ints first = Values(shuffled, 0), second = Values(shuffled, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(Values(cached.Repeat(2).Prefetch(0)).size(), 20u);
  EXPECT_EQ(reads, 10);
  EXPECT_THAT(Values(cached.Skip(7)), ElementsAre(7, 8, 9));
}

TEST(CacheTest, PassThatEndsEarlyIsNotKept) {
  std::atomic<int> reads = 0;
  const Dataset cached = Range(10)
                             .Map([&](Row*) {
                               ++reads;
                               return absl::OkStatus();
                             })
                             .Cache()
                             .Prefetch(0);
  EXPECT_THAT(Values(cached.Take(3)), ElementsAre(0, 1, 2));
  EXPECT_EQ(Values(cached.Skip(5)).size(), 5u) << "a pass that skips rows";
  EXPECT_EQ(reads, 3 + 10);
  EXPECT_EQ(Values(cached).size(), 10u);
  EXPECT_EQ(reads, 3 + 10) << "the pass that skipped rows must have read all of them";
}

// A Map() after the cache is not cached, so its changes differ in each pass.
TEST(CacheTest, MapAfterTheCacheSeesThePassNumber) {
  const Dataset dataset = Range(3).Cache().Map([](const RowId& id, Row* row) {
    *row = Number(static_cast<int32_t>(100 * id.epoch) + NumberOf(*row));
    return absl::OkStatus();
  });
  EXPECT_THAT(Values(dataset, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(Values(dataset, 2), ElementsAre(200, 201, 202));
}

TEST(IgnoreErrorsTest, SkipsBadRowsUpToTheLimit) {
  const auto third_fails = [](Row* row) {
    return NumberOf(*row) % 3 == 2 ? absl::DataLossError("bad") : absl::OkStatus();
  };
  for (const int threads : {1, 3}) {
    const Dataset bad = Range(10).Map(third_fails, {.num_parallel_calls = threads});
    testing::internal::CaptureStderr();
    EXPECT_THAT(Values(bad.IgnoreErrors(3)), ElementsAre(0, 1, 3, 4, 6, 7, 9));
    EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("skipped 3 "));
    EXPECT_THAT(Values(bad.IgnoreErrors(3).Skip(3).Take(2)), ElementsAre(4, 6));
    const absl::Status status = ErrorOf(bad.IgnoreErrors(2));
    EXPECT_THAT(status, IsError(absl::StatusCode::kDataLoss, "more than 2", "row 8", "bad"));
  }
  const Dataset fatal = Range(3).Map([](Row*) { return absl::UnavailableError("gone"); });
  EXPECT_THAT(ErrorOf(fatal.IgnoreErrors(100)),
              IsError(absl::StatusCode::kUnavailable, "row 0", "gone"));
}

TEST(IgnoreErrorsTest, BadRecordsFromASourceCount) {
  const Dataset source = Dataset::FromGenerator([](int64_t) {
    return [i = 0](Row* row) mutable -> absl::StatusOr<bool> {
      if (i == 5) return false;
      if (i++ == 1) return absl::DataLossError("record 1");
      *row = Number(i - 1);
      return true;
    };
  });
  EXPECT_THAT(Values(source.IgnoreErrors(1)), ElementsAre(0, 2, 3, 4));
  // Later rows keep their row numbers, which random changes depend on.
  const auto number = [](const RowId& id, Row* row) {
    *row = Number(static_cast<int32_t>(id.row));
    return absl::OkStatus();
  };
  EXPECT_THAT(Values(source.IgnoreErrors(1).Map(number)), ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(ErrorOf(source), IsError(absl::StatusCode::kDataLoss, "row 1: record 1"));
}

TEST(PaddedBatchTest, PadsToTheLongestOrToTheGivenShape) {
  // Row i is the vector of i copies of i.
  const Dataset ragged = Range(4).Map([](Row* row) {
    *row = {Tensor::Vector<int32_t>(Ints(NumberOf(*row), NumberOf(*row)))};
    return absl::OkStatus();
  });
  EXPECT_THAT(Batches(ragged.PaddedBatch(2)), ElementsAre(Ints{0, 1}, Ints{2, 2, 0, 3, 3, 3}));
  EXPECT_THAT(Batches(ragged.PaddedBatch(
                  2, {.padded_shapes = {Shape({4})}, .padding_values = {Tensor::Scalar(-1)}})),
              ElementsAre(Ints{-1, -1, -1, -1, 1, -1, -1, -1}, Ints{2, 2, -1, -1, 3, 3, 3, -1}));
  EXPECT_THAT(ErrorOf(ragged.PaddedBatch(4, {.padded_shapes = {Shape({2})}})),
              IsError(absl::StatusCode::kInvalidArgument, "expected at most [2]", "got [3]"));
  // All workers pad a batch to the same shape, although their rows differ.
  const auto first = TryBatches(ragged.PaddedBatch(4), 0, {0, 1, 2});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(*first, ElementsAre(Ints{0, 0, 0, 1, 0, 0}));
}

TEST(PaddedBatchTest, PadsEveryDimension) {
  const Dataset matrices = Range(2).Map([](Row* row) {
    *row = {NumberOf(*row) == 0 ? Tensor::Of<int32_t>({1, 3}, {1, 2, 3})
                                : Tensor::Of<int32_t>({2, 2}, {4, 5, 6, 7})};
    return absl::OkStatus();
  });
  EXPECT_THAT(Values(matrices.PaddedBatch(2)), ElementsAre(1, 2, 3, 0, 0, 0, 4, 5, 0, 6, 7, 0));
}

TEST(SourceTest, EachPassOpensTheSourceAgain) {
  const Dataset epochs = Dataset::FromGenerator(
      [](int64_t epoch) {
        return [epoch, i = 0](Row* row) mutable -> absl::StatusOr<bool> {
          *row = Number(static_cast<int32_t>(10 * epoch) + i);
          return i++ < 2;
        };
      },
      /*rows=*/2);
  EXPECT_THAT(Values(epochs.Repeat(3).Batch(4)), ElementsAre(0, 1, 10, 11, 20, 21));
  EXPECT_EQ(epochs.Batch(2).size(), 1);
  EXPECT_THAT(Values(epochs.Shuffle(1).Batch(2), 4).size(), 2u);
}

TEST(SourceTest, SourceIsNotReadAfterItsEnd) {
  const Dataset source = Dataset::FromGenerator([](int64_t) {
    return [i = 0](Row* row) mutable -> absl::StatusOr<bool> {
      *row = Number(i);
      return i++ != 3;  // would yield more rows if it were called again
    };
  });
  EXPECT_THAT(Batches(source.Batch(2)), ElementsAre(Ints{0, 1}, Ints{2}));
  EXPECT_THAT(Batches(source.Skip(5).Batch(2)), ElementsAre());
  EXPECT_THAT(Values(source.Repeat(2)), ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(SourceTest, RowWithoutComponentsIsAnError) {
  const Dataset source = Dataset::FromGenerator([](int64_t) {
    return [i = 0](Row* row) mutable -> absl::StatusOr<bool> {
      if (i++ < 2) *row = Number(i);
      return true;
    };
  });
  EXPECT_THAT(ErrorOf(source.Batch(4)),
              IsError(absl::StatusCode::kInvalidArgument, "row 2:", "components", "got none"));
}

TEST(SourceTest, SourceThatCannotBeOpenedIsAnError) {
  const Dataset none =
      Dataset::FromSource([](int64_t) -> absl::StatusOr<std::unique_ptr<RowSource>> {
        return absl::NotFoundError("rows.csv: no such file");
      });
  EXPECT_EQ(ErrorOf(none), absl::NotFoundError("rows.csv: no such file"));
  EXPECT_THAT(ErrorOf(Dataset::FromSource(nullptr)),
              IsError(absl::StatusCode::kInvalidArgument, "FromSource()", "null"));
  EXPECT_THAT(ErrorOf(Dataset::FromGenerator([](int64_t) { return Generator(); })),
              IsError(absl::StatusCode::kInvalidArgument, "FromGenerator()", "null"));
}

TEST(SourceTest, RandomAccessReadsOnlyNeededRows) {
  std::atomic<int> reads = 0;
  const Dataset dataset = Dataset::FromRandomAccess(1'000'000'000, [&](int64_t i, Row* row) {
    ++reads;
    *row = Number(static_cast<int32_t>(i));
    return absl::OkStatus();
  });
  EXPECT_THAT(Values(dataset.Batch(3).Skip(300'000'000).Take(1).Prefetch(0)),
              ElementsAre(900'000'000, 900'000'001, 900'000'002));
  EXPECT_EQ(reads, 3);
}

TEST(StagesTest, OptionsOutOfRangeAreErrors) {
  const Dataset r = Range(4);
  const auto itself = [](Row*) { return absl::OkStatus(); };
  const auto open = [](const Row&) -> absl::StatusOr<Dataset> { return Range(1); };
  for (const Dataset& bad : {r.Map(itself, {.num_parallel_calls = 0}),
                             r.Batch(2).Map(itself),
                             r.Batch(2).Filter(IsEven),
                             r.Batch(2).Cache(),
                             r.Repeat().Cache(),
                             r.Window(0),
                             r.Window(2, {.shift = 0}),
                             r.Window(1, {.stride = -1}),
                             r.Interleave(open, {.cycle_length = 0}),
                             r.Interleave(open, {.block_length = 0}),
                             r.Shard(0, 0),
                             r.Shard(2, 2),
                             r.Shard(2, -1),
                             r.Shuffle(1, {.buffer_size = -1}),
                             r.IgnoreErrors(-1),
                             r.Batch(2).IgnoreErrors(1),
                             r.Batch(2).Concatenate(r),
                             r.Concatenate(r.Batch(2)),
                             r.PaddedBatch(0),
                             Dataset::Zip({}),
                             Dataset::Zip({r, r.Batch(1)}),
                             Dataset::FromRandomAccess(-1, nullptr)}) {
    EXPECT_THAT(bad.status(), IsError(absl::StatusCode::kInvalidArgument, "dataset:", "got"));
    // Later stages keep the first error.
    EXPECT_EQ(ErrorOf(bad.Map(itself).Take(1)), bad.status());
  }
}

}  // namespace
}  // namespace mirrorflow
