// SPDX-License-Identifier: Apache-2.0
//
// Dataset: a training data pipeline in the style of tf.data. A Dataset only describes the pipeline,
// so it is cheap to copy; MakeIterator() returns an iterator that runs the pipeline.
//
//   Dataset::FromTensors({images, labels}).Shuffle(/*seed=*/1).Map(augment).Batch(256).Prefetch(2)
//
// Sources either have random access (FromTensors, FromRandomAccess) or are read sequentially
// (FromSource, FromGenerator). With random access, only row indices pass through Shuffle, Shard,
// Take, Skip, Repeat and Batch. A batch's rows are read and mapped once their order is known, and
// each worker reads only its own rows. Stages that depend on values read every row on every worker:
// Filter, Interleave, Cache, and also Zip, Concatenate and Window if their input rows are not in
// the source's order.
//
// The dataset keeps the first stage error; status() and the iterator's Next() return it. FromCsv()
// and FromTFRecords() open their files when they are first needed, possibly in status() or size().
// With AutoShardPolicy::kFile, each worker opens only its own files.
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
  // Whether to drop the last batch if it has fewer rows than the others.
  bool drop_remainder = false;
};

struct ShuffleOptions {
  // The size of the buffer from which each element is chosen at random, in elements. 0 chooses from
  // all elements; the dataset must then be finite. Values that a stage before the shuffle has read
  // are held in memory.
  int64_t buffer_size = 0;
};

struct MapOptions {
  // How many threads read and map rows. The largest value of any stage applies to the whole
  // pipeline. Rows stay in order. kAutotune: one thread per processor.
  int num_parallel_calls = 1;
};

struct InterleaveOptions {
  int64_t cycle_length = 1;  // how many datasets are open at a time
  int64_t block_length = 1;  // how many consecutive rows to take from each dataset
};

struct WindowOptions {
  int64_t shift = 1;   // distance between the first rows of consecutive windows
  int64_t stride = 1;  // distance between consecutive rows of a window
};

// Fills a row, or returns false at the end of the pass; it is not called after that.
using Generator = std::function<absl::StatusOr<bool>(Row*)>;

class Dataset final : public BatchProvider {
 public:
  static constexpr int64_t kForever = -1;
  static constexpr int kAutotune = -1;

  Dataset();  // empty; status() is an error
  // There is no move: a copy is just as cheap, and a moved-from dataset would have no base_.
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;

  // Returns the rows of the components along the leading dimension, which must be equal in all
  // components (TensorFlow's from_tensor_slices). The dataset shares the components' memory, which
  // must not change while an iterator reads it.
  static Dataset FromTensors(std::vector<Tensor> components);
  // Returns `rows` rows, with random access; `read` fills row i. If the pipeline has several
  // threads, they call `read` concurrently.
  static Dataset FromRandomAccess(int64_t rows, std::function<absl::Status(int64_t, Row*)> read);
  // Returns the rows of a source, which `open` opens for each pass. `rows` is the row count, if
  // known.
  static Dataset FromSource(OpenSource open, std::optional<int64_t> rows = std::nullopt);
  // Returns the rows of a generator, which `make` creates for each pass. `rows` is the row count,
  // if known.
  static Dataset FromGenerator(std::function<Generator(int64_t epoch)> make,
                               std::optional<int64_t> rows = std::nullopt);
  // Return the rows of files, with the options in sources.h. Csv: the rows of the file. Npy: one
  // component per file; the files are memory-mapped. Npz: the arrays with these names. TFRecords:
  // the records of all files. ImageFolder: rows {image, label} from a folder with one subfolder per
  // class. A Csv or TFRecords path can be a pattern such as "train-*.csv", which stands for all
  // matching files in alphabetical order.
  static Dataset FromCsv(const std::string& path, const CsvSource& source);
  static Dataset FromNpy(const std::vector<std::string>& paths);
  static Dataset FromNpz(const std::string& path, const std::vector<std::string>& names);
  static Dataset FromTFRecords(const std::vector<std::string>& paths, const TFRecordSource& source);
  static Dataset FromImageFolder(const std::string& directory, const ImageFolderSource& source);
  // Joins datasets row by row: row i consists of the components of row i of each dataset. Ends with
  // the shortest dataset.
  static Dataset Zip(std::vector<Dataset> datasets);

  // Applies `function` to each row.
  Dataset Map(RowFunction function, const MapOptions& options = {}) const;
  // Keeps the rows for which `keep` returns true.
  Dataset Filter(RowPredicate keep) const;
  // Calls `open` on each row to open a dataset, and takes rows from several of these datasets in
  // turn.
  Dataset Interleave(std::function<absl::StatusOr<Dataset>(const Row&)> open,
                     const InterleaveOptions& options = {}) const;
  // Appends the rows of `other` to those of this dataset.
  Dataset Concatenate(const Dataset& other) const;
  // Returns windows of `size` rows, stacked along a new leading dimension (tf.data's window,
  // batched). Drops windows that the end of the dataset cuts short.
  Dataset Window(int64_t size, const WindowOptions& options = {}) const;
  // Keeps the rows that the preceding stages return in the first complete pass in memory, for all
  // later passes and iterators.
  Dataset Cache() const;
  // Caches the rows in a file. If the file exists, passes read it; otherwise, the first complete
  // pass writes it. Remove the file when the preceding stages change. All processes on a host can
  // share the file. The rows need not fit in memory; they can be skipped, but shuffled only with a
  // buffer. DataLoss if the file is damaged or not a cache.
  Dataset Cache(const std::string& path) const;
  // Skips up to `limit` rows per pass that cannot be read or mapped (DataLoss or InvalidArgument),
  // and logs how many it skipped. Returns the error of the next such row.
  Dataset IgnoreErrors(int64_t limit) const;

