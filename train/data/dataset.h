// SPDX-License-Identifier: Apache-2.0
//
// Dataset: a training data pipeline in the style of tf.data. A Dataset only describes the pipeline,
// so it is cheap to copy. Pass it to Trainer::Fit or Strategy::Distribute; or call MakeIterator(),
// which returns an iterator that runs the pipeline.
//
//   Dataset::FromTensors({images, labels}).Shuffle(/*seed=*/1).Map(augment).Batch(256).Prefetch(2)
//
// Terms: a *row* is one example, a list of tensors. Each of its tensors is a *component*, such as
// the image or the label. A *batch* has the same components, each with one additional leading
// dimension. The *elements* of a dataset are rows or, after Batch(), batches. A *source* creates
// the rows; a *stage* is a function that changes them, such as Map() or Batch(). A *pass* reads the
// source once from start to end. An *epoch* is the pass that a training loop makes over the whole
// dataset; with Repeat(), an epoch has several passes.
//
// Sources either have random access (FromTensors, FromRandomAccess, FromNpy, FromCsv, …) or are
// read sequentially (FromSource, FromGenerator). With random access, only row indices pass through
// Shuffle, Shard, Take, Skip, Repeat and Batch: a batch's rows are read and mapped once their order
// is known, and each worker reads only its own rows. Stages that depend on the rows' values read
// every row on every worker: Filter, Interleave, Cache and IgnoreErrors; and also Zip, Concatenate
// and Window if their input rows are not in the source's order.
//
// Errors: functions that return a Dataset do not fail. The dataset keeps the first error of its
// source or of a stage, such as InvalidArgument for an option that is out of range, and status()
// and the iterator's Next() return it. FromCsv() and FromTFRecords() open their files when they are
// first needed, possibly in status() or size(). With AutoShardPolicy::kFile, each worker opens only
// its own files.
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
  // Each element is chosen at random from a buffer of this many elements. 0: from all elements,
  // whose number must then be known. The buffer holds the values of rows that an earlier stage has
  // read, otherwise only their indices.
  int64_t buffer_size = 0;
};

struct MapOptions {
  // How many threads read and map rows, 1 to 1024, or Dataset::kAutotune: one per CPU that the
  // process can use. The largest value of any stage applies to the whole pipeline. Rows stay in
  // order.
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

// Fills a row and returns true, or returns false at the end of the pass; it is not called after
// that.
using Generator = std::function<absl::StatusOr<bool>(Row*)>;

class Dataset final : public BatchProvider {
 public:
  static constexpr int64_t kForever = -1;  // for Repeat()
  static constexpr int kAutotune = -1;     // for MapOptions::num_parallel_calls

  Dataset();  // a dataset without a source; status() is FailedPrecondition
  // There are no move functions: a copy is just as cheap, and a moved-from dataset would have no
  // base_.
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;

  // Returns the rows of tensors along their leading dimension, which must be equal in all of them
  // (TensorFlow's from_tensor_slices): images [60000, 784] and labels [60000] give 60000 rows
  // {[784], []}. The dataset shares the tensors' memory, which must not change while an iterator
  // reads it.
  static Dataset FromTensors(std::vector<Tensor> components);
  // Returns `rows` rows, with random access; read(i, &row) fills row i. If the pipeline has several
  // threads, they call `read` concurrently.
  static Dataset FromRandomAccess(int64_t rows, std::function<absl::Status(int64_t, Row*)> read);
  // Returns the rows of a RowSource (row.h), which `open` opens for each pass. `rows` is the row
  // count of a pass, if known.
  static Dataset FromSource(OpenSource open, std::optional<int64_t> rows = std::nullopt);
  // Returns the rows of a generator, which `make` creates for each pass. `rows` is the row count of
  // a pass, if known.
  //
  //   Dataset::FromGenerator([](int64_t) {
  //     return [i = 0](Row* row) mutable -> absl::StatusOr<bool> {
  //       if (i == 100) return false;
  //       *row = {Tensor::Scalar(static_cast<float>(i++))};
  //       return true;
  //     };
  //   }, /*rows=*/100)
  static Dataset FromGenerator(std::function<Generator(int64_t epoch)> make,
                               std::optional<int64_t> rows = std::nullopt);
  // These functions return the rows of files, with the options and errors in sources.h.
  //   Csv:         the rows of the file.
  //   Npy:         the rows of the arrays, as in FromTensors: one component per file. The files are
  //                memory-mapped.
  //   Npz:         the same for the arrays with these names in one file.
  //   TFRecords:   the records of all files.
  //   ImageFolder: rows {image, label} from a folder with one subfolder per class.
  // A Csv or TFRecords path can be a pattern such as "train-*.csv", which stands for all matching
  // files in alphabetical order.
  static Dataset FromCsv(const std::string& path, const CsvSource& source);
  static Dataset FromNpy(const std::vector<std::string>& paths);
  static Dataset FromNpz(const std::string& path, const std::vector<std::string>& names);
  static Dataset FromTFRecords(const std::vector<std::string>& paths, const TFRecordSource& source);
  static Dataset FromImageFolder(const std::string& directory, const ImageFolderSource& source);
  // Combines datasets row by row: row i consists of the components of row i of each dataset. Ends
  // with the shortest dataset.
  static Dataset Zip(std::vector<Dataset> datasets);

