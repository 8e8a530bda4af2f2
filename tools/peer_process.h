// SPDX-License-Identifier: Apache-2.0
//
// PeerProcess: another framework that trains the same case, as a child process that we talk to
// (tests/benchmark/peers/peer.py says how).
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
  // Starts `command`, its arguments behind it, and waits until it is ready. Unavailable if it ends
  // before (its standard error is ours), DeadlineExceeded if it is silent for longer than
  // `timeout`.
  static absl::StatusOr<std::unique_ptr<PeerProcess>> Start(const std::vector<std::string>& command,
                                                            absl::Duration timeout);
  // Ends it.
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  const std::string& version() const { return version_; }
  // Of its first steps.
  const std::vector<double>& losses() const { return losses_; }

  // From its start to the end of its first step.
  double first_step_ms() const { return first_step_ms_; }
  // The most memory that it has had so far.
  absl::StatusOr<int64_t> PeakBytes() const;

  // Trains for about so long; returns the milliseconds of a step.
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
