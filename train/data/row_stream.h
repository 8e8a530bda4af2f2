// SPDX-License-Identifier: Apache-2.0
//
// RowStream: a stage of a dataset, as a stream of elements. An element is one row or, after
// BatchRows, several. Streams are stacked, and each owns its input. The streams in this file only
// choose and order rows, without reading any; value_streams.h has those that read.
#ifndef MIRRORFLOW_TRAIN_DATA_ROW_STREAM_H_
#define MIRRORFLOW_TRAIN_DATA_ROW_STREAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/row.h"

namespace mirrorflow {

class RowStream {
 public:
  virtual ~RowStream() = default;
  // Restarts the stream at its first element. `epoch` numbers the passes; a shuffle orders each one
  // differently. Must be called before the first Next().
  virtual absl::Status Start(int64_t epoch) = 0;
  // Appends the next element to `rows`. Returns false at the end of the pass.
  virtual absl::StatusOr<bool> Next(std::vector<RowRef>* rows) = 0;
  // Skips the next `count` elements, or all that remain. Returns how many it skipped.
  virtual absl::StatusOr<int64_t> Skip(int64_t count) = 0;
};

// Skips elements of a stream that has no faster way than reading them.
absl::StatusOr<int64_t> SkipByReading(RowStream& stream, int64_t count);

// The rows 0, 1, …, count - 1.
std::unique_ptr<RowStream> AllRows(int64_t count);
// Every element of `input` once, in an order that depends only on the seed and the epoch, and is
// the same on every machine. All orders are equally likely. `input` must be finite.
std::unique_ptr<RowStream> ShuffleRows(std::unique_ptr<RowStream> input, uint64_t seed);
// Chooses each element at random from a buffer of `size` elements (tf.data's shuffle).
std::unique_ptr<RowStream> ShuffleInBuffer(std::unique_ptr<RowStream> input, uint64_t seed,
                                           int64_t size);
// Groups every `size` elements of `input` into one. The last group may be smaller, or is dropped.
std::unique_ptr<RowStream> BatchRows(std::unique_ptr<RowStream> input, int64_t size,
                                     bool drop_remainder);
// `count` passes over `input`; pass i of epoch e is epoch e * count + i of `input`. If count is
// negative, the stream ends only after an empty pass, and pass i is epoch e + i.
std::unique_ptr<RowStream> RepeatRows(std::unique_ptr<RowStream> input, int64_t count);
// The first `count` elements of `input`.
std::unique_ptr<RowStream> TakeRows(std::unique_ptr<RowStream> input, int64_t count);
// All elements of `input` except the first `count` of each pass.
std::unique_ptr<RowStream> SkipRows(std::unique_ptr<RowStream> input, int64_t count);
// Element `index` of each group of `num_shards` elements of `input`.
std::unique_ptr<RowStream> ShardRows(std::unique_ptr<RowStream> input, int64_t num_shards,
                                     int64_t index);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_ROW_STREAM_H_
