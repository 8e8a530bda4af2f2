// SPDX-License-Identifier: Apache-2.0
//
// Implements Dataset::Cache(path), which keeps the rows of a pass in a file, for datasets larger
// than memory and for later runs. The file is a TFRecord file that contains a header, the rows, and
// the row count. Without the row count, the file is incomplete.
#ifndef MIRRORFLOW_TRAIN_DATA_FILE_CACHE_H_
#define MIRRORFLOW_TRAIN_DATA_FILE_CACHE_H_

#include <string>

#include "train/data/row_stream.h"

namespace mirrorflow {

// Returns the file's rows, in order. If the file does not exist, returns the rows of `input`, and
// the first complete pass writes the file. The stream's functions return DataLoss, naming the file
// and the record, if the file is damaged or not a cache.
RowTransform CacheRowsInFile(std::string path);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_FILE_CACHE_H_
