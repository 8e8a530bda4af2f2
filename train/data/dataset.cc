// SPDX-License-Identifier: Apache-2.0
#include "train/data/dataset.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/cgroup.h"
#include "framework/core/status.h"
#include "framework/runtime/usable_cpus.h"
#include "train/data/batch_assembler.h"
#include "train/data/combined_rows.h"
#include "train/data/file_cache.h"
#include "train/data/loaded_rows.h"
#include "train/data/prefetch.h"
#include "train/data/row_readers.h"
#include "train/data/row_stream.h"
#include "train/data/value_streams.h"

namespace mirrorflow {
namespace {

class FailedSource final : public BatchSource {
 public:
  explicit FailedSource(absl::Status status) : status_(std::move(status)) {}
  absl::StatusOr<bool> Next(SourceBatch* batch) override {
    batch->components.clear();
    return status_;
  }

 private:
  const absl::Status status_;
};

absl::Status CheckComponents(const std::vector<Tensor>& components) {
  if (components.empty()) {
    return absl::InvalidArgumentError(
        "dataset: no components; expected at least one tensor, got none");
  }
  for (size_t i = 0; i < components.size(); ++i) {
    const Tensor& t = components[i];
    if (!t.has_value() || t.shape().rank() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dataset: component ", i, " has no rows; expected a tensor of rank 1 or more, got ",
          t.has_value() ? absl::StrCat("a scalar ", DataTypeName(t.dtype())) : "no value"));
    }
    if (t.shape().dim(0) != components[0].shape().dim(0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dataset: components differ in number of rows; expected ", components[0].shape().dim(0),
          " as in component 0 ", components[0].shape().ToString(), ", got ", t.shape().dim(0),
          " in component ", i, " ", t.shape().ToString()));
    }
  }
  return absl::OkStatus();
}

std::string JoinFiles(const std::string& first, const std::string& second) {
  return absl::StrCat(first, first.empty() || second.empty() ? "" : ", ", second);
}

// The source of a generator.
class GeneratorSource final : public RowSource {
 public:
  explicit GeneratorSource(Generator next) : next_(std::move(next)) {}
  absl::StatusOr<bool> Next(Row* row) override {
    row->clear();
    return next_(row);
  }

 private:
  const Generator next_;
};

// The rows of a batch that come from the files of a worker.
int64_t RowsOf(const FileShare& share, int64_t rows) {
  const auto& [first_rank, num_ranks, world_size] = share.batch;
  return FirstRowOf(first_rank + num_ranks, rows, world_size) -
         FirstRowOf(first_rank, rows, world_size);
}

// A worker without a row in a batch would never read its files.
absl::Status CheckBatchOf(const FileShare& share, int64_t rows) {
  if (rows <= 0 || rows >= share.batch.world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Batch() of fewer rows than replicas; expected at "
                   "least ",
                   share.batch.world_size, " with AutoShardPolicy FILE, got ", rows));
}

// The longest row of the batch may be another worker's.
absl::Status CheckPaddingOf(const FileShare& share, const Padding& padding) {
  if (share.num_workers == 1 || padding.has_fixed_shapes()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "PaddedBatch() to the longest row; expected padded_shapes without unknown dimensions with "
      "AutoShardPolicy FILE, got others");
}

// Numbers rows differently on each worker, so that random changes keyed by them differ.
RowFunction WithNumbersOf(const FileShare& share, RowFunction function) {
  if (share.num_workers == 1) return function;
  return [share, function = std::move(function)](const RowId& id, Row* row) {
    return function({id.epoch, id.row * share.num_workers + share.worker}, row);
  };
}

}  // namespace

Dataset Dataset::FromTensors(std::vector<Tensor> components) {
  Dataset d;
  d.status_ = CheckComponents(components);
  if (!d.status_.ok()) return d;
  const int64_t rows = components[0].shape().dim(0);
  d.description_ = absl::StrCat("FromTensors(", rows, " x ", TypesOfRows(components), ")");
  d.reader_ = std::make_shared<TensorRows>(std::move(components));
  d.stream_ = [rows] { return AllRows(rows); };
  d.size_ = rows;
  d.in_order_ = true;
  return d;
}

