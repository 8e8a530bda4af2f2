// SPDX-License-Identifier: Apache-2.0
//
// Pipeline stages that read rows from a source.
#ifndef MIRRORFLOW_TRAIN_DATA_LOADED_ROWS_H_
#define MIRRORFLOW_TRAIN_DATA_LOADED_ROWS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "train/data/row.h"
#include "train/data/row_readers.h"
#include "train/data/row_stream.h"

namespace mirrorflow {

// Returns the rows of the source that `open` opens for each pass.
std::unique_ptr<RowStream> SourceRows(OpenSource open);

struct LoadRowsOptions {
  int num_threads = 1;
  // How many rows per pass may fail. Failed rows are skipped, and a warning at the end of the pass
  // says how many.
  int64_t max_errors = 0;
};
// Returns the rows of `input`. `reader` reads the values of rows that have none.
std::unique_ptr<RowStream> LoadRows(std::unique_ptr<RowStream> input, RowReaderPtr reader,
                                    const LoadRowsOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_LOADED_ROWS_H_
