// SPDX-License-Identifier: Apache-2.0
//
// Stages whose elements depend on values. The elements of their inputs and results are single rows
// with a value.
#ifndef MIRRORFLOW_TRAIN_DATA_VALUE_STREAMS_H_
#define MIRRORFLOW_TRAIN_DATA_VALUE_STREAMS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "train/data/row.h"
#include "train/data/row_readers.h"
#include "train/data/row_stream.h"

namespace mirrorflow {

// The rows for which `keep` is true.
std::unique_ptr<RowStream> FilterRows(std::unique_ptr<RowStream> input, RowPredicate keep);

// Windows of rows, stacked along a new leading dimension. A window that the end cuts is left out.
// The results are numbered from 0 in each pass.
std::unique_ptr<RowStream> WindowRows(std::unique_ptr<RowStream> input, const WindowRange& range);

// The rows of a complete pass, shared by the iterators of a dataset.
class RowCache;
std::shared_ptr<RowCache> CreateRowCache();
// The rows of `input`, from `cache` as soon as one pass has been complete. The values of later
// passes are those of the first.
std::unique_ptr<RowStream> CacheRows(std::unique_ptr<RowStream> input,
                                     std::shared_ptr<RowCache> cache);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_VALUE_STREAMS_H_