Dataset Dataset::FromRandomAccess(int64_t rows, std::function<absl::Status(int64_t, Row*)> read) {
  Dataset d;
  d.status_ = absl::OkStatus();
  if (rows < 0 || read == nullptr) {
    return d.WithError(absl::StrCat("FromRandomAccess(): expected 0 or more rows and a function, ",
                                    "got ", rows, " and ", read == nullptr ? "none" : "one"));
  }
  d.description_ = absl::StrCat("FromRandomAccess(", rows, ")");
  d.reader_ = FunctionRows(std::move(read));
  d.stream_ = [rows] { return AllRows(rows); };
  d.size_ = rows;
  d.in_order_ = true;
  return d;
}

Dataset Dataset::FromSource(OpenSource open, std::optional<int64_t> rows) {
  Dataset d;
  d.status_ = absl::OkStatus();
  if (open == nullptr) return d.WithError("FromSource(): expected a function, got none");
  if (rows.value_or(0) < 0) {
    return d.WithError(absl::StrCat("rows out of range; expected 0 or more, got ", *rows));
  }
  d.description_ = absl::StrCat("FromSource(", rows ? absl::StrCat(*rows) : "", ")");
  d.reader_ = ValueRows();
  d.stream_ = [open = std::move(open)] { return SourceRows(open); };
  d.size_ = rows;
  return d;
}

Dataset Dataset::FromGenerator(std::function<Generator(int64_t epoch)> make,
                               std::optional<int64_t> rows) {
  return FromSource(
      [make = std::move(make)](int64_t epoch) -> absl::StatusOr<std::unique_ptr<RowSource>> {
        Generator generator = make ? make(epoch) : nullptr;
        if (generator == nullptr) {
          return absl::InvalidArgumentError(
              "dataset: FromGenerator(): expected a generator for the pass, got none");
        }
        return std::make_unique<GeneratorSource>(std::move(generator));
      },
      rows);
}

Dataset Dataset::Zip(std::vector<Dataset> datasets) {
  Dataset d;
  d.status_ = absl::OkStatus();
  if (datasets.empty()) return d.WithError("Zip(): expected at least one dataset, got none");
  d.description_ = absl::StrCat(
      "Zip(",
      absl::StrJoin(datasets, ", ",
                    [](std::string* out, const Dataset& input) { *out += input.description_; }),
      ")");
  for (Dataset& input : datasets) input = Dataset(input.Opened());  // a copy: input owns it
  std::optional<int64_t> size;
  d.is_endless_ = d.in_order_ = true;
  bool is_known = true;
  for (const Dataset& input : datasets) {
    if (!input.status_.ok()) return input;
    if (input.batched_) return d.WithError("Zip() after Batch(); expected rows, got batches");
    d.in_order_ = d.in_order_ && input.in_order();
    d.is_endless_ = d.is_endless_ && input.is_endless_;
    is_known = is_known && (input.size_ || input.is_endless_);
    if (input.size_) size = std::min(size.value_or(*input.size_), *input.size_);
    d.source_files_ = JoinFiles(d.source_files_, input.source_files_);
    d.num_threads_ = std::max(d.num_threads_, input.num_threads_);
  }
  d.size_ = is_known ? size : std::nullopt;
  if (!d.in_order_) {
    std::vector<MakeStream> inputs;
    for (const Dataset& input : datasets) inputs.push_back(input.Values());
    d.reader_ = ValueRows();
    d.stream_ = [inputs] {
      std::vector<std::unique_ptr<RowStream>> streams;
      for (const MakeStream& make : inputs) streams.push_back(make());
      return ZipRows(std::move(streams));
    };
    return d;
  }
  std::vector<RowReaderPtr> readers;
  std::vector<Tensor> tensors;
  for (const Dataset& input : datasets) {
    readers.push_back(input.reader_);
    if (input.reader_->tensors() == nullptr) continue;
    for (const Tensor& t : *input.reader_->tensors()) tensors.push_back(t.Rows(0, *size));
  }
  const bool all_tensors = std::all_of(readers.begin(), readers.end(), [](const RowReaderPtr& r) {
    return r->tensors() != nullptr;
  });
  if (all_tensors) {
    Dataset zipped = FromTensors(std::move(tensors));
    zipped.description_ = d.description_;
    zipped.source_files_ = d.source_files_;
    return zipped;
  }
  d.reader_ = ZippedRows(std::move(readers));
  d.stream_ = [rows = *size] { return AllRows(rows); };
  return d;
}