  // Applies `function` to each row, for example to decode or augment it. The function changes the
  // row in place, and can also change the number of components:
  // `[](Row* row) -> absl::Status { … }`.
  Dataset Map(RowFunction function, const MapOptions& options = {}) const;
  // Keeps the rows for which `keep` returns true.
  Dataset Filter(RowPredicate keep) const;
  // Calls `open` on each row to open a dataset, such as the lines of a file that the row names, and
  // takes rows from several of these datasets in turn. The datasets must not be batched.
  Dataset Interleave(std::function<absl::StatusOr<Dataset>(const Row&)> open,
                     const InterleaveOptions& options = {}) const;
  // Appends the rows of `other` to those of this dataset. Both must be unbatched, and this dataset
  // finite.
  Dataset Concatenate(const Dataset& other) const;
  // Returns windows of `size` rows, stacked along a new leading dimension (tf.data's window,
  // batched). Drops windows that the end of the dataset cuts short.
  Dataset Window(int64_t size, const WindowOptions& options = {}) const;
  // Keeps the rows of the first complete pass over the preceding stages in memory. All later passes
  // and iterators return the same rows.
  Dataset Cache() const;
  // Like Cache() above, in a file. If the file exists, passes read it; otherwise, the first
  // complete pass writes it. Remove the file when the preceding stages change. All processes on a
  // host can share the file. The rows need not fit in memory, unless a later Shuffle() without a
  // buffer_size holds all of them. The iterator returns DataLoss if the file is damaged or not a
  // cache.
  Dataset Cache(const std::string& path) const;
  // Skips up to `limit` rows per pass that cannot be read or mapped because of DataLoss or
  // InvalidArgument, and logs how many it skipped. The iterator returns the error of the next such
  // row.
  Dataset IgnoreErrors(int64_t limit) const;

  // Shuffles all elements: rows, or batches after Batch(). Each pass has a different order, which
  // depends only on the seed and the pass, so it is the same on every worker.
  Dataset Shuffle(uint64_t seed, const ShuffleOptions& options = {}) const;
  // Groups `rows` rows into a batch. This is the global batch: `rows` counts the rows of all
  // replicas. The rows of a batch must have equal shapes. Without Batch(), an iterator returns
  // batches of one row.
  Dataset Batch(int64_t rows, BatchOptions options = {}) const;
  // Like Batch(), but first pads rows of different shapes as `padding` specifies (padding.h).
  Dataset PaddedBatch(int64_t rows, const Padding& padding = {}, BatchOptions options = {}) const;
  // Repeats the dataset `count` times. For the preceding stages, each repetition is a separate
  // pass: Shuffle(1).Repeat(2) has two different orders.
  Dataset Repeat(int64_t count = kForever) const;
  // Keeps only the first `count` elements.
  Dataset Take(int64_t count) const;
  // Skips the first `count` elements. They are not read if the preceding stages have random access.
  Dataset Skip(int64_t count) const;
  // Keeps the element at `index`, from 0, of each group of `num_shards` elements. Not needed for
  // distribution: a strategy gives each worker its rows.
  Dataset Shard(int64_t num_shards, int64_t index) const;
  // Sets how many batches a background thread of the iterator assembles ahead. Without this call,
  // it is 1; 0 assembles each batch on demand. Prefetch() applies to the finished batches, wherever
  // it is called in the pipeline.
  Dataset Prefetch(int batches) const;

  const absl::Status& status() const;
  // Returns the number of elements in one epoch: rows, or batches after Batch(). Returns nullopt if
  // the dataset never ends, if the number is known only after reading all rows, or if status() is
  // not OK.
  std::optional<int64_t> size() const;
  // Returns the first stage error, or InvalidArgument if the elements are not batches. Opens no
  // files.
  absl::Status CheckBatched() const override;
  // Describes the source and the stages that determine the elements, as far as they are known, for
  // example `FromTensors(400 x float[2], int32[]).Shuffle(seed 1).Batch(32)`. Omits functions and
  // file names. Opens no files.
  std::string ToString() const;

  // Returns an iterator that runs the pipeline once. Iterators for the same epoch return the same
  // batches. A training loop that creates one iterator per epoch, and passes the epoch's number
  // from 0, gets the same batches as with Repeat(). The iterator copies only the rows of `shard`
  // into its batches.
  std::unique_ptr<BatchSource> MakeIterator(int64_t epoch, const BatchShard& shard) const override;
  std::unique_ptr<BatchSource> MakeIterator(int64_t epoch = 0) const;
  // Like MakeIterator(), but also computes a fingerprint. The workers compare their fingerprints to
  // find out whether their datasets are equal.
  FingerprintedBatches OpenShard(int64_t epoch, const BatchShard& shard) const override;
  // Like MakeIterator(), but the pipeline runs only on the rows of one worker's files, and each
  // batch has the shard's part of the rows that Batch() specifies. Returns InvalidArgument if the
  // dataset has no list of files, or fewer files than workers.
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
  Dataset Then(std::string name, std::function<absl::Status(RowPipeline&)> apply,
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
