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
  // A longer record, such as a large graph, is left out: parsed, it could take 36 times its size.
  uint64_t max_event_bytes = uint64_t{4} << 20;
  // The sum over all records of a run: the bytes of each, uncompressed, and its memory when parsed.
  uint64_t max_total_bytes = uint64_t{2} << 30;
  // About the memory of all scalars, tags, texts and hyperparameters of a run.
  uint64_t max_kept_bytes = uint64_t{512} << 20;
};

// Adds the scalars, texts and hyperparameters of a run's TensorBoard event files, written by
// SummaryWriter, TensorFlow or PyTorch, each tag after the prefix of its file. The files of a
// folder follow one another as in `files`; a session start drops the scalars of its step and of
// later ones that come before it in the folder. A damaged record, or one that is cut short because
// the run has not ended, ends the file with a note. A limit on all files ends the reading, with a
// note for each file that is not read to its end.
void ReadEventFiles(std::vector<EventFile> files, RunData* run, const EventFileLimits& limits = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_EVENT_FILES_H_