Dataset Dataset::Map(RowFunction function, const MapOptions& options) const {
  if (files_ != nullptr) {
    return Then([=](const Dataset& d, const FileShare& share) {
             return d.Map(WithNumbersOf(share, function), options);
           })
        .Named("Map()");
  }
  const int threads = options.num_parallel_calls;
  constexpr int kMaxThreads = 1024;
  if (threads != kAutotune && (threads < 1 || threads > kMaxThreads)) {
    return WithError(absl::StrCat("Map() num_parallel_calls out of range; expected 1 to ",
                                  kMaxThreads, " or kAutotune, got ", threads));
  }
  if (batched_) return WithError("Map() after Batch(); expected rows, got batches");
  if (!status_.ok()) return *this;
  Dataset d = *this;
  d.reader_ = MappedRows(reader_, std::move(function));
  d.num_threads_ = std::max<int>(num_threads_, threads == kAutotune ? NumUsableCpus() : threads);
  return d.Named("Map()");
}

Dataset Dataset::Filter(RowPredicate keep) const {
  if (files_ != nullptr)
    return Then([=](const Dataset& d) { return d.Filter(keep); }).Named("Filter()");
  return WithValues(
             "Filter()",
             [keep = std::move(keep)](std::unique_ptr<RowStream> input) {
               return FilterRows(std::move(input), keep);
             },
             std::nullopt)
      .Named("Filter()");
}

Dataset Dataset::Interleave(std::function<absl::StatusOr<Dataset>(const Row&)> open,
                            const InterleaveOptions& options) const {
  const std::string name =
      absl::StrCat("Interleave(", options.cycle_length, ", ", options.block_length, ")");
  if (files_ != nullptr)
    return Then([=](const Dataset& d) { return d.Interleave(open, options); }).Named(name);
  constexpr int64_t kMaxOpen = 1 << 16;
  if (options.cycle_length < 1 || options.cycle_length > kMaxOpen || options.block_length < 1) {
    return WithError(absl::StrCat("Interleave() out of range; expected a cycle_length of 1 to ",
                                  kMaxOpen, " and a block_length of at least 1, got ",
                                  options.cycle_length, " and ", options.block_length));
  }
  OpenRows open_rows =
      [open = std::move(open)](const Row& row) -> absl::StatusOr<std::unique_ptr<RowStream>> {
    MF_ASSIGN_OR_RETURN(const Dataset opened, open(row));
    const Dataset& dataset = opened.Opened();
    MF_RETURN_IF_ERROR(dataset.status_);
    if (dataset.batched_) {
      return absl::InvalidArgumentError(
          "dataset: Interleave() of a batched dataset; expected rows, got batches");
    }
    return dataset.Values()();
  };
  return WithValues(
             "Interleave()",
             [open_rows, options](std::unique_ptr<RowStream> input) {
               return InterleaveRows(std::move(input), open_rows, options.cycle_length,
                                     options.block_length);
             },
             std::nullopt)
      .Named(name);
}

