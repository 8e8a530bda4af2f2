// SPDX-License-Identifier: Apache-2.0
#include "train/data/dataset.h"

#include <cstdlib>
#include <limits>
#include <new>
#include <set>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace {
thread_local int64_t allocations = 0;
}  // namespace

// These operators count allocations. When GCC 12 inlines them, it sees only one half of each
// new/delete pair and warns.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(size_t size) {
  ++allocations;
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Tensor Iota(int n) {
  std::vector<int32_t> values(n);
  for (int i = 0; i < n; ++i) values[i] = i;
  return Tensor::Vector<int32_t>(values);
}

// Returns `n` rows; row i is (10 i, 10 i + 1) with label i.
Dataset Pairs(int n) {
  std::vector<float> features;
  for (int i = 0; i < n; ++i) {
    features.push_back(10 * i);
    features.push_back(10 * i + 1);
  }
  return Dataset::FromTensors({Tensor::Of<float>({n, 2}, features), Iota(n)});
}

using Labels = std::vector<int32_t>;

// Returns the last component of each batch.
std::vector<Labels> Batches(BatchSource& source, int limit = 1000) {
  std::vector<Labels> all;
  SourceBatch batch;
  while (static_cast<int>(all.size()) < limit) {
    const absl::StatusOr<bool> more = source.Next(&batch);
    EXPECT_TRUE(more.ok()) << more.status();
    if (!more.ok() || !*more) break;
    const auto labels = batch.components.back().flat<int32_t>();
    all.emplace_back(labels.begin(), labels.end());
  }
  return all;
}

std::vector<Labels> Batches(const Dataset& dataset, int64_t epoch = 0, int limit = 1000) {
  return Batches(*dataset.MakeIterator(epoch), limit);
}

TEST(DatasetTest, KeepsPartialLastBatchUnlessDropRemainder) {
  EXPECT_THAT(Batches(Pairs(5).Batch(2)), ElementsAre(Labels{0, 1}, Labels{2, 3}, Labels{4}));
  EXPECT_THAT(Batches(Pairs(5).Batch(2, {.drop_remainder = true})),
              ElementsAre(Labels{0, 1}, Labels{2, 3}));
}

TEST(DatasetTest, WithoutBatchIteratorYieldsSingleRows) {
  EXPECT_THAT(Batches(Pairs(2)), ElementsAre(Labels{0}, Labels{1}));
}

TEST(DatasetTest, BatchHasTheSameRowsOfEveryComponent) {
  const auto source = Pairs(9).Shuffle(3).Batch(4).MakeIterator();
  SourceBatch batch;
  int rows = 0;
  while (*source->Next(&batch)) {
    ASSERT_EQ(batch.components.size(), 2u);
    const int64_t n = batch.components[1].shape().dim(0);
    ASSERT_EQ(batch.components[0].shape(), Shape({n, 2}));
    for (int64_t i = 0; i < n; ++i, ++rows) {
      const int label = batch.components[1].flat<int32_t>()[i];
      EXPECT_EQ(batch.components[0].flat<float>()[2 * i], 10 * label);
      EXPECT_EQ(batch.components[0].flat<float>()[2 * i + 1], 10 * label + 1);
    }
  }
  EXPECT_EQ(rows, 9);
}

TEST(DatasetTest, IteratorPerEpochMatchesRepeat) {
  const Dataset epoch = Pairs(10).Shuffle(1).Batch(4);
  std::vector<Labels> expected;
  for (int e = 0; e < 3; ++e) {
    for (const Labels& batch : Batches(epoch, e)) expected.push_back(batch);
  }
  EXPECT_NE(expected[0], expected[3]);
  EXPECT_EQ(Batches(epoch.Repeat(3)), expected);
  EXPECT_EQ(Batches(epoch.Repeat(), 0, /*limit=*/9), expected);
}

TEST(DatasetTest, StagesApplyInWrittenOrder) {
  EXPECT_THAT(Batches(Pairs(4).Take(2).Repeat(2).Batch(3)),
              ElementsAre(Labels{0, 1, 0}, Labels{1}));
  EXPECT_THAT(Batches(Pairs(4).Batch(3).Repeat(2).Take(3)),
              ElementsAre(Labels{0, 1, 2}, Labels{3}, Labels{0, 1, 2}));
}

TEST(DatasetTest, StagesDoNotChangeTheirInput) {
  const Dataset rows = Pairs(4);
  const Dataset batches = rows.Batch(4);
  EXPECT_EQ(rows.size(), 4);
  EXPECT_EQ(batches.size(), 1);
  EXPECT_EQ(Batches(rows).size(), 4u);
}