  // Shuffles all elements: rows, or batches after Batch(). Each epoch has a different order, which
  // depends only on the seed and the epoch.
  Dataset Shuffle(uint64_t seed, const ShuffleOptions& options = {}) const;
  // Groups `rows` rows into a batch. Without Batch(), an iterator returns batches of one row.
  Dataset Batch(int64_t rows, BatchOptions options = {}) const;
  // Like Batch(), but pads rows of different shapes as `padding` specifies.
  Dataset PaddedBatch(int64_t rows, const Padding& padding = {}, BatchOptions options = {}) const;
  // Repeats the dataset `count` times. The preceding stages see each pass as one epoch.
  Dataset Repeat(int64_t count = kForever) const;
  // Keeps only the first `count` elements.
  Dataset Take(int64_t count) const;
  // Skips the first `count` elements. They are not read if the preceding stages have random access.
  Dataset Skip(int64_t count) const;
  // Keeps element `index` of each group of `num_shards` elements.
  Dataset Shard(int64_t num_shards, int64_t index) const;
  // Assembles up to `batches` batches ahead, on a background thread of the iterator. The default is
  // 1; 0 assembles each batch on demand. Prefetch() applies to the finished batches, regardless of
  // its position in the pipeline.
  Dataset Prefetch(int batches) const;

  const absl::Status& status() const;
  // Returns how many elements an iterator returns: rows, or batches after Batch(). Returns nullopt
  // if the iterator never ends, if the number is known only after reading all rows, or if status()
  // is not OK.
  std::optional<int64_t> size() const;
  // Returns the first stage error, or InvalidArgument if the elements are not batches. Opens no
  // files.
  absl::Status CheckBatched() const override;
  // Describes the source and the stages that determine the elements, as far as they are known, for
  // example `FromTensors(400 x float[2], int32[]).Shuffle(seed 1).Batch(32)`. Omits functions and
  // file names. Opens no files.
  std::string ToString() const;

  // Returns an iterator that runs the pipeline once. Iterators for the same epoch return the same
  // batches. A training loop that creates one iterator per epoch, and passes the epoch's number,
  // gets the same batches as with Repeat(). Only the shard's rows are copied.
  std::unique_ptr<BatchSource> MakeIterator(int64_t epoch, const BatchShard& shard) const override;
  std::unique_ptr<BatchSource> MakeIterator(int64_t epoch = 0) const;
  // Like MakeIterator(), but also computes a fingerprint, by which the workers compare their
  // datasets.
  FingerprintedBatches OpenShard(int64_t epoch, const BatchShard& shard) const override;
  // Like MakeIterator(), but the pipeline runs only on the rows of one worker's files, and each
  // batch has the shard's part of the rows that Batch() specifies. InvalidArgument if the dataset
  // has no list of files, or fewer files than workers.
  absl::StatusOr<FileBatches> OpenFiles(int64_t epoch, const FileShard& shard) const override;

 private:
  // Lists the dataset's files. Called once.
  using ListFiles = std::function<absl::StatusOr<std::vector<std::string>>()>;
  // Creates a dataset of some of the files.
  using ReadFiles = std::function<absl::StatusOr<Dataset>(const std::vector<std::string>& paths)>;

  explicit Dataset(std::shared_ptr<const DatasetBase> base);
  static Dataset Of(absl::StatusOr<RowPipeline> rows);
  // Returns the dataset or, if it is an error, a dataset with that error as its status().
  static Dataset OrError(absl::StatusOr<Dataset> dataset);
  // `named`: the paths as the user passed them, which can be patterns.
  static Dataset FromFiles(std::vector<std::string> named, ListFiles list, ReadFiles read);
  // Appends a stage (row_pipeline.h).
  Dataset Then(std::string name, std::function<absl::StatusOr<RowPipeline>(RowPipeline)> apply,
               bool makes_batches = false) const;
  // Records a source's files, with their sizes, for the fingerprint.
  Dataset ReadFrom(const std::vector<std::string>& paths) const;
  // Records only the names, for folders with so many files that querying all sizes is too slow.
  Dataset ReadFromNames(const std::vector<std::string>& names) const;
  Dataset WithIdentity(const std::string& files) const;
  // Returns the pipeline of all rows. Opens their files.
  const absl::StatusOr<RowPipeline>& Rows() const;

  std::shared_ptr<const DatasetBase> base_;  // never null
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_DATASET_H_
