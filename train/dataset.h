// SPDX-License-Identifier: Apache-2.0
//
// Dataset: where training data comes from, in the manner of tf.data. A cheap value that describes a
// pipeline and does nothing; MakeIterator() makes what runs it.
//
//   Dataset::FromTensors({images, labels}).Shuffle(/*seed=*/1).Batch(256).Prefetch(2)
//
// Only row numbers travel through the stages: the order is decided first, then the rows of a batch
// are gathered, once, into a buffer that is used again as soon as nobody holds the batch. After the
// first few batches nothing is allocated.
//
// A mistake in a stage sticks to the dataset and comes out of status() and of the iterator's
// Next().
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
  // Leave out a last batch with fewer rows than the others.
  bool drop_remainder = false;
};

class Dataset {
 public:
  static constexpr int64_t kForever = -1;

  Dataset() = default;  // no dataset: status() says so
  // The rows of the leading dimension, as many in each component (TensorFlow's from_tensor_slices).
  // The memory is shared, and must not change while an iterator reads it.
  static Dataset FromTensors(std::vector<Tensor> components);

  // All elements in a random order: rows, or batches if it comes after Batch(). Every epoch has its
  // own order, which seed and epoch decide.
  Dataset Shuffle(uint64_t seed) const;
  // `rows` rows at a time. Without it an iterator gives batches of one row.
  Dataset Batch(int64_t rows, BatchOptions options = {}) const;
  // All of it `count` times over; each time is one epoch to the stages before.
  Dataset Repeat(int64_t count = kForever) const;
  // The first `count` elements.
  Dataset Take(int64_t count) const;
  // Has up to `batches` finished batches waiting, made on a thread of the iterator's own: 1 unless
  // said otherwise; 0 makes each batch when it is asked for. Wherever it stands in the pipeline, it
  // is the finished batches that wait.
  Dataset Prefetch(int batches) const;

  const absl::Status& status() const { return status_; }
  // How many elements an iterator gives: rows, or batches after Batch(). Nothing if it never ends,
  // or if status() is not OK.
  std::optional<int64_t> size() const;

  // Runs the pipeline once. Two iterators of one epoch give the same; a training loop that makes
  // one iterator per epoch passes the epoch's number, and so gets the batches that Repeat() would.
  std::unique_ptr<BatchSource> MakeIterator(int64_t epoch = 0) const;

 private:
  using Stage = std::function<std::unique_ptr<RowStream>(std::unique_ptr<RowStream>)>;

  Dataset With(Stage stage, std::optional<int64_t> size) const;
  Dataset WithError(absl::string_view message) const;

  std::shared_ptr<const std::vector<Tensor>> components_;
  std::vector<Stage> stages_;
  std::optional<int64_t> size_ = 0;
  bool batched_ = false;
  int prefetch_ = 1;
  absl::Status status_ = absl::FailedPreconditionError("dataset: used before it was made");
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATASET_H_
