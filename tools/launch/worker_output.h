// SPDX-License-Identifier: Apache-2.0
//
// Prints the output of several workers, line by line, each prefixed with its worker's number.
// With MIRRORFLOW_LOG_FORMAT=json, the lines on standard error are JSON objects instead: objects
// that the workers print stay unchanged, and every other line becomes the message of an object.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_WORKER_OUTPUT_H_
#define MIRRORFLOW_TOOLS_LAUNCH_WORKER_OUTPUT_H_

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

class WorkerOutput {
 public:
  enum Stream { kOutput = 0, kErrors = 1 };

  struct Options {
    int num_workers = 1;
    std::vector<int> show = {};  // the workers whose output is printed; all if empty
    // Also writes all output to this directory: worker_N.out, worker_N.err and, with times,
    // all.log.
    std::string log_dir = "";
  };
  // Returns an error if the directory is not writable.
  static absl::StatusOr<WorkerOutput> Create(const Options& options);
  WorkerOutput(WorkerOutput&&) = default;

  // Once `fd` becomes readable, drops output that is not read, instead of blocking.
  void StopWaitingOn(int fd) { interrupt_ = fd; }

  void Add(int worker, Stream stream, absl::string_view bytes);
  // Ends a worker's last line if it has no newline.
  void Finish(int worker);

  // Returns ResourceExhausted, naming the stream or file, if not all output could be written.
  const absl::Status& status() const { return status_; }

  // Returns a worker's last lines since ForgetLastLines.
  const std::deque<std::string>& LastLines(int worker) const { return workers_[worker].last; }
  void ForgetLastLines();

 private:
  struct Worker {
    std::string line[2];  // the incomplete last line of each stream
    int log[2] = {-1, -1};
    std::deque<std::string> last;
  };
  WorkerOutput() = default;
  void EndLine(int worker, Stream stream);
  void Print(Stream stream, absl::string_view bytes);
  void WriteLog(int fd, absl::string_view file, absl::string_view bytes);
  void Fail(const absl::Status& why);

  std::vector<Worker> workers_;
  std::set<int> shown_;
  int all_log_ = -1;
  bool colour_[2] = {};  // whether to colour the stream; only if it is a terminal
  int interrupt_ = -1;
  bool interrupted_ = false;
  absl::Status status_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_WORKER_OUTPUT_H_
