// SPDX-License-Identifier: Apache-2.0
#include "train/data/dataset.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/cgroup.h"
#include "framework/core/status.h"
#include "framework/data/dataset_fingerprint.h"
#include "framework/runtime/usable_cpus.h"
#include "train/data/dataset_base.h"
#include "train/data/file_cache.h"
#include "train/data/file_dataset.h"
#include "train/data/loaded_rows.h"
#include "train/data/row_pipeline.h"
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

template <typename... Parts>
absl::Status Error(const Parts&... what) {
  return absl::InvalidArgumentError(absl::StrCat("dataset: ", what...));
}

absl::Status CheckCount(absl::string_view what, int64_t count) {
  if (count >= 0) return absl::OkStatus();
  return Error(what, " out of range; expected 0 or more, got ", count);
}

absl::Status CheckComponents(const std::vector<Tensor>& components) {
  if (components.empty()) return Error("no components; expected at least one tensor, got none");
  for (size_t i = 0; i < components.size(); ++i) {
    const Tensor& t = components[i];
    if (!t.has_value() || t.shape().rank() == 0) {
      return Error("component ", i, " has no rows; expected a tensor of rank 1 or more, got ",
                   t.has_value() ? absl::StrCat("a scalar ", DataTypeName(t.dtype())) : "no value");
    }
    if (t.shape().dim(0) != components[0].shape().dim(0)) {
      return Error("components have different row counts; expected ", components[0].shape().dim(0),
                   " as in component 0 ", components[0].shape().ToString(), ", got ",
                   t.shape().dim(0), " in component ", i, " ", t.shape().ToString());
    }
  }
  return absl::OkStatus();
}

std::string JoinFiles(const std::string& first, const std::string& second) {
  return absl::StrCat(first, first.empty() || second.empty() ? "" : ", ", second);
}

// Reads rows from a generator.
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

// Returns how many rows of a batch come from one worker's files.
absl::StatusOr<int64_t> RowsOfBatch(const FileShard& shard, int64_t rows) {
  const auto& [first_rank, num_ranks, world_size] = shard.batch;
  // A worker without rows would never read its files.
  if (rows > 0 && rows < world_size) {
    return Error("Batch() has fewer rows than replicas; expected at least ", world_size,
                 " with AutoShardPolicy FILE, got ", rows);
  }
  const int64_t own = FirstRowOf(first_rank + num_ranks, rows, world_size) -
                      FirstRowOf(first_rank, rows, world_size);
  if (own > 0) return own;
  return Error("Batch() size out of range; expected at least 1, got ", own);
}

// Wraps `function` so that row indices differ between workers. Otherwise, random changes that
// depend on the index would be the same on all workers.
RowFunction WithNumbersOf(const FileShard& shard, RowFunction function) {
  if (shard.num_workers == 1) return function;
  return [shard, function = std::move(function)](const RowId& id, Row* row) {
    return function({id.epoch, id.row * shard.num_workers + shard.worker}, row);
  };
}

absl::Status AppendCache(RowPipeline& rows, RowTransform cache) {
  if (rows.is_endless) return Error("Cache(): expected a finite dataset, got an endless Repeat()");
  return rows.AppendToValues("Cache()", std::move(cache), rows.size);
}

std::unique_ptr<BatchSource> Iterate(const absl::StatusOr<RowPipeline>& rows, int64_t epoch,
                                     const BatchShard& shard,
                                     std::shared_ptr<DatasetFingerprint> fingerprint) {
  if (!rows.ok()) return std::make_unique<FailedSource>(rows.status());
  absl::StatusOr<std::unique_ptr<BatchSource>> source =
      rows->MakeIterator(epoch, shard, std::move(fingerprint));
  if (!source.ok()) return std::make_unique<FailedSource>(source.status());
  return *std::move(source);
}

}  // namespace

Dataset::Dataset()
    : Dataset(Of(absl::FailedPreconditionError("dataset: used before it was initialized"))) {}

Dataset::Dataset(std::shared_ptr<const DatasetBase> base) : base_(std::move(base)) {}