TEST(DatasetTest, SizeIsTheNumberOfBatches) {
  const Dataset rows = Pairs(7);
  const Dataset cases[] = {rows,
                           rows.Shuffle(1),
                           rows.Batch(7),
                           rows.Batch(3),
                           rows.Batch(8),
                           rows.Batch(3, {.drop_remainder = true}),
                           rows.Batch(8, {.drop_remainder = true}),
                           rows.Batch(3).Repeat(3),
                           rows.Repeat(3).Batch(3),
                           rows.Take(2).Repeat(0),
                           rows.Batch(3).Take(2),
                           rows.Batch(3).Take(20),
                           rows.Repeat().Take(20).Batch(3),
                           rows.Repeat().Repeat(0),
                           rows.Take(0).Repeat(),
                           rows.Take(0).Batch(3).Prefetch(2)};
  for (const Dataset& dataset : cases) {
    ASSERT_TRUE(dataset.size().has_value()) << "case " << &dataset - cases;
    EXPECT_EQ(Batches(dataset).size(), static_cast<size_t>(*dataset.size()))
        << "case " << &dataset - cases;
  }
}

TEST(DatasetTest, SizeOfEndlessDatasetIsUnknown) {
  EXPECT_EQ(Pairs(3).Repeat().size(), std::nullopt);
  EXPECT_EQ(Pairs(3).Repeat().Batch(2).Repeat(4).size(), std::nullopt);
  EXPECT_EQ(Pairs(3).Repeat(std::numeric_limits<int64_t>::max()).size(),
            std::numeric_limits<int64_t>::max());
}

TEST(DatasetTest, BatchStaysValidWhileHeld) {
  for (const Dataset& dataset : {Pairs(100).Batch(3), Pairs(100).Batch(3).Prefetch(2)}) {
    const auto source = dataset.MakeIterator();
    std::vector<std::vector<Tensor>> held;
    for (SourceBatch batch; *source->Next(&batch);) held.push_back(batch.components);
    int label = 0;
    for (const std::vector<Tensor>& batch : held) {
      for (int32_t x : batch[1].flat<int32_t>()) EXPECT_EQ(x, label++);
    }
    EXPECT_EQ(label, 100);
  }
}

TEST(DatasetTest, ReleasedBuffersAreReused) {
  const auto source = Pairs(1000).Shuffle(1).Batch(3).MakeIterator();
  std::set<const std::byte*> buffers;
  std::vector<Tensor> previous;
  for (SourceBatch batch; *source->Next(&batch); previous = batch.components) {
    buffers.insert(batch.components[0].raw());
  }
  // `batch` and `previous` each hold a buffer while a third is filled.
  EXPECT_LE(buffers.size(), 3u);
}

TEST(DatasetTest, WarmIteratorDoesNotAllocate) {
  const auto source = Pairs(64).Shuffle(1).Batch(5).Repeat().MakeIterator();
  SourceBatch batch;
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(*source->Next(&batch));
  const int64_t before = allocations;
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(*source->Next(&batch));
  EXPECT_EQ(allocations - before, 0);
}

TEST(DatasetTest, ReadingPrefetchedBatchDoesNotAllocate) {
  const auto source = Pairs(64).Shuffle(1).Batch(5).Repeat().Prefetch(2).MakeIterator();
  SourceBatch batch;
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(*source->Next(&batch));
  const int64_t before = allocations;
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(*source->Next(&batch));
  EXPECT_EQ(allocations - before, 0);
}

TEST(DatasetTest, PrefetchDoesNotChangeBatches) {
  const Dataset dataset = Pairs(50).Shuffle(1).Batch(7);
  EXPECT_EQ(Batches(dataset.Prefetch(3)), Batches(dataset));
  EXPECT_EQ(Batches(dataset.Prefetch(0)), Batches(dataset));
  EXPECT_EQ(Batches(dataset.Prefetch(2).Take(2)), Batches(dataset.Take(2)));
}

