// SPDX-License-Identifier: Apache-2.0
//
// Stages that make one stream of several. Their elements are single rows with a value, numbered
// from 0 in each pass.
#ifndef MIRRORFLOW_TRAIN_DATA_COMBINED_ROWS_H_
#define MIRRORFLOW_TRAIN_DATA_COMBINED_ROWS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/row.h"
#include "train/data/row_stream.h"

namespace mirrorflow {

// Row i has the components of row i of all inputs. Ends with the shortest input.
std::unique_ptr<RowStream> ZipRows(std::vector<std::unique_ptr<RowStream>> inputs);

// The rows of all inputs, one after another.
std::unique_ptr<RowStream> ConcatenateRows(std::vector<std::unique_ptr<RowStream>> inputs);

// The rows of the streams that `open` makes of the rows of `input`: `cycle_length` of them are open
// at a time and give `block_length` rows in turn (tf.data's interleave).
using OpenRows = std::function<absl::StatusOr<std::unique_ptr<RowStream>>(const Row&)>;
std::unique_ptr<RowStream> InterleaveRows(std::unique_ptr<RowStream> input, OpenRows open,
                                          int64_t cycle_length, int64_t block_length);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_COMBINED_ROWS_H_
