// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_REPORT_EVENT_FILES_H_
#define MIRRORFLOW_TOOLS_REPORT_EVENT_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/report/run_data.h"

namespace mirrorflow {

struct EventFile {
  std::string path;
  std::string prefix;  // of its tags, the same for all files of a folder
};

// Bounds on memory and time, because a small file may be compressed and a short record may hold
// millions of values.
struct EventFileLimits {
  uint64_t max_record_bytes = uint64_t{64} << 20;  // a longer record ends its file
  // Skip longer records, such as large graphs: once parsed, one can take 36 times its size.
  uint64_t max_event_bytes = uint64_t{4} << 20;
  // Limits the uncompressed plus the parsed size of all records of a run.
  uint64_t max_total_bytes = uint64_t{2} << 30;
  // Limits the approximate memory of a run's scalars, tags, texts and hyperparameters.
  uint64_t max_kept_bytes = uint64_t{512} << 20;
};

// Adds the scalars, texts and hyperparameters of a run's TensorBoard event files, written by
// SummaryWriter, TensorFlow or PyTorch. Prepends each file's prefix to its tags. The files of a
// folder are read in the order of `files`. A session start drops earlier scalars of the folder from
// its step on. A damaged or truncated record ends its file and adds a note. Once the run reaches a
// limit, reading stops, and each file that was not read to its end gets a note.
void ReadEventFiles(std::vector<EventFile> files, RunData* run, const EventFileLimits& limits = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_EVENT_FILES_H_