TEST(DatasetTest, ShardsOfAllWorkersFormWholeBatch) {
  // Three workers with 1, 0 and 2 replicas. The last batch has fewer rows than there are replicas.
  const BatchShard shards[] = {{0, 1, 3}, {1, 0, 3}, {1, 2, 3}};
  const Dataset dataset = Pairs(16).Shuffle(3).Batch(7);
  std::vector<std::unique_ptr<BatchSource>> parts;
  for (const BatchShard& shard : shards) parts.push_back(dataset.MakeIterator(0, shard));
  for (const Labels& whole : Batches(dataset)) {
    Labels together;
    std::vector<int64_t> rows;
    for (const auto& part : parts) {
      SourceBatch batch;
      ASSERT_TRUE(*part->Next(&batch));
      EXPECT_EQ(batch.global_rows, static_cast<int64_t>(whole.size()));
      const auto labels = batch.components.back().flat<int32_t>();
      together.insert(together.end(), labels.begin(), labels.end());
      rows.push_back(batch.components[0].shape().dim(0));
    }
    EXPECT_EQ(together, whole);
    EXPECT_EQ(rows[1], 0);
    EXPECT_EQ(rows[0], (static_cast<int64_t>(whole.size()) + 2) / 3);
  }
}

TEST(DatasetTest, EmptyRowsAreCounted) {
  const Dataset dataset = Dataset::FromTensors({*Tensor::Allocate(DT_FLOAT, {5, 0}), Iota(5)});
  const auto source = dataset.Batch(4).MakeIterator();
  SourceBatch batch;
  ASSERT_TRUE(*source->Next(&batch));
  EXPECT_EQ(batch.components[0].shape(), Shape({4, 0}));
  EXPECT_EQ(batch.components[1].shape(), Shape({4}));
}

TEST(DatasetTest, EmptyDatasetHasNoBatches) {
  EXPECT_THAT(Batches(Pairs(0).Shuffle(1).Batch(4).Repeat().Prefetch(2)), IsEmpty());
}

TEST(DatasetTest, IteratorOutlivesItsDataset) {
  auto dataset = std::make_unique<Dataset>(Pairs(4).Batch(2));
  const auto source = dataset->MakeIterator();
  dataset.reset();
  EXPECT_THAT(Batches(*source), ElementsAre(Labels{0, 1}, Labels{2, 3}));
}

TEST(DatasetTest, BatchLargerThanDatasetHoldsAllRows) {
  for (const int64_t rows : {int64_t{4}, int64_t{1} << 40, int64_t{1} << 62}) {
    const Dataset dataset = Pairs(3).Batch(rows);
    EXPECT_EQ(dataset.size(), 1);
    const auto source = dataset.MakeIterator();
    SourceBatch batch;
    ASSERT_TRUE(*source->Next(&batch)) << rows;
    EXPECT_EQ(batch.components[0].shape().dim(0), 3);
    EXPECT_FALSE(*source->Next(&batch)) << rows;
  }
}

TEST(DatasetTest, ErrorPersistsAndIsReturnedByStatusAndNext) {
  const struct {
    Dataset dataset;
    const char* place;
    const char* token = "";
    absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  } cases[] = {
      {Dataset(), "dataset:", "initialized", absl::StatusCode::kFailedPrecondition},
      {Dataset::FromTensors({}), "one tensor", "got none"},
      {Dataset::FromTensors({Tensor()}), "component 0 has no rows"},
      {Dataset::FromTensors({Iota(3), Tensor::Scalar<float>(1)}), "component 1",
       "got a scalar float"},
      {Dataset::FromTensors({Iota(3), Iota(4)}), "in component 0 [3]", "got 4 in component 1"},
      {Pairs(3).Batch(0), "Batch() size", "got 0"},
      {Pairs(3).Batch(-2), "got -2"},
      {Pairs(3).Batch(2).Batch(2), "Batch() after Batch()"},
      {Pairs(3).Repeat(-2), "Repeat() count", "got -2"},
      {Pairs(3).Take(-1), "Take() count", "got -1"},
      {Pairs(3).Prefetch(-1), "0 to 65536 batches", "got -1"},
      {Pairs(3).Prefetch(1'000'000'000), "got 1000000000"},
      {Pairs(3).Repeat().Shuffle(1), "finite dataset"},
      {Pairs(3).Repeat().Batch(int64_t{1} << 60), "Batch() has more rows"},
      {Pairs(3).Repeat(int64_t{1} << 58).Batch(int64_t{1} << 50), "got 1125899906842624"},
      {Pairs(3).Repeat(int64_t{1} << 62).Shuffle(1), "Shuffle() has more elements"},
      {Pairs(3).Batch(0).Batch(-1).Take(-1).Prefetch(2), "Batch() size out of range"},
  };
  for (const auto& [dataset, place, token, code] : cases) {
    EXPECT_THAT(dataset.status(), IsError(code, place, token));
    EXPECT_EQ(dataset.size(), std::nullopt);
    const auto source = dataset.MakeIterator();
    SourceBatch batch;
    EXPECT_EQ(source->Next(&batch).status(), dataset.status());
  }
}

}  // namespace
}  // namespace mirrorflow
