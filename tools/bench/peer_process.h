// SPDX-License-Identifier: Apache-2.0
//
// PeerProcess: child processes that run a benchmark case, usually with another framework. They
// train with one process per worker, or run inference or serve a model with a single process. Start
// them, then call Run or Serve in each round. peer.py, inference.py and serving.py in
// tests/benchmark/peers describe the protocols.
#ifndef MIRRORFLOW_TOOLS_BENCH_PEER_PROCESS_H_
#define MIRRORFLOW_TOOLS_BENCH_PEER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/bench/statistics.h"
#include "tools/launch/worker_output.h"

namespace mirrorflow {

class PeerProcess {
 public:
  // Starts the workers' commands, each a program and its arguments, and waits until worker 0 is
  // ready. Only worker 0 talks to this process; the others exit when their input ends. Returns
  // Unavailable if worker 0 exits before it is ready, DeadlineExceeded if it prints nothing for
  // longer than `timeout`, and InvalidArgument if it prints too much. The workers' stderr, escaped
  // for a terminal, is printed while this process waits for an answer, and after the processes end.
  static absl::StatusOr<std::unique_ptr<PeerProcess>> StartWorkers(
      const std::vector<std::vector<std::string>>& commands, absl::Duration timeout);
  // Ends the processes.
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // The start of the processes, as worker 0 reports it before it is ready.
  struct Start {
    std::string version;
    std::string settings;        // that the peer chose, as one word
    std::vector<double> losses;  // of the first steps
    double first_step_ms = 0;    // from the start of the processes to the end of the first step
    // For a process that runs a graph, the relative difference of each fetch from Mirrorflow's.
    std::map<std::string, double> differences;
    std::vector<double> logits;  // for a serving process, its answer to the example
    double empty_call_ms = 0;    // for processes that serve or run a graph
  };
  const Start& start() const { return start_; }
  // Returns the peak resident memory of a worker so far.
  absl::StatusOr<int64_t> PeakBytes(int worker = 0) const;
  // Returns a worker's TCP connection count.
  absl::StatusOr<int> NumConnections(int worker) const;

  // Trains for about `round_ms`. Returns the milliseconds per step.
  absl::StatusOr<double> Run(double round_ms);
  // Serves for about `round_ms`.
  absl::StatusOr<LoadTiming> Serve(double round_ms);

 private:
  struct Child {
    pid_t process = -1;
    int socket = -1;
    int errors = -1;  // stderr; -1 once it has ended
  };

  PeerProcess(absl::string_view name, absl::Duration timeout, WorkerOutput errors)
      : name_(name), timeout_(timeout), errors_(std::move(errors)) {}
  absl::Status Launch(const std::vector<std::string>& command, bool talks);
  absl::StatusOr<std::string> ReadLine();
  // Sends `VERB SECONDS` and returns the numbers in the answer. The answer must match `expected`:
  // the same first word, then a positive number for each further word.
  absl::StatusOr<std::vector<double>> Ask(absl::string_view verb, double round_ms,
                                          absl::string_view expected);
  // Prints available stderr output of a worker. Returns false if there is none left.
  bool PrintErrors(int worker);
  // Returns the path of a worker's file `name` in /proc.
  std::string ProcFile(int worker, absl::string_view name) const;
  absl::Status Ended() const;

  const std::string name_;
  const absl::Duration timeout_;
  WorkerOutput errors_;
  std::vector<Child> children_;  // by worker
  std::string unread_;
  Start start_;
};

// Returns a benchmark side that runs `process` and keeps it alive.
Side MakeSide(std::shared_ptr<PeerProcess> process);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_PEER_PROCESS_H_
