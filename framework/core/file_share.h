// SPDX-License-Identifier: Apache-2.0
//
// How the workers divide the files of a dataset: AutoShardPolicy::kFile.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_FILE_SHARE_H_
#define MIRRORFLOW_FRAMEWORK_CORE_FILE_SHARE_H_

#include <memory>
#include <string>

#include "framework/core/batch_source.h"

namespace mirrorflow {

// The files of a worker: of all files, those whose index is `worker` modulo `num_workers`. By
// default, all files.
struct FileShare {
  int worker = 0;
  int num_workers = 1;
  BatchShare batch = {};  // how many rows of a batch are those of its files

  friend bool operator==(const FileShare&, const FileShare&) = default;
};

// The rows of the files of one worker.
struct FileBatches {
  std::unique_ptr<BatchSource> source;
  // No batch may have fewer rows than the others, so that the first worker to end ends all.
  bool drop_remainder = false;
  // Identifies the files of all workers, which must have the same list.
  std::string files = "";
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_FILE_SHARE_H_