Dataset Dataset::Of(absl::StatusOr<RowPipeline> rows) {
  return Dataset(std::make_shared<const RowDataset>(std::move(rows)));
}

Dataset Dataset::OrError(absl::StatusOr<Dataset> dataset) {
  return dataset.ok() ? *std::move(dataset) : Of(dataset.status());
}

Dataset Dataset::FromTensors(std::vector<Tensor> components) {
  const absl::Status status = CheckComponents(components);
  if (!status.ok()) return Of(status);
  const int64_t num_rows = components[0].shape().dim(0);
  RowPipeline rows;
  rows.description = absl::StrCat("FromTensors(", num_rows, " x ", TypesOfRows(components), ")");
  rows.ReadInOrder(std::make_shared<TensorRows>(std::move(components)), num_rows);
  return Of(std::move(rows));
}

Dataset Dataset::FromRandomAccess(int64_t rows, std::function<absl::Status(int64_t, Row*)> read) {
  if (rows < 0 || read == nullptr) {
    return Of(Error("FromRandomAccess(): expected 0 or more rows and a function, got ", rows,
                    " and ", read == nullptr ? "null" : "a function"));
  }
  RowPipeline all;
  all.description = absl::StrCat("FromRandomAccess(", rows, ")");
  all.ReadInOrder(FunctionRows(std::move(read)), rows);
  return Of(std::move(all));
}

Dataset Dataset::FromSource(OpenSource open, std::optional<int64_t> rows) {
  if (open == nullptr) return Of(Error("FromSource(): expected a function, got null"));
  if (absl::Status valid = CheckCount("row count", rows.value_or(0)); !valid.ok()) return Of(valid);
  RowPipeline all;
  all.description = absl::StrCat("FromSource(", rows ? absl::StrCat(*rows) : "", ")");
  all.reader = ValueRows();
  all.stream = [open = std::move(open)] { return SourceRows(open); };
  all.size = rows;
  return Of(std::move(all));
}

Dataset Dataset::FromGenerator(std::function<Generator(int64_t epoch)> make,
                               std::optional<int64_t> rows) {
  return FromSource(
      [make = std::move(make)](int64_t epoch) -> absl::StatusOr<std::unique_ptr<RowSource>> {
        Generator generator = make ? make(epoch) : nullptr;
        if (generator == nullptr) {
          return Error("FromGenerator(): expected a generator for the pass, got null");
        }
        return std::make_unique<GeneratorSource>(std::move(generator));
      },
      rows);
}

Dataset Dataset::FromFiles(std::vector<std::string> named, ListFiles list, ReadFiles read) {
  auto read_rows = [read = std::move(read)](
                       const std::vector<std::string>& paths) -> absl::StatusOr<RowPipeline> {
    MF_ASSIGN_OR_RETURN(const Dataset opened, read(paths));
    return opened.Rows();
  };
  return Dataset(FileDataset::Create(std::move(named), std::move(list), std::move(read_rows)));
}