Dataset Dataset::Concatenate(const Dataset& other) const {
  if (files_ || other.files_) return Opened().Concatenate(other.Opened());
  if (!status_.ok()) return *this;
  if (!other.status_.ok()) return other;
  if (batched_ || other.batched_) {
    return WithError("Concatenate() after Batch(); expected rows, got batches");
  }
  if (is_endless_)
    return WithError("Concatenate() to an endless dataset; expected one that ends, got Repeat()");
  Dataset d = Named(absl::StrCat("Concatenate(", other.description_, ")"));
  d.source_files_ = JoinFiles(source_files_, other.source_files_);
  d.num_threads_ = std::max(num_threads_, other.num_threads_);
  d.is_endless_ = other.is_endless_;
  d.size_ = size_ && other.size_ ? std::make_optional(*size_ + *other.size_) : std::nullopt;
  if (in_order() && other.in_order()) {
    d.reader_ = ConcatenatedRows({{reader_, *size_}, {other.reader_, *other.size_}});
    d.stream_ = [rows = *d.size_] { return AllRows(rows); };
    return d;
  }
  d.in_order_ = false;
  d.reader_ = ValueRows();
  d.stream_ = [first = Values(), second = other.Values()] {
    std::vector<std::unique_ptr<RowStream>> streams;
    streams.push_back(first());
    streams.push_back(second());
    return ConcatenateRows(std::move(streams));
  };
  return d;
}

Dataset Dataset::Window(int64_t size, const WindowOptions& options) const {
  const std::string name =
      absl::StrCat("Window(", size, ", ", options.shift, ", ", options.stride, ")");
  if (files_ != nullptr)
    return Then([=](const Dataset& d) { return d.Window(size, options); }).Named(name);
  constexpr int64_t kMax = int64_t{1} << 31;  // the span of a window does not overflow
  const auto is_in_range = [](int64_t n) { return n >= 1 && n <= kMax; };
  if (!is_in_range(size) || !is_in_range(options.shift) || !is_in_range(options.stride)) {
    return WithError(
        absl::StrCat("Window() out of range; expected a size, a shift and a stride of ", "1 to ",
                     kMax, ", got ", size, ", ", options.shift, " and ", options.stride));
  }
  const WindowRange range = {.size = size, .shift = options.shift, .stride = options.stride};
  std::optional<int64_t> windows;
  if (size_) windows = *size_ < range.span() ? 0 : (*size_ - range.span()) / range.shift + 1;
  if (in_order()) {
    Dataset d = *this;
    d.reader_ = WindowedRows(reader_, range);
    d.stream_ = [rows = *windows] { return AllRows(rows); };
    d.size_ = windows;
    return d.Named(name);
  }
  return WithValues(
             "Window()",
             [range](std::unique_ptr<RowStream> input) {
               return WindowRows(std::move(input), range);
             },
             windows)
      .Named(name);
}

Dataset Dataset::Cache() const {
  if (files_ != nullptr) return Then([](const Dataset& d) { return d.Cache(); });
  if (is_endless_)
    return WithError("Cache() of an endless dataset; expected one that ends, got Repeat()");
  return WithValues(
      "Cache()",
      [cache = CreateRowCache()](std::unique_ptr<RowStream> input) {
        return CacheRows(std::move(input), cache);
      },
      size_);
}

Dataset Dataset::Cache(const std::string& path) const {
  if (files_ != nullptr) {
    return Then([=](const Dataset& d, const FileShare& share) {
      const std::string of_share = absl::StrCat(".", share.worker, "-of-", share.num_workers);
      return d.Cache(absl::StrCat(path, share.num_workers > 1 ? of_share : ""));
    });
  }
  if (is_endless_)
    return WithError("Cache() of an endless dataset; expected one that ends, got Repeat()");
  return WithValues(
      "Cache()",
      [cache = CreateFileCache(path)](std::unique_ptr<RowStream> input) {
        return CacheRowsInFile(std::move(input), cache);
      },
      size_);
}

Dataset Dataset::IgnoreErrors(int64_t limit) const {
  const std::string name = absl::StrCat("IgnoreErrors(", limit, ")");
  if (files_ != nullptr)
    return Then([=](const Dataset& d) { return d.IgnoreErrors(limit); }).Named(name);
  if (limit < 0) {
    return WithError(
        absl::StrCat("IgnoreErrors() limit out of range; expected 0 or more, got ", limit));
  }
  if (batched_) return WithError("IgnoreErrors() after Batch(); expected rows, got batches");
  if (!status_.ok() || limit == 0) return *this;
  Dataset d = *this;
  d.stream_ = Values(limit);
  d.reader_ = ValueRows();
  d.size_ = std::nullopt;
  d.in_order_ = false;
  return d.Named(name);
}

