// SPDX-License-Identifier: Apache-2.0
//
// Stages that use row values: filters, windows, caches, and stages that combine several streams.
// Their inputs and outputs are streams of single rows with values that have already been read.
#ifndef MIRRORFLOW_TRAIN_DATA_VALUE_STREAMS_H_
#define MIRRORFLOW_TRAIN_DATA_VALUE_STREAMS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/row.h"
#include "train/data/row_readers.h"
#include "train/data/row_stream.h"

namespace mirrorflow {

// Returns the rows for which `keep` returns true.
RowTransform FilterRows(RowPredicate keep);

// Returns windows of rows, stacked along a new leading dimension. Drops windows that the end of the
// input cuts short. Numbers the windows from 0 in each pass.
RowTransform WindowRows(const WindowRange& range);

// Returns the rows of `input`. Once a pass is complete, all streams of the same transform return
// the rows of that pass, which they keep in memory.
RowTransform CacheRows();

// The stages below number their rows from 0 in each pass.
//
// Returns row i as the concatenated components of row i of each input. Ends with the shortest
// input.
std::unique_ptr<RowStream> ZipRows(std::vector<std::unique_ptr<RowStream>> inputs);

// Returns the rows of all inputs, one input after another.
std::unique_ptr<RowStream> ConcatenateRows(std::vector<std::unique_ptr<RowStream>> inputs);

// Returns the rows of the streams that `open` opens for the rows of `input`. `cycle_length` streams
// are open at a time, and return `block_length` rows each in turn (tf.data's interleave).
using OpenRows = std::function<absl::StatusOr<std::unique_ptr<RowStream>>(const Row&)>;
RowTransform InterleaveRows(OpenRows open, int64_t cycle_length, int64_t block_length);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_VALUE_STREAMS_H_
