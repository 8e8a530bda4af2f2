// SPDX-License-Identifier: Apache-2.0
//
// RowStream: a pipeline stage as a stream of elements. An element is one row or, after BatchRows,
// several. Each stream owns its input stream. The streams in this file choose and order rows
// without reading them; those in value_streams.h read rows.
#ifndef MIRRORFLOW_TRAIN_DATA_ROW_STREAM_H_
#define MIRRORFLOW_TRAIN_DATA_ROW_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
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

// Creates a stage of a pipeline from the stream before it.
using RowTransform = std::function<std::unique_ptr<RowStream>(std::unique_ptr<RowStream> input)>;

// Returns a transform that creates a Stream from its input and `arguments`.
template <typename Stream, typename... Arguments>
RowTransform TransformOf(Arguments... arguments) {
  return [=](std::unique_ptr<RowStream> input) {
    return std::make_unique<Stream>(std::move(input), arguments...);
  };
}

// The functions below return transforms. Their comments say what the resulting stream returns.
//
// Returns every element of `input` once, in an order that depends only on the seed and the epoch,
// so it is the same on every machine. All orders are equally likely. `input` must be finite.
RowTransform ShuffleRows(uint64_t seed);
// Chooses each element at random from a buffer of `size` elements (tf.data's shuffle).
RowTransform ShuffleInBuffer(uint64_t seed, int64_t size);
// Groups every `size` elements of `input` into one. If the last group is smaller, it is dropped if
// `drop_remainder` is true, and kept otherwise.
RowTransform BatchRows(int64_t size, bool drop_remainder);
// Returns `count` passes over `input`. In epoch e, pass i is epoch e * count + i of `input`. If
// `count` is negative, the stream ends only after an empty pass, and pass i is epoch e + i.
RowTransform RepeatRows(int64_t count);
// Returns the first `count` elements of `input`.
RowTransform TakeRows(int64_t count);
// Returns all elements of `input` except the first `count` of each pass.
RowTransform SkipRows(int64_t count);
// Returns element `index` of each group of `num_shards` elements of `input`.
RowTransform ShardRows(int64_t num_shards, int64_t index);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_ROW_STREAM_H_