Dataset Dataset::Shuffle(uint64_t seed, const ShuffleOptions& options) const {
  const std::string name = absl::StrCat(
      "Shuffle(seed ", seed,
      options.buffer_size > 0 ? absl::StrCat(", buffer ", options.buffer_size) : "", ")");
  if (files_ != nullptr)
    return Then([=](const Dataset& d) { return d.Shuffle(seed, options); }).Named(name);
  if (options.buffer_size < 0) {
    return WithError(absl::StrCat("Shuffle() buffer_size out of range; expected 0 or more, got ",
                                  options.buffer_size));
  }
  if (options.buffer_size > 0) {
    Dataset d = With(
                    [seed, options](std::unique_ptr<RowStream> input) {
                      return ShuffleInBuffer(std::move(input), seed, options.buffer_size);
                    },
                    size_)
                    .Named(name);
    d.skips_fast_ = false;
    return d;
  }
  if (is_endless_) {
    return WithError("Shuffle() of an endless dataset; expected a dataset that ends, got Repeat()");
  }
  if (!size_) {
    return WithError(
        "Shuffle() of a dataset of unknown size; expected a buffer_size, got 0 (all elements)");
  }
  // Each element needs a row reference, a begin offset and a position in the order, which may not
  // fit in memory after a huge Repeat().
  constexpr int64_t kBytesOfElement = sizeof(RowRef) + 2 * sizeof(int64_t);
  if (const int64_t most = static_cast<int64_t>(UsableMemory()) / kBytesOfElement; *size_ > most) {
    return WithError(
        absl::StrCat("Shuffle() of more elements than fit in memory; expected at most ", most,
                     " elements, got ", *size_));
  }
  return With([seed](
                  std::unique_ptr<RowStream> input) { return ShuffleRows(std::move(input), seed); },
              size_)
      .Named(name);
}

Dataset Dataset::Batch(int64_t rows, BatchOptions options) const {
  const std::string name =
      absl::StrCat("Batch(", rows, options.drop_remainder ? ", drop_remainder" : "", ")");
  if (files_ != nullptr) {
    Dataset batches = Then([=](const Dataset& d, const FileShare& share) {
                        const absl::Status status = CheckBatchOf(share, rows);
                        return status.ok() ? d.Batch(RowsOf(share, rows), options)
                                           : d.WithError(status.message());
                      }).Named(name);
    batches.batched_ = true;
    return batches;
  }
  if (rows <= 0) {
    return WithError(absl::StrCat("Batch() size out of range; expected at least 1, got ", rows));
  }
  if (batched_) return WithError("Batch() after Batch(); expected rows, got batches");
  // A batch is never larger than the dataset, but a preceding Repeat() can make that any size.
  const int64_t largest = size_ ? std::min(*size_, rows) : rows;
  const int64_t most = status_.ok() ? static_cast<int64_t>(UsableMemory()) /
                                          (reader_->row_bytes() + int64_t{sizeof(RowRef)})
                                    : 0;
  if (status_.ok() && largest > most) {
    return WithError(absl::StrCat("Batch() of more rows than fit in memory; expected at most ",
                                  most, " rows, got ", largest));
  }
  std::optional<int64_t> size = size_;
  if (size) size = *size / rows + (!options.drop_remainder && *size % rows != 0 ? 1 : 0);
  Dataset d = With(
                  [rows, options](std::unique_ptr<RowStream> input) {
                    return BatchRows(std::move(input), rows, options.drop_remainder);
                  },
                  size)
                  .Named(name);
  d.batched_ = true;
  d.drop_remainder_ = options.drop_remainder;
  return d;
}

