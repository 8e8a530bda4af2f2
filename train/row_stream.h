// SPDX-License-Identifier: Apache-2.0
//
// RowStream: which rows of a dataset come when. A stream of elements, each of them one row number
// or (after BatchRows) several; no tensor is touched before the order is decided. Streams are
// stacked, each owning its input, and start over without allocating.
#ifndef MIRRORFLOW_TRAIN_ROW_STREAM_H_
#define MIRRORFLOW_TRAIN_ROW_STREAM_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace mirrorflow {

class RowStream {
 public:
  virtual ~RowStream() = default;
  // Goes back to the first element. `epoch` numbers the passes: a shuffle orders each its own way.
  // To be called before the first Next().
  virtual void Start(int64_t epoch) = 0;
  // Appends the next element to `rows`; false at the end of the pass.
  virtual bool Next(std::vector<int64_t>* rows) = 0;
};

// 0, 1, …, count - 1.
std::unique_ptr<RowStream> AllRows(int64_t count);
// Every element of `input` once, in an order that depends on seed and epoch only, the same on every
// machine; all orders are equally likely. `input` must end.
std::unique_ptr<RowStream> ShuffleRows(std::unique_ptr<RowStream> input, uint64_t seed);
// Elements of `size` elements of `input` each; the last may have fewer, or is dropped.
std::unique_ptr<RowStream> BatchRows(std::unique_ptr<RowStream> input, int64_t size,
                                     bool drop_remainder);
// `count` passes over `input`, pass i of epoch e being epoch e * count + i of `input`; endless (and
// epoch e + i) for a negative count, unless a pass has nothing.
std::unique_ptr<RowStream> RepeatRows(std::unique_ptr<RowStream> input, int64_t count);
// The first `count` elements of `input`.
std::unique_ptr<RowStream> TakeRows(std::unique_ptr<RowStream> input, int64_t count);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_ROW_STREAM_H_