Dataset Dataset::Zip(std::vector<Dataset> datasets) {
  if (datasets.empty()) return Of(Error("Zip(): expected at least one dataset, got none"));
  RowPipeline zipped;
  zipped.description = absl::StrCat(
      "Zip(",
      absl::StrJoin(datasets, ", ",
                    [](std::string* out, const Dataset& input) { *out += input.ToString(); }),
      ")");
  zipped.is_endless = true;
  bool in_order = true, is_known = true;
  std::optional<int64_t> size;
  std::vector<RowReaderPtr> readers;
  std::vector<RowPipeline::MakeStream> streams;
  for (const Dataset& dataset : datasets) {
    if (!dataset.status().ok()) return Of(dataset.status());
    const RowPipeline& input = *dataset.Rows();
    const absl::Status are_rows = input.CheckRows("Zip()");
    if (!are_rows.ok()) return Of(are_rows);
    readers.push_back(input.reader);
    streams.push_back(input.Values());
    in_order = in_order && input.in_order;
    zipped.is_endless = zipped.is_endless && input.is_endless;
    is_known = is_known && (input.size || input.is_endless);
    if (input.size) size = std::min(size.value_or(*input.size), *input.size);
    zipped.files = JoinFiles(zipped.files, input.files);
    zipped.num_threads = std::max(zipped.num_threads, input.num_threads);
  }
  if (!in_order) {
    zipped.reader = ValueRows();
    zipped.stream = [streams = std::move(streams)] {
      std::vector<std::unique_ptr<RowStream>> inputs;
      for (const RowPipeline::MakeStream& make : streams) inputs.push_back(make());
      return ZipRows(std::move(inputs));
    };
    zipped.size = is_known ? size : std::nullopt;
    return Of(std::move(zipped));
  }
  std::vector<Tensor> tensors;
  bool all_tensors = true;
  for (const RowReaderPtr& reader : readers) {
    all_tensors = all_tensors && reader->tensors() != nullptr;
    if (!all_tensors) break;
    for (const Tensor& t : *reader->tensors()) tensors.push_back(t.Rows(0, *size));
  }
  if (all_tensors) {
    zipped.ReadInOrder(std::make_shared<TensorRows>(std::move(tensors)), *size);
  } else {
    zipped.ReadInOrder(ZippedRows(std::move(readers)), *size);
  }
  return Of(std::move(zipped));
}

Dataset Dataset::Map(RowFunction function, const MapOptions& options) const {
  const int threads = options.num_parallel_calls;
  return Then("Map()", [=](RowPipeline& rows) -> absl::Status {
    constexpr int kMaxThreads = 1024;
    if (threads != kAutotune && (threads < 1 || threads > kMaxThreads)) {
      return Error("Map() num_parallel_calls out of range; expected 1 to ", kMaxThreads,
                   " or kAutotune, got ", threads);
    }
    MF_RETURN_IF_ERROR(rows.CheckRows("Map()"));
    rows.reader = MappedRows(rows.reader, WithNumbersOf(rows.shard, function));
    rows.num_threads =
        std::max<int>(rows.num_threads, threads == kAutotune ? NumUsableCpus() : threads);
    return absl::OkStatus();
  });
}

Dataset Dataset::Filter(RowPredicate keep) const {
  return Then("Filter()", [=](RowPipeline& rows) {
    return rows.AppendToValues("Filter()", FilterRows(keep), std::nullopt);
  });
}

Dataset Dataset::Interleave(std::function<absl::StatusOr<Dataset>(const Row&)> open,
                            const InterleaveOptions& options) const {
  OpenRows open_rows =
      [open = std::move(open)](const Row& row) -> absl::StatusOr<std::unique_ptr<RowStream>> {
    MF_ASSIGN_OR_RETURN(const Dataset dataset, open(row));
    MF_RETURN_IF_ERROR(dataset.status());
    const RowPipeline& rows = *dataset.Rows();
    if (rows.batched) {
      return Error("Interleave() opened a batched dataset; expected rows, got batches");
    }
    return rows.Values()();
  };
  const std::string name =
      absl::StrCat("Interleave(", options.cycle_length, ", ", options.block_length, ")");
  return Then(name, [=](RowPipeline& rows) -> absl::Status {
    constexpr int64_t kMaxOpen = 1 << 16;
    if (options.cycle_length < 1 || options.cycle_length > kMaxOpen || options.block_length < 1) {
      return Error("Interleave() out of range; expected a cycle_length of 1 to ", kMaxOpen,
                   " and a block_length of at least 1, got ", options.cycle_length, " and ",
                   options.block_length);
    }
    return rows.AppendToValues(
        "Interleave()", InterleaveRows(open_rows, options.cycle_length, options.block_length),
        std::nullopt);
  });
}

