// SPDX-License-Identifier: Apache-2.0
//
// RowStream: a pipeline stage as a stream of elements. An element is one row or, after BatchRows,
// several. Each stream owns its input stream. The streams in this file choose and order rows
// without reading them; those in value_streams.h read rows.
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
  // Restarts the stream at its first element. `epoch` is the index of the pass; a shuffle orders
  // each pass differently. Must be called before the first Next().
  virtual absl::Status Start(int64_t epoch) = 0;
  // Appends the next element to `rows`. Returns false at the end of the pass.
  virtual absl::StatusOr<bool> Next(std::vector<RowRef>* rows) = 0;
  // Skips the next `count` elements, or all that remain, and returns how many it skipped.
  virtual absl::StatusOr<int64_t> Skip(int64_t count) = 0;
};

// Implements RowStream::Skip for streams that cannot skip faster than by calling Next.
absl::StatusOr<int64_t> SkipByReading(RowStream& stream, int64_t count);

// Returns rows 0, 1, …, count - 1.
std::unique_ptr<RowStream> AllRows(int64_t count);
// Returns every element of `input` once, in an order that depends only on the seed and the epoch,
// so it is the same on every machine. All orders are equally likely. `input` must be finite.
std::unique_ptr<RowStream> ShuffleRows(std::unique_ptr<RowStream> input, uint64_t seed);
// Chooses each element at random from a buffer of `size` elements (tf.data's shuffle).
std::unique_ptr<RowStream> ShuffleInBuffer(std::unique_ptr<RowStream> input, uint64_t seed,
                                           int64_t size);
// Groups every `size` elements of `input` into one. If the last group is smaller, it is dropped if
// `drop_remainder` is true, and kept otherwise.
std::unique_ptr<RowStream> BatchRows(std::unique_ptr<RowStream> input, int64_t size,
                                     bool drop_remainder);
// Returns `count` passes over `input`. In epoch e, pass i is epoch e * count + i of `input`. If
// `count` is negative, the stream ends only after an empty pass, and pass i is epoch e + i.
std::unique_ptr<RowStream> RepeatRows(std::unique_ptr<RowStream> input, int64_t count);
// Returns the first `count` elements of `input`.
std::unique_ptr<RowStream> TakeRows(std::unique_ptr<RowStream> input, int64_t count);
// Returns all elements of `input` except the first `count` of each pass.
std::unique_ptr<RowStream> SkipRows(std::unique_ptr<RowStream> input, int64_t count);
// Returns element `index` of each group of `num_shards` elements of `input`.
std::unique_ptr<RowStream> ShardRows(std::unique_ptr<RowStream> input, int64_t num_shards,
                                     int64_t index);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_ROW_STREAM_H_