Dataset Dataset::PaddedBatch(int64_t rows, const Padding& padding, BatchOptions options) const {
  if (files_ != nullptr) {
    Dataset batches = Then([=](const Dataset& d, const FileShare& share) {
                        absl::Status status = CheckBatchOf(share, rows);
                        if (status.ok()) status = CheckPaddingOf(share, padding);
                        return status.ok() ? d.PaddedBatch(RowsOf(share, rows), padding, options)
                                           : d.WithError(status.message());
                      }).Named(absl::StrCat("PaddedBatch(", rows, ")"));
    batches.batched_ = true;
    return batches;
  }
  Dataset d = Batch(rows, options);
  d.padding_ = padding;
  return d;
}

Dataset Dataset::Repeat(int64_t count) const {
  const std::string name =
      absl::StrCat("Repeat(", count == kForever ? "" : absl::StrCat(count), ")");
  if (files_ != nullptr) return Then([=](const Dataset& d) { return d.Repeat(count); }).Named(name);
  if (count < 0 && count != kForever) {
    return WithError(absl::StrCat("Repeat() count out of range; expected 0 or more, got ", count));
  }
  std::optional<int64_t> size = size_;
  if (size_ && *size_ > 0) {
    const absl::StatusOr<int64_t> total = CheckedMultiply(*size_, std::max<int64_t>(count, 0));
    size = total.ok() ? *total : std::numeric_limits<int64_t>::max();
    if (count == kForever) size = std::nullopt;
  } else if (count == 0) {
    size = 0;
  }
  Dataset d =
      With(
          [count](std::unique_ptr<RowStream> input) { return RepeatRows(std::move(input), count); },
          size)
          .Named(name);
  d.is_endless_ = is_endless_ || (count == kForever && size_ != 0);
  return d;
}

Dataset Dataset::Take(int64_t count) const {
  const std::string name = absl::StrCat("Take(", count, ")");
  if (files_ != nullptr) return Then([=](const Dataset& d) { return d.Take(count); }).Named(name);
  if (count < 0) {
    return WithError(absl::StrCat("Take() count out of range; expected 0 or more, got ", count));
  }
  std::optional<int64_t> size;
  if (size_ || is_endless_) size = std::min(size_.value_or(count), count);
  if (in_order()) {
    Dataset d = *this;
    d.stream_ = [rows = *size] { return AllRows(rows); };
    d.size_ = size;
    return d.Named(name);
  }
  Dataset d =
      With([count](std::unique_ptr<RowStream> input) { return TakeRows(std::move(input), count); },
           size)
          .Named(name);
  d.is_endless_ = false;
  return d;
}

Dataset Dataset::Skip(int64_t count) const {
  const std::string name = absl::StrCat("Skip(", count, ")");
  if (files_ != nullptr) return Then([=](const Dataset& d) { return d.Skip(count); }).Named(name);
  if (count < 0) {
    return WithError(absl::StrCat("Skip() count out of range; expected 0 or more, got ", count));
  }
  std::optional<int64_t> size = size_;
  if (size) size = std::max<int64_t>(*size - count, 0);
  return With([count](
                  std::unique_ptr<RowStream> input) { return SkipRows(std::move(input), count); },
              size)
      .Named(name);
}

Dataset Dataset::Shard(int64_t num_shards, int64_t index) const {
  const std::string name = absl::StrCat("Shard(", num_shards, ", ", index, ")");
  if (files_ != nullptr)
    return Then([=](const Dataset& d) { return d.Shard(num_shards, index); }).Named(name);
  if (num_shards < 1 || index < 0 || index >= num_shards) {
    return WithError(absl::StrCat("Shard() out of range; expected an index of 0 to ",
                                  num_shards - 1, " of at least 1 shard, got ", index, " of ",
                                  num_shards));
  }
  std::optional<int64_t> size = size_;
  if (size) size = *size / num_shards + (index < *size % num_shards ? 1 : 0);
  return With(
             [num_shards, index](std::unique_ptr<RowStream> input) {
               return ShardRows(std::move(input), num_shards, index);
             },
             size)
      .Named(name);
}

