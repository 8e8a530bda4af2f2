// SPDX-License-Identifier: Apache-2.0
//
// Dataset: a source of training data in the style of tf.data. It is a cheap value that only
// describes a pipeline; MakeIterator() returns an iterator that runs it.
//
//   Dataset::FromTensors({images, labels}).Shuffle(/*seed=*/1).Map(augment).Batch(256).Prefetch(2)
//
// A source either has random access (FromTensors, FromRandomAccess) or is read from its beginning
// to its end (FromSource, FromGenerator). With random access only row numbers pass through Shuffle,
// Shard, Take, Skip, Repeat and Batch; the rows of a batch are read, and mapped, once their order
// is fixed, and each worker reads only its own. Stages that depend on values (Filter, Interleave,
// Cache, and Zip, Concatenate and Window of rows in another order than that of their source) read
// every row on every worker.
//
// The dataset keeps the first error of a stage; status() and the iterator's Next() return it. Those
// of FromCsv() and FromTFRecords() open their files when something of them is needed, which may be
// status() or size(): with AutoShardPolicy::kFile, each worker opens only its own.
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
  // Choose each element at random from a buffer of this many. 0: all elements, which must be finite
  // in number. Values that were read before the shuffle are held in memory.
  int64_t buffer_size = 0;
};

struct MapOptions {
  // How many threads read and map rows, of the whole pipeline; the most that a stage asks for
  // counts. The rows stay in order. kAutotune: one for each processor.
  int num_parallel_calls = 1;
};

struct InterleaveOptions {
  int64_t cycle_length = 1;  // datasets that are open at a time
  int64_t block_length = 1;  // rows of each in turn
};

struct WindowOptions {
  int64_t shift = 1;   // from the first row of a window to that of the next
  int64_t stride = 1;  // from one row of a window to the next
};

// Fills a row, or returns false at the end of the pass; it is not called again after that.
using Generator = std::function<absl::StatusOr<bool>(Row*)>;

class Dataset final : public BatchProvider {
 public:
  static constexpr int64_t kForever = -1;
  static constexpr int kAutotune = -1;

  Dataset();  // empty; status() is an error
  // A move copies, which costs as little, so that every dataset has a base_.
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;

  // The elements are the rows of the leading dimension, which must be the same in all components
  // (TensorFlow's from_tensor_slices). The dataset shares the memory of the components, which must
  // not change while an iterator reads it.
  static Dataset FromTensors(std::vector<Tensor> components);
  // Row i, of `rows` rows, is what `read` makes of i. With several threads, they call it at once.
  static Dataset FromRandomAccess(int64_t rows, std::function<absl::Status(int64_t, Row*)> read);
  // The rows of the source that `open` returns for a pass. `rows` is their number, if it is known.
  static Dataset FromSource(OpenSource open, std::optional<int64_t> rows = std::nullopt);
  // The same with a callback: `make` returns the generator of a pass.
  static Dataset FromGenerator(std::function<Generator(int64_t epoch)> make,
                               std::optional<int64_t> rows = std::nullopt);
  // The rows of files, with the options of sources.h. Csv: the rows of the file. Npy: one component
  // for each file, which are memory-mapped. Npz: the arrays of these names. TFRecords: the records
  // of all files. ImageFolder: rows {image, label} of a folder with a subfolder for each class. A
  // path for Csv and TFRecords may be a pattern such as "train-*.csv", which stands for all files
  // that match, in alphabetical order.
  static Dataset FromCsv(const std::string& path, const CsvSource& source);
  static Dataset FromNpy(const std::vector<std::string>& paths);
  static Dataset FromNpz(const std::string& path, const std::vector<std::string>& names);
  static Dataset FromTFRecords(const std::vector<std::string>& paths, const TFRecordSource& source);
  static Dataset FromImageFolder(const std::string& directory, const ImageFolderSource& source);
  // Row i has the components of row i of all datasets. Ends with the shortest.
  static Dataset Zip(std::vector<Dataset> datasets);

  // Applies `function` to each row.
  Dataset Map(RowFunction function, const MapOptions& options = {}) const;
  // Keeps the rows for which `keep` is true.
  Dataset Filter(RowPredicate keep) const;
  // Opens the dataset that `open` makes of each row, and takes rows of several in turn.
  Dataset Interleave(std::function<absl::StatusOr<Dataset>(const Row&)> open,
                     const InterleaveOptions& options = {}) const;
  // The rows of this dataset, then those of `other`.
  Dataset Concatenate(const Dataset& other) const;
  // Windows of `size` rows, stacked along a new leading dimension (a window of tf.data, batched). A
  // window that the end cuts is left out.
  Dataset Window(int64_t size, const WindowOptions& options = {}) const;
  // Keeps the rows of the first complete pass in memory, with what Map() has made of them, for all
  // later passes and iterators.
  Dataset Cache() const;
  // The same in a file: a pass reads the rows from the file if it exists; otherwise, the first
  // complete pass makes it. Remove the file when the stages before it change. Each process of a
  // host may use the same file. The rows may be more than fit in memory; they can be skipped, but
  // not shuffled without a buffer. DataLoss for a file that is damaged or has other contents.
  Dataset Cache(const std::string& path) const;
  // Leaves out up to `limit` rows of a pass that cannot be read or mapped (DataLoss or
  // InvalidArgument), and says how many on stderr; one more is an error.
  Dataset IgnoreErrors(int64_t limit) const;

