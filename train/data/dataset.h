// SPDX-License-Identifier: Apache-2.0
//
// Dataset: a pipeline of training data in the style of tf.data. A Dataset only describes the
// pipeline, so it is cheap to copy; MakeIterator() returns an iterator that runs it.
//
//   Dataset::FromTensors({images, labels}).Shuffle(/*seed=*/1).Map(augment).Batch(256).Prefetch(2)
//
// Sources either have random access (FromTensors, FromRandomAccess) or are read sequentially
// (FromSource, FromGenerator). With random access, only row numbers pass through Shuffle, Shard,
// Take, Skip, Repeat and Batch. The rows of a batch are read and mapped once their order is known,
// and each worker reads only its own. Stages that depend on values (Filter, Interleave, Cache; also
// Zip, Concatenate and Window of rows in another order than their source's) read every row on every
// worker.
//
// The dataset keeps the first error of a stage; status() and the iterator's Next() return it.
// FromCsv() and FromTFRecords() open their files when these are first needed, which may be in
// status() or size(). With AutoShardPolicy::kFile, each worker opens only its own files.
#ifndef MIRRORFLOW_TRAIN_DATA_DATASET_H_
#define MIRRORFLOW_TRAIN_DATA_DATASET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/data/batch_provider.h"
#include "train/data/padding.h"
#include "train/data/row.h"

namespace mirrorflow {

class DatasetBase;
struct CsvSource;
struct ImageFolderSource;
struct RowPipeline;
struct TFRecordSource;

struct BatchOptions {
  // Drop the last batch if it has fewer rows than the others.
  bool drop_remainder = false;
};

struct ShuffleOptions {
  // Choose each element at random from a buffer of this many elements. 0: from all elements, whose
  // number must be finite. Values read before the shuffle are held in memory.
  int64_t buffer_size = 0;
};

struct MapOptions {
  // How many threads read and map rows. The largest number that a stage requests applies to the
  // whole pipeline. Rows stay in order. kAutotune: one thread per processor.
  int num_parallel_calls = 1;
};

struct InterleaveOptions {
  int64_t cycle_length = 1;  // how many datasets are open at a time
  int64_t block_length = 1;  // how many consecutive rows to take from each
};

struct WindowOptions {
  int64_t shift = 1;   // from the first row of one window to that of the next
  int64_t stride = 1;  // from one row in a window to the next
};

// Fills a row, or returns false at the end of the pass, after which it is not called again.
using Generator = std::function<absl::StatusOr<bool>(Row*)>;

class Dataset final : public BatchProvider {
 public:
  static constexpr int64_t kForever = -1;
  static constexpr int kAutotune = -1;

  Dataset();  // empty; status() is an error
  // A move is a copy, which is just as cheap, so that every dataset has a base_.
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;

  // The elements are the rows along the leading dimension, which must be equal in all components
  // (TensorFlow's from_tensor_slices). The dataset shares the components' memory, which must not
  // change while an iterator reads it.
  static Dataset FromTensors(std::vector<Tensor> components);
  // `rows` rows; `read` fills row i. With several threads, they call it concurrently.
  static Dataset FromRandomAccess(int64_t rows, std::function<absl::Status(int64_t, Row*)> read);
  // The rows of a source, which `open` opens for each pass. `rows` is their number, if known.
  static Dataset FromSource(OpenSource open, std::optional<int64_t> rows = std::nullopt);
  // The rows of a generator, which `make` creates for each pass. `rows` is their number, if known.
  static Dataset FromGenerator(std::function<Generator(int64_t epoch)> make,
                               std::optional<int64_t> rows = std::nullopt);
  // The rows of files, with the options of sources.h. Csv: the rows of the file. Npy: one component
  // per file; the files are memory-mapped. Npz: the arrays of these names. TFRecords: the records
  // of all files. ImageFolder: rows {image, label} from a folder with one subfolder per class. A
  // Csv or TFRecords path may be a pattern such as "train-*.csv": it stands for all matching files,
  // in alphabetical order.
  static Dataset FromCsv(const std::string& path, const CsvSource& source);
  static Dataset FromNpy(const std::vector<std::string>& paths);
  static Dataset FromNpz(const std::string& path, const std::vector<std::string>& names);
  static Dataset FromTFRecords(const std::vector<std::string>& paths, const TFRecordSource& source);
  static Dataset FromImageFolder(const std::string& directory, const ImageFolderSource& source);
  // Row i consists of the components of row i of all datasets. Ends with the shortest dataset.
  static Dataset Zip(std::vector<Dataset> datasets);