Dataset Dataset::Concatenate(const Dataset& other) const {
  if (!status().ok()) return Of(status());
  if (!other.status().ok()) return Of(other.status());
  const RowPipeline &first = *Rows(), &second = *other.Rows();
  if (first.batched || second.batched) {
    return Of(Error("Concatenate() after Batch(); expected rows, got batches"));
  }
  if (first.is_endless) {
    return Of(Error(
        "Concatenate() never reaches the second dataset; expected a finite first dataset, got an "
        "endless Repeat()"));
  }
  RowPipeline rows = first;
  absl::StrAppend(&rows.description, ".Concatenate(", second.description, ")");
  rows.files = JoinFiles(first.files, second.files);
  rows.num_threads = std::max(first.num_threads, second.num_threads);
  rows.is_endless = second.is_endless;
  if (first.in_order && second.in_order) {
    rows.ReadInOrder(ConcatenatedRows({{first.reader, *first.size}, {second.reader, *second.size}}),
                     *first.size + *second.size);
    return Of(std::move(rows));
  }
  rows.reader = ValueRows();
  rows.stream = [first = first.Values(), second = second.Values()] {
    std::vector<std::unique_ptr<RowStream>> streams;
    streams.push_back(first());
    streams.push_back(second());
    return ConcatenateRows(std::move(streams));
  };
  rows.size =
      first.size && second.size ? std::make_optional(*first.size + *second.size) : std::nullopt;
  rows.in_order = false;
  return Of(std::move(rows));
}

Dataset Dataset::Window(int64_t size, const WindowOptions& options) const {
  const std::string name =
      absl::StrCat("Window(", size, ", ", options.shift, ", ", options.stride, ")");
  return Then(name, [=](RowPipeline& rows) -> absl::Status {
    constexpr int64_t kMax = int64_t{1} << 31;  // keeps a window's span from overflowing
    const auto is_in_range = [](int64_t n) { return n >= 1 && n <= kMax; };
    if (!is_in_range(size) || !is_in_range(options.shift) || !is_in_range(options.stride)) {
      return Error("Window() out of range; expected a size, a shift and a stride of 1 to ", kMax,
                   ", got ", size, ", ", options.shift, " and ", options.stride);
    }
    const WindowRange range = {.size = size, .shift = options.shift, .stride = options.stride};
    std::optional<int64_t> windows;
    if (rows.size)
      windows = *rows.size < range.span() ? 0 : (*rows.size - range.span()) / range.shift + 1;
    if (rows.in_order) {
      rows.ReadInOrder(WindowedRows(rows.reader, range), *windows);
      return absl::OkStatus();
    }
    return rows.AppendToValues("Window()", WindowRows(range), windows);
  });
}

Dataset Dataset::Cache() const {
  return Then("", [](RowPipeline& rows) { return AppendCache(rows, CacheRows()); });
}

Dataset Dataset::Cache(const std::string& path) const {
  return Then("", [path](RowPipeline& rows) {
    const auto& [worker, num_workers, batch] = rows.shard;
    const std::string of_shard = absl::StrCat(".", worker, "-of-", num_workers);
    return AppendCache(rows, CacheRowsInFile(absl::StrCat(path, num_workers > 1 ? of_shard : "")));
  });
}

Dataset Dataset::IgnoreErrors(int64_t limit) const {
  const std::string name = limit == 0 ? "" : absl::StrCat("IgnoreErrors(", limit, ")");
  return Then(name, [limit](RowPipeline& rows) -> absl::Status {
    MF_RETURN_IF_ERROR(CheckCount("IgnoreErrors() limit", limit));
    MF_RETURN_IF_ERROR(rows.CheckRows("IgnoreErrors()"));
    if (limit == 0) return absl::OkStatus();
    rows.stream = rows.Values(limit);
    rows.reader = ValueRows();
    rows.size = std::nullopt;
    rows.in_order = false;
    return absl::OkStatus();
  });
}

