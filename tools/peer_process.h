// SPDX-License-Identifier: Apache-2.0
//
// PeerProcess: a child process in which another framework trains the same case. Start it, then call
// Run for each round; tests/benchmark/peers/peer.py describes the protocol.
#ifndef MIRRORFLOW_TOOLS_PEER_PROCESS_H_
#define MIRRORFLOW_TOOLS_PEER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace mirrorflow {

class PeerProcess {
 public:
  // Starts `command`, a program and its arguments, and waits until it is ready. Returns Unavailable
  // if it ends before that (its standard error is ours), DeadlineExceeded if it prints nothing for
  // longer than `timeout`.
  static absl::StatusOr<std::unique_ptr<PeerProcess>> Start(const std::vector<std::string>& command,
                                                            absl::Duration timeout);
  // Ends the process.
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  const std::string& version() const { return version_; }
  // The losses of its first steps.
  const std::vector<double>& losses() const { return losses_; }

  // The time from its start to the end of its first step.
  double first_step_ms() const { return first_step_ms_; }
  // Its peak resident memory so far.
  absl::StatusOr<int64_t> PeakBytes() const;

  // Trains for about `round_ms`; returns the milliseconds per step.
  absl::StatusOr<double> Run(double round_ms);

 private:
  PeerProcess(absl::string_view name, absl::Duration timeout) : name_(name), timeout_(timeout) {}
  absl::Status Launch(const std::vector<std::string>& command);
  absl::StatusOr<std::string> ReadLine();

  const std::string name_;
  const absl::Duration timeout_;
  pid_t pid_ = -1;
  int socket_ = -1;
  std::string unread_;
  std::string version_;
  std::vector<double> losses_;
  double first_step_ms_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_PEER_PROCESS_H_
