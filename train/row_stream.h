// SPDX-License-Identifier: Apache-2.0
//
// RowStream: the order of the rows of a dataset. A stream of elements, each of which is one row
// number or, after BatchRows, several. The order is fixed before any tensor is read. Streams are
// stacked, each owns its input, and all restart without allocating.
#ifndef MIRRORFLOW_TRAIN_ROW_STREAM_H_
#define MIRRORFLOW_TRAIN_ROW_STREAM_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace mirrorflow {

class RowStream {
 public:
  virtual ~RowStream() = default;
  // Goes back to the first element. `epoch` numbers the passes; a shuffle orders each differently.
  // Must be called before the first Next().
  virtual void Start(int64_t epoch) = 0;
  // Appends the next element to `rows`. Returns false at the end of the pass.
  virtual bool Next(std::vector<int64_t>* rows) = 0;
  // Skips the next `count` elements, or all that are left. Returns how many it has skipped.
  virtual int64_t Skip(int64_t count) = 0;
};

// The rows 0, 1, …, count - 1.
std::unique_ptr<RowStream> AllRows(int64_t count);
// Every element of `input` once, in an order that depends only on the seed and the epoch and is the
// same on every machine. All orders are equally likely. `input` must be finite.
std::unique_ptr<RowStream> ShuffleRows(std::unique_ptr<RowStream> input, uint64_t seed);
// Groups `size` elements of `input` into each element. The last one may have fewer, or is dropped.
std::unique_ptr<RowStream> BatchRows(std::unique_ptr<RowStream> input, int64_t size,
                                     bool drop_remainder);
// `count` passes over `input`; pass i of epoch e is epoch e * count + i of `input`. With a negative
// count the stream is endless, unless a pass is empty, and pass i is epoch e + i.
std::unique_ptr<RowStream> RepeatRows(std::unique_ptr<RowStream> input, int64_t count);
// The first `count` elements of `input`.
std::unique_ptr<RowStream> TakeRows(std::unique_ptr<RowStream> input, int64_t count);

// All elements of `input` but the first `count` of each pass.
std::unique_ptr<RowStream> SkipRows(std::unique_ptr<RowStream> input, int64_t count);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_ROW_STREAM_H_
