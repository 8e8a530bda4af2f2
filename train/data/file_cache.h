// SPDX-License-Identifier: Apache-2.0
//
// Dataset::Cache(path): the rows of a pass in a file, for data sets that are larger than memory and
// for later runs. The file is a TFRecord file: a header, the rows, and the number of rows, without
// which the file is not complete.
#ifndef MIRRORFLOW_TRAIN_DATA_FILE_CACHE_H_
#define MIRRORFLOW_TRAIN_DATA_FILE_CACHE_H_

#include <memory>
#include <string>

#include "train/data/row_stream.h"

namespace mirrorflow {

// The file of a cached dataset, shared by its iterators.
class FileCache;
std::shared_ptr<FileCache> CreateFileCache(std::string path);

// The rows of the file, in order. If there is no file, the rows of `input`, of which the first
// complete pass makes the file. DataLoss, with the file and the record, if the file is damaged or
// is not such a cache.
std::unique_ptr<RowStream> CacheRowsInFile(std::unique_ptr<RowStream> input,
                                           std::shared_ptr<FileCache> cache);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_FILE_CACHE_H_
