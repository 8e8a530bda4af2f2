// SPDX-License-Identifier: Apache-2.0
//
// Dataset::Cache(path): keeps the rows of a pass in a file, for datasets larger than memory and for
// later runs. The file is a TFRecord file of a header, the rows, and the row count, without which
// the file is incomplete.
#ifndef MIRRORFLOW_TRAIN_DATA_FILE_CACHE_H_
#define MIRRORFLOW_TRAIN_DATA_FILE_CACHE_H_

#include <memory>
#include <string>

#include "train/data/row_stream.h"

namespace mirrorflow {

// The file of a cached dataset, shared by its iterators.
class FileCache;
std::shared_ptr<FileCache> CreateFileCache(std::string path);

// Returns the rows of the file, in order. If there is no file, returns the rows of `input`, and the
// first complete pass writes the file. DataLoss, naming the file and the record, if the file is
// damaged or not a cache.
std::unique_ptr<RowStream> CacheRowsInFile(std::unique_ptr<RowStream> input,
                                           std::shared_ptr<FileCache> cache);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_FILE_CACHE_H_
