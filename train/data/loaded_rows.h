// SPDX-License-Identifier: Apache-2.0
//
// Stages that read rows from a source.
#ifndef MIRRORFLOW_TRAIN_DATA_LOADED_ROWS_H_
#define MIRRORFLOW_TRAIN_DATA_LOADED_ROWS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "train/data/row.h"
#include "train/data/row_readers.h"
#include "train/data/row_stream.h"

namespace mirrorflow {

// The rows of the source that `open` returns for a pass.
std::unique_ptr<RowStream> SourceRows(OpenSource open);

struct LoadRowsOptions {
  int num_threads = 1;
  // How many rows of a pass may fail. They are left out, and counted in a warning at its end.
  int64_t max_errors = 0;
};
// The rows of `input`, which may lack their values, read by `reader`.
std::unique_ptr<RowStream> LoadRows(std::unique_ptr<RowStream> input, RowReaderPtr reader,
                                    const LoadRowsOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_LOADED_ROWS_H_
