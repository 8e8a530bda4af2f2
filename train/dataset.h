// SPDX-License-Identifier: Apache-2.0
//
// Dataset: a source of training data in the style of tf.data. It is a cheap value that only
// describes a pipeline; MakeIterator() returns an iterator that runs it.
//
//   Dataset::FromTensors({images, labels}).Shuffle(/*seed=*/1).Batch(256).Prefetch(2)
//
// Only row numbers pass through the stages. Once their order is fixed, the rows of a batch are
// copied once into a buffer, which is reused as soon as the batch is released. Nothing is allocated
// after the first few batches.
//
// The dataset keeps the first error of a stage; status() and the iterator's Next() return it.
#ifndef MIRRORFLOW_TRAIN_DATASET_H_
#define MIRRORFLOW_TRAIN_DATASET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "framework/core/batch_source.h"
#include "framework/core/tensor.h"
#include "train/row_stream.h"

namespace mirrorflow {

struct BatchOptions {
  // Drop the last batch if it has fewer rows than the others.
  bool drop_remainder = false;
};

class Dataset {
 public:
  static constexpr int64_t kForever = -1;

  Dataset() = default;  // empty; status() is an error
  // The elements are the rows of the leading dimension, which must be the same in all components
  // (TensorFlow's from_tensor_slices). The dataset shares the memory of the components, which must
  // not change while an iterator reads it.
  static Dataset FromTensors(std::vector<Tensor> components);

  // Shuffles all elements: rows, or batches after Batch(). Each epoch has its own order, which
  // depends only on the seed and the epoch.
  Dataset Shuffle(uint64_t seed) const;
  // Groups `rows` rows into a batch. Without Batch(), an iterator returns batches of one row.
  Dataset Batch(int64_t rows, BatchOptions options = {}) const;
  // Repeats the dataset `count` times. Each pass is one epoch to the preceding stages.
  Dataset Repeat(int64_t count = kForever) const;
  // Keeps only the first `count` elements.
  Dataset Take(int64_t count) const;
  // Leaves out the first `count` elements, without copying their rows.
  Dataset Skip(int64_t count) const;
  // Keeps up to `batches` finished batches ready, which a background thread of the iterator makes.
  // The default is 1; 0 makes each batch on demand. Prefetch() applies to the finished batches
  // regardless of its position in the pipeline.
  Dataset Prefetch(int batches) const;

  const absl::Status& status() const { return status_; }
  // Number of elements that an iterator returns: rows, or batches after Batch(). nullopt if the
  // iterator never ends or if status() is not OK.
  std::optional<int64_t> size() const;

  // Returns an iterator that runs the pipeline once. Iterators of the same epoch return the same
  // batches. A training loop that makes one iterator per epoch passes the number of the epoch, and
  // so gets the same batches as with Repeat(). Only the rows of the share are copied.
  std::unique_ptr<BatchSource> MakeIterator(int64_t epoch = 0, const BatchShare& share = {}) const;

 private:
  using Stage = std::function<std::unique_ptr<RowStream>(std::unique_ptr<RowStream>)>;

  Dataset With(Stage stage, std::optional<int64_t> size) const;
  Dataset WithError(absl::string_view message) const;

  std::shared_ptr<const std::vector<Tensor>> components_;
  std::vector<Stage> stages_;
  std::optional<int64_t> size_ = 0;
  bool batched_ = false;
  int prefetch_ = 1;
  absl::Status status_ = absl::FailedPreconditionError("dataset: used before it was initialized");
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATASET_H_