Dataset Dataset::Shuffle(uint64_t seed, const ShuffleOptions& options) const {
  const int64_t buffer = options.buffer_size;
  const std::string name =
      absl::StrCat("Shuffle(seed ", seed, buffer > 0 ? absl::StrCat(", buffer ", buffer) : "", ")");
  return Then(name, [seed, buffer](RowPipeline& rows) -> absl::Status {
    MF_RETURN_IF_ERROR(CheckCount("Shuffle() buffer_size", buffer));
    if (buffer > 0) {
      rows.skips_fast = false;
      rows.Append(ShuffleInBuffer(seed, buffer), rows.size);
      return absl::OkStatus();
    }
    if (rows.is_endless) {
      return Error(
          "Shuffle() without a buffer_size never ends; expected a finite dataset, got an endless "
          "Repeat()");
    }
    if (!rows.size) {
      return Error(
          "Shuffle() requires a buffer_size, because the dataset's size is unknown; expected at "
          "least 1, got 0 (all elements)");
    }
    // The shuffle stores a row reference, an offset and an index per element. After a huge
    // Repeat(), these may not fit in memory.
    constexpr int64_t kBytesOfElement = sizeof(RowRef) + 2 * sizeof(int64_t);
    const int64_t most = static_cast<int64_t>(UsableMemory()) / kBytesOfElement;
    if (*rows.size > most) {
      return Error("Shuffle() has more elements than fit in memory; expected at most ", most,
                   " elements, got ", *rows.size);
    }
    rows.Append(ShuffleRows(seed), rows.size);
    return absl::OkStatus();
  });
}

Dataset Dataset::Batch(int64_t rows, BatchOptions options) const {
  const std::string name =
      absl::StrCat("Batch(", rows, options.drop_remainder ? ", drop_remainder" : "", ")");
  const auto group = [=](RowPipeline& elements) -> absl::Status {
    MF_ASSIGN_OR_RETURN(const int64_t own, RowsOfBatch(elements.shard, rows));
    MF_RETURN_IF_ERROR(elements.CheckRows("Batch()"));
    // A batch is never larger than the dataset, but a preceding Repeat() can make the dataset any
    // size.
    const int64_t largest = elements.size ? std::min(*elements.size, own) : own;
    const int64_t most = static_cast<int64_t>(UsableMemory()) /
                         (elements.reader->row_bytes() + int64_t{sizeof(RowRef)});
    if (largest > most) {
      return Error("Batch() has more rows than fit in memory; expected at most ", most,
                   " rows, got ", largest);
    }
    std::optional<int64_t> size = elements.size;
    if (size) size = *size / own + (!options.drop_remainder && *size % own != 0 ? 1 : 0);
    elements.drop_remainder = options.drop_remainder;
    elements.Append(BatchRows(own, options.drop_remainder), size);
    return absl::OkStatus();
  };
  return Then(name, group, /*makes_batches=*/true);
}

Dataset Dataset::PaddedBatch(int64_t rows, const Padding& padding, BatchOptions options) const {
  return Batch(rows, options).Then("", [padding](RowPipeline& batches) -> absl::Status {
    if (batches.shard.num_workers > 1 && !padding.has_fixed_shapes()) {
      // The batch's longest row may be on another worker.
      return Error(
          "PaddedBatch() cannot pad to the longest row with AutoShardPolicy FILE; expected "
          "padded_shapes without unknown dimensions");
    }
    batches.padding = padding;
    return absl::OkStatus();
  });
}

Dataset Dataset::Repeat(int64_t count) const {
  const std::string name =
      absl::StrCat("Repeat(", count == kForever ? "" : absl::StrCat(count), ")");
  return Then(name, [count](RowPipeline& rows) -> absl::Status {
    if (count != kForever) MF_RETURN_IF_ERROR(CheckCount("Repeat() count", count));
    std::optional<int64_t> size = rows.size;
    if (size && *size > 0) {
      const absl::StatusOr<int64_t> total = CheckedMultiply(*size, std::max<int64_t>(count, 0));
      size = total.ok() ? *total : std::numeric_limits<int64_t>::max();
      if (count == kForever) size = std::nullopt;
    } else if (count == 0) {
      size = 0;
    }
    rows.is_endless |= count == kForever && rows.size != 0;
    rows.Append(RepeatRows(count), size);
    return absl::OkStatus();
  });
}

Dataset Dataset::Take(int64_t count) const {
  return Then(absl::StrCat("Take(", count, ")"), [count](RowPipeline& rows) -> absl::Status {
    MF_RETURN_IF_ERROR(CheckCount("Take() count", count));
    std::optional<int64_t> size;
    if (rows.size || rows.is_endless) size = std::min(rows.size.value_or(count), count);
    if (rows.in_order) {
      rows.ReadInOrder(rows.reader, *size);
      return absl::OkStatus();
    }
    rows.is_endless = false;
    rows.Append(TakeRows(count), size);
    return absl::OkStatus();
  });
}