  // Applies `function` to each row.
  Dataset Map(RowFunction function, const MapOptions& options = {}) const;
  // Keeps the rows for which `keep` returns true.
  Dataset Filter(RowPredicate keep) const;
  // Opens a dataset for each row with `open`, and takes rows from several of them in turn.
  Dataset Interleave(std::function<absl::StatusOr<Dataset>(const Row&)> open,
                     const InterleaveOptions& options = {}) const;
  // The rows of this dataset, then those of `other`.
  Dataset Concatenate(const Dataset& other) const;
  // Windows of `size` rows, stacked along a new leading dimension (tf.data's window, batched).
  // Drops a window that the end of the dataset cuts short.
  Dataset Window(int64_t size, const WindowOptions& options = {}) const;
  // Keeps the rows of the first complete pass in memory, as the preceding stages return them, for
  // all later passes and iterators.
  Dataset Cache() const;
  // Caches the rows in a file. If the file exists, a pass reads it; otherwise, the first complete
  // pass writes it. Remove the file when the preceding stages change. All processes of a host may
  // share the file. The rows need not fit in memory; they can be skipped, but not shuffled without
  // a buffer. DataLoss if the file is damaged or has other contents.
  Dataset Cache(const std::string& path) const;
  // Skips up to `limit` rows per pass that cannot be read or mapped (DataLoss or InvalidArgument),
  // and reports their number on stderr. One more is an error.
  Dataset IgnoreErrors(int64_t limit) const;

  // Shuffles all elements: rows, or batches after Batch(). Each epoch has another order, which
  // depends only on the seed and the epoch.
  Dataset Shuffle(uint64_t seed, const ShuffleOptions& options = {}) const;
  // Groups `rows` rows into a batch. Without Batch(), an iterator returns batches of one row.
  Dataset Batch(int64_t rows, BatchOptions options = {}) const;
  // Batch() for rows of different shapes, which are padded as `padding` specifies.
  Dataset PaddedBatch(int64_t rows, const Padding& padding = {}, BatchOptions options = {}) const;
  // Repeats the dataset `count` times. The preceding stages see each pass as one epoch.
  Dataset Repeat(int64_t count = kForever) const;
  // Keeps only the first `count` elements.
  Dataset Take(int64_t count) const;
  // Skips the first `count` elements. They are not read if the preceding stages have random access.
  Dataset Skip(int64_t count) const;
  // Keeps element `index` of each group of `num_shards` elements.
  Dataset Shard(int64_t num_shards, int64_t index) const;
  // Keeps up to `batches` batches ready, which a background thread of the iterator assembles. The
  // default is 1; 0 assembles each batch on demand. Prefetch() applies to the finished batches,
  // wherever it is in the pipeline.
  Dataset Prefetch(int batches) const;

  const absl::Status& status() const;
  // The number of elements that an iterator returns: rows, or batches after Batch(). nullopt if the
  // iterator never ends, if the number is only known after reading all rows, or if status() is not
  // OK.
  std::optional<int64_t> size() const;
  // Returns the first error of a stage, or InvalidArgument unless the elements are batches. Opens
  // no files.
  absl::Status CheckBatched() const override;
  // Describes the source and the stages that determine its elements, as far as they are known, for
  // example `FromTensors(400 x float[2], int32[]).Shuffle(seed 1).Batch(32)`. Omits functions and
  // file names. Opens no files.
  std::string ToString() const;

  // Returns an iterator that runs the pipeline once. Iterators of the same epoch return the same
  // batches. A training loop that creates one iterator per epoch and passes the epoch's number gets
  // the same batches as with Repeat(). Only the rows of the shard are copied.
  std::unique_ptr<BatchSource> MakeIterator(int64_t epoch, const BatchShard& shard) const override;
  std::unique_ptr<BatchSource> MakeIterator(int64_t epoch = 0) const;
  // MakeIterator() with a fingerprint, by which the workers of all shards compare their datasets.
  FingerprintedBatches OpenShard(int64_t epoch, const BatchShard& shard) const override;
  // MakeIterator() for the files of one worker: the pipeline runs on their rows only, and a batch
  // has the shard's part of the rows given to Batch(). InvalidArgument for a dataset without a list
  // of files, or with fewer files than workers.
  absl::StatusOr<FileBatches> OpenFiles(int64_t epoch, const FileShard& shard) const override;

 private:
  // Lists the files. Called once.
  using ListFiles = std::function<absl::StatusOr<std::vector<std::string>>()>;
  // Creates the dataset of some of the files.
  using ReadFiles = std::function<absl::StatusOr<Dataset>(const std::vector<std::string>& paths)>;

  explicit Dataset(std::shared_ptr<const DatasetBase> base);
  static Dataset Of(absl::StatusOr<RowPipeline> rows);
  // Returns the dataset or, on an error, a dataset whose status() is the error.
  static Dataset OrError(absl::StatusOr<Dataset> dataset);
  // `named` are the paths as the user gave them. Some may be patterns.
  static Dataset FromFiles(std::vector<std::string> named, ListFiles list, ReadFiles read);
  // Appends a stage (row_pipeline.h).
  Dataset Then(std::string name, std::function<absl::StatusOr<RowPipeline>(RowPipeline)> apply,
               bool makes_batches = false) const;
  // Records the files of a source, with their sizes, for the fingerprint.
  Dataset ReadFrom(const std::vector<std::string>& paths) const;
  // Records only the names, for files too numerous to query their sizes.
  Dataset ReadFromNames(const std::vector<std::string>& names) const;
  Dataset WithIdentity(const std::string& files) const;
  // Returns all rows; opens their files.
  const absl::StatusOr<RowPipeline>& Rows() const;

  std::shared_ptr<const DatasetBase> base_;  // never null
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_DATASET_H_
