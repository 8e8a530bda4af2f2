// SPDX-License-Identifier: Apache-2.0
//
// Reads a run's files. event_files.cc, log_lines.cc and step_timeline.cc each read one kind of
// file.
#ifndef MIRRORFLOW_TOOLS_REPORT_READ_RUN_H_
#define MIRRORFLOW_TOOLS_REPORT_READ_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/report/run_data.h"

namespace mirrorflow {

// Reads these files in a directory and its subdirectories:
//   *tfevents*                       event files; tags begin with the subdirectory
//   *.jsonl *.log *.txt *.err *.out  logs (ReadLogLines)
//   *.json                           traces, or logs
//   step-*                           checkpoints
// Ignores other files and symbolic links. Returns NotFound if the directory does not exist,
// FailedPrecondition if it is not a directory, and InvalidArgument if it has none of these files.
absl::StatusOr<RunData> ReadRun(const std::string& directory);

struct EventFile {
  std::string path;
  std::string prefix;  // prepended to the file's tags; the same for all files in a folder
};

// Limits on memory and time. The size of a file does not limit memory and time, because the file
// can be compressed, and a short record can hold millions of values.
struct EventFileLimits {
  uint64_t max_record_bytes = uint64_t{64} << 20;  // a longer record ends the reading of its file
  // Longer records, such as large graphs, are skipped: parsing can grow a record 36-fold.
  uint64_t max_event_bytes = uint64_t{4} << 20;
  // Limits the sum of the uncompressed and the parsed size of all records of a run.
  uint64_t max_total_bytes = uint64_t{2} << 30;
  // Limits the approximate memory of a run's scalars, tags, texts and hyperparameters.
  uint64_t max_kept_bytes = uint64_t{512} << 20;
};

// Adds the scalars, texts and hyperparameters in a run's TensorBoard event files, written
// by SummaryWriter, TensorFlow or PyTorch. Prepends each file's prefix to its tags. Reads
// a folder's files in the order of `files`. A session start drops the folder's earlier scalars at
// its step and later steps. A damaged or truncated record ends the reading of its file and adds a
// note. Once the run reaches a limit, reading stops, and a note is added for each file that was not
// read to the end.
void ReadEventFiles(std::vector<EventFile> files, RunData* run, const EventFileLimits& limits = {});

// Adds the lines of a text file that have one of the following forms, and returns how many it
// added. Ignores other lines, because a log can contain anything.
//   {"time":"…","worker":0,"epoch":1,"step":5,…}   by Progress with LogFormat::kJson; the launcher
//                                                   may have prepended the worker's index
//   {"time":"…","event":"saved",…}                  by EventLog
//   {"time":"…","severity":"WARNING","message":…}   by MIRRORFLOW_LOG_FORMAT=json
//   STEP LOSS                                       by --loss_log, starting at the first line
// Worker 0's values represent all workers; lines from other workers add only warnings and errors.
int ReadLogLines(absl::string_view text, RunData* run);

// Reads a trace (TraceWriter) and returns the step of median length. Steps with the same name in
// several processes are one step. Returns InvalidArgument if the text is not a trace or has no
// steps.
absl::StatusOr<StepTimeline> ReadStepTimeline(const std::string& json);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_READ_RUN_H_