Dataset Dataset::Skip(int64_t count) const {
  return Then(absl::StrCat("Skip(", count, ")"), [count](RowPipeline& rows) -> absl::Status {
    MF_RETURN_IF_ERROR(CheckCount("Skip() count", count));
    std::optional<int64_t> size = rows.size;
    if (size) size = std::max<int64_t>(*size - count, 0);
    rows.Append(SkipRows(count), size);
    return absl::OkStatus();
  });
}

Dataset Dataset::Shard(int64_t num_shards, int64_t index) const {
  const std::string name = absl::StrCat("Shard(", num_shards, ", ", index, ")");
  return Then(name, [=](RowPipeline& rows) -> absl::Status {
    if (num_shards < 1 || index < 0 || index >= num_shards) {
      return Error("Shard() out of range; expected an index from 0 to ", num_shards - 1,
                   " and at least 1 shard, got ", index, " of ", num_shards);
    }
    std::optional<int64_t> size = rows.size;
    if (size) size = *size / num_shards + (index < *size % num_shards ? 1 : 0);
    rows.Append(ShardRows(num_shards, index), size);
    return absl::OkStatus();
  });
}

Dataset Dataset::Prefetch(int batches) const {
  return Then("", [batches](RowPipeline& rows) -> absl::Status {
    constexpr int kMax = 1 << 16;
    if (batches < 0 || batches > kMax) {
      return Error("Prefetch() out of range; expected 0 to ", kMax, " batches, got ", batches);
    }
    rows.prefetch = batches;
    return absl::OkStatus();
  });
}

const absl::Status& Dataset::status() const { return Rows().status(); }

std::optional<int64_t> Dataset::size() const {
  const absl::StatusOr<RowPipeline>& rows = Rows();
  return rows.ok() ? rows->size : std::nullopt;
}

absl::Status Dataset::CheckBatched() const { return base_->CheckBatched(); }

std::string Dataset::ToString() const { return base_->ToString(); }

std::unique_ptr<BatchSource> Dataset::MakeIterator(int64_t epoch, const BatchShard& shard) const {
  return Iterate(Rows(), epoch, shard, /*fingerprint=*/nullptr);
}

std::unique_ptr<BatchSource> Dataset::MakeIterator(int64_t epoch) const {
  return MakeIterator(epoch, {});
}

FingerprintedBatches Dataset::OpenShard(int64_t epoch, const BatchShard& shard) const {
  const absl::StatusOr<RowPipeline>& rows = Rows();
  const auto fingerprint = std::make_shared<DatasetFingerprint>();
  if (rows.ok()) {
    fingerprint->pipeline = rows->description;
    fingerprint->files = rows->files;
    if (rows->size) fingerprint->batches = absl::StrCat(*rows->size);
  }
  return {Iterate(rows, epoch, shard, fingerprint), fingerprint};
}

absl::StatusOr<FileBatches> Dataset::OpenFiles(int64_t epoch, const FileShard& shard) const {
  return base_->OpenFiles(epoch, shard);
}

Dataset Dataset::Then(std::string name, std::function<absl::Status(RowPipeline&)> apply,
                      bool makes_batches) const {
  return Dataset(base_->Then({std::move(name), std::move(apply), makes_batches}));
}

Dataset Dataset::ReadFrom(const std::vector<std::string>& paths) const {
  return WithIdentity(IdentityOfFiles(paths, /*named=*/paths));
}

Dataset Dataset::ReadFromNames(const std::vector<std::string>& names) const {
  return WithIdentity(IdentityOfNames(names));
}

Dataset Dataset::WithIdentity(const std::string& files) const {
  return Then("", [files](RowPipeline& rows) {
    rows.files = files;
    return absl::OkStatus();
  });
}

const absl::StatusOr<RowPipeline>& Dataset::Rows() const { return base_->Rows(); }

}  // namespace mirrorflow