  // Shuffles all elements: rows, or batches after Batch(). Each epoch has its own order, which
  // depends only on the seed and the epoch.
  Dataset Shuffle(uint64_t seed, const ShuffleOptions& options = {}) const;
  // Groups `rows` rows into a batch. Without Batch(), an iterator returns batches of one row.
  Dataset Batch(int64_t rows, BatchOptions options = {}) const;
  // The same for rows of different shapes, padded to those of `padding`.
  Dataset PaddedBatch(int64_t rows, const Padding& padding = {}, BatchOptions options = {}) const;
  // Repeats the dataset `count` times. Each pass is one epoch to the preceding stages.
  Dataset Repeat(int64_t count = kForever) const;
  // Keeps only the first `count` elements.
  Dataset Take(int64_t count) const;
  // Leaves out the first `count` elements, without reading them if the stages before have random
  // access.
  Dataset Skip(int64_t count) const;
  // Keeps element `index` of each `num_shards` elements.
  Dataset Shard(int64_t num_shards, int64_t index) const;
  // Keeps up to `batches` finished batches ready, which a background thread of the iterator makes.
  // The default is 1; 0 makes each batch on demand. Prefetch() applies to the finished batches
  // regardless of its position in the pipeline.
  Dataset Prefetch(int batches) const;

  const absl::Status& status() const;
  // Number of elements that an iterator returns: rows, or batches after Batch(). nullopt if the
  // iterator never ends, if the number is not known before all rows are read, or if status() is not
  // OK.
  std::optional<int64_t> size() const;
  // InvalidArgument unless the elements are batches; before that, the first error of a stage. Opens
  // no file.
  absl::Status CheckBatched() const override;
  // The source and the stages that determine its elements, with what is known about them, such as
  // `FromTensors(400 x float[2], int32[]).Shuffle(seed 1).Batch(32)`. Functions and the names of
  // files are left out. Opens no file.
  std::string ToString() const;

  // Returns an iterator that runs the pipeline once. Iterators of the same epoch return the same
  // batches. A training loop that makes one iterator per epoch passes the number of the epoch, and
  // so gets the same batches as with Repeat(). Only the rows of the shard are copied.
  std::unique_ptr<BatchSource> MakeIterator(int64_t epoch, const BatchShard& shard) const override;
  std::unique_ptr<BatchSource> MakeIterator(int64_t epoch = 0) const;
  // The same with a fingerprint, with which the workers of all shards compare their datasets.
  FingerprintedBatches OpenShard(int64_t epoch, const BatchShard& shard) const override;
  // The same for the files of one worker: the pipeline runs on their rows alone, and a batch has
  // the shard's part of the rows that Batch() was given. InvalidArgument for a dataset that has no
  // list of files, or fewer files than workers.
  absl::StatusOr<FileBatches> OpenFiles(int64_t epoch, const FileShard& shard) const override;

 private:
  // Lists the files, once.
  using ListFiles = std::function<absl::StatusOr<std::vector<std::string>>()>;
  // Makes the dataset of some of them.
  using ReadFiles = std::function<absl::StatusOr<Dataset>(const std::vector<std::string>& paths)>;

  explicit Dataset(std::shared_ptr<const DatasetBase> base);
  static Dataset Of(absl::StatusOr<RowPipeline> rows);
  // The dataset, or one whose status() is the error.
  static Dataset OrError(absl::StatusOr<Dataset> dataset);
  // `named` are the paths that the user has given, some of which may be patterns.
  static Dataset FromFiles(std::vector<std::string> named, ListFiles list, ReadFiles read);
  // Appends a stage (row_pipeline.h).
  Dataset Then(std::string name, std::function<absl::StatusOr<RowPipeline>(RowPipeline)> apply,
               bool makes_batches = false) const;
  // Notes the files of a source for the fingerprint, by their sizes.
  Dataset ReadFrom(const std::vector<std::string>& paths) const;
  // The same by their names alone, for files that are too many to ask for their sizes.
  Dataset ReadFromNames(const std::vector<std::string>& names) const;
  Dataset WithIdentity(const std::string& files) const;
  // All rows; opens their files.
  const absl::StatusOr<RowPipeline>& Rows() const;

  std::shared_ptr<const DatasetBase> base_;  // never null
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_DATASET_H_