Dataset Dataset::Prefetch(int batches) const {
  if (files_ != nullptr) return Then([=](const Dataset& d) { return d.Prefetch(batches); });
  constexpr int kMax = 1 << 16;
  if (batches < 0 || batches > kMax) {
    return WithError(
        absl::StrCat("Prefetch() out of range; expected 0 to ", kMax, " batches, got ", batches));
  }
  Dataset d = *this;
  d.prefetch_ = batches;
  return d;
}

std::optional<int64_t> Dataset::size() const {
  const Dataset& d = Opened();
  return d.status_.ok() ? d.size_ : std::nullopt;
}

absl::Status Dataset::CheckBatched() const {
  if (files_ == nullptr) MF_RETURN_IF_ERROR(status_);
  if (batched_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("dataset: expected batches, as Batch() makes them, got rows of ", description_));
}

std::unique_ptr<BatchSource> Dataset::MakeIterator(int64_t epoch, const BatchShare& share) const {
  return Opened().Iterate(epoch, share, /*fingerprint=*/nullptr);
}

FingerprintedBatches Dataset::OpenShare(int64_t epoch, const BatchShare& share) const {
  const Dataset& d = Opened();
  const auto fingerprint = std::make_shared<DatasetFingerprint>();
  fingerprint->pipeline = d.description_;
  fingerprint->files = d.source_files_;
  if (d.size_) fingerprint->batches = absl::StrCat(*d.size_);
  return {d.Iterate(epoch, share, fingerprint), fingerprint};
}

std::unique_ptr<BatchSource> Dataset::Iterate(
    int64_t epoch, const BatchShare& share, std::shared_ptr<DatasetFingerprint> fingerprint) const {
  if (!status_.ok()) return std::make_unique<FailedSource>(status_);
  std::unique_ptr<RowStream> order = stream_();
  const absl::Status started = order->Start(epoch);
  if (!started.ok()) return std::make_unique<FailedSource>(started);
  AssembleOptions options = {.num_threads = num_threads_, .padding = padding_};
  if (fingerprint != nullptr) {
    options.fingerprint =
        FingerprintTask{std::move(fingerprint), epoch, skips_fast_ ? size_ : std::nullopt};
  }
  std::unique_ptr<BatchSource> source = AssembleBatches(reader_, std::move(order), share, options);
  return prefetch_ > 0 ? mirrorflow::Prefetch(std::move(source), prefetch_) : std::move(source);
}

Dataset Dataset::Named(absl::string_view stage) const {
  Dataset d = *this;
  absl::StrAppend(&d.description_, ".", stage);
  return d;
}

Dataset Dataset::With(Stage stage, std::optional<int64_t> size) const {
  if (!status_.ok()) return *this;
  Dataset d = *this;
  d.stream_ = [input = stream_, stage = std::move(stage)] { return stage(input()); };
  d.size_ = size;
  d.in_order_ = false;
  return d;
}

Dataset Dataset::WithValues(absl::string_view name, Stage stage,
                            std::optional<int64_t> size) const {
  if (batched_) return WithError(absl::StrCat(name, " after Batch(); expected rows, got batches"));
  if (!status_.ok()) return *this;
  Dataset d = *this;
  d.stream_ = [input = Values(), stage = std::move(stage)] { return stage(input()); };
  d.reader_ = ValueRows();
  d.size_ = size;
  d.in_order_ = false;
  return d;
}

Dataset::MakeStream Dataset::Values(int64_t max_errors) const {
  if (reader_ == ValueRows() && max_errors == 0) return stream_;
  const LoadRowsOptions options = {.num_threads = num_threads_, .max_errors = max_errors};
  return
      [input = stream_, reader = reader_, options] { return LoadRows(input(), reader, options); };
}

Dataset Dataset::OrError(absl::StatusOr<Dataset> dataset) {
  if (dataset.ok()) return *std::move(dataset);
  Dataset d;
  d.status_ = dataset.status();
  return d;
}

Dataset Dataset::WithError(absl::string_view message) const {
  Dataset d = *this;
  if (d.status_.ok()) d.status_ = absl::InvalidArgumentError(absl::StrCat("dataset: ", message));
  return d;
}

}  // namespace mirrorflow
