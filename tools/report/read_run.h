// SPDX-License-Identifier: Apache-2.0
//
// Reads the files of a run. event_files.cc, log_lines.cc and step_timeline.cc read a kind of file
// each.
#ifndef MIRRORFLOW_TOOLS_REPORT_READ_RUN_H_
#define MIRRORFLOW_TOOLS_REPORT_READ_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/report/run_data.h"

namespace mirrorflow {

// Reads what it knows of the files in a directory and its subdirectories:
//   *tfevents*                       event files; tags begin with the subdirectory
//   *.jsonl *.log *.txt *.err *.out  logs (ReadLogLines)
//   *.json                           traces, or logs
//   step-*                           checkpoints
// The other files are ignored, and so are symbolic links. NotFound if there is no such directory,
// FailedPrecondition if it is not one, InvalidArgument if it has no file of a run.
absl::StatusOr<RunData> ReadRun(const std::string& directory);

struct EventFile {
  std::string path;
  std::string prefix;  // of its tags, the same for all files of a folder
};

// Bounds on memory and time, because a small file may be compressed and a short record may hold
// millions of values.
struct EventFileLimits {
  uint64_t max_record_bytes = uint64_t{64} << 20;  // a longer record ends its file
  // Longer records, such as large graphs, are skipped: parsing can grow a record 36-fold.
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

// Adds the lines of a text file that it knows, and returns their number. Other lines are ignored:
// a log may have any. Known are
//   {"time":"…","worker":0,"epoch":1,"step":5,…}   of Progress with LogFormat::kJson; the launcher
//                                                   may have put the number of the worker before
//   {"time":"…","event":"saved",…}                  of EventLog
//   {"time":"…","severity":"WARNING","message":…}   of MIRRORFLOW_LOG_FORMAT=json
//   STEP LOSS                                       of --loss_log, from the first line on
// Values of worker 0 are those of all workers, so lines of others give only their warnings.
int ReadLogLines(absl::string_view text, RunData* run);

// Reads a trace (TraceWriter) and returns the step of median length. Steps of several processes
// with the same name are one. InvalidArgument if the text is not a trace, or has no step.
absl::StatusOr<StepTimeline> ReadStepTimeline(const std::string& json);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_READ_RUN_H_
