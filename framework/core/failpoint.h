// SPDX-License-Identifier: Apache-2.0
//
// Failpoints: named places at which tests make a process fail. They are in every build and do
// nothing unless MIRRORFLOW_FAILPOINTS is set; a process that has it prints a warning when it
// starts. None is on the path of a step.
//
//   MIRRORFLOW_FAILPOINTS='checkpoint/rename=kill@0#3'
//
// kills worker 0 at its third pass through `checkpoint/rename`. A comma separates several.
//
//   static Failpoint rename_failpoint("checkpoint/rename");
//   MF_RETURN_IF_ERROR(rename_failpoint.Pass());
#ifndef MIRRORFLOW_FRAMEWORK_CORE_FAILPOINT_H_
#define MIRRORFLOW_FRAMEWORK_CORE_FAILPOINT_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

class Failpoint {
 public:
  // Registers the failpoint for the rest of the process. Requires static storage duration, and a
  // name that no other failpoint has.
  explicit Failpoint(absl::string_view name);
  Failpoint(const Failpoint&) = delete;

  const std::string& name() const { return name_; }

  // Returns OK unless this failpoint is set. If it is: `error` returns Internal, `exit` ends the
  // process with code 1, `kill` ends it by SIGKILL, `hang` never returns, `delay` returns OK after
  // 0.1 s, and `stop` suspends the process until SIGCONT and then returns OK.
  absl::Status Pass() {
    if (!is_set_) [[likely]]
      return absl::OkStatus();
    return Act();
  }

  // The names of all failpoints of this program, sorted.
  static std::vector<std::string> Names();
  // InvalidArgument if MIRRORFLOW_FAILPOINTS has an unknown name or is malformed.
  static absl::Status CheckEnvironment();
  // The worker that this process is, for `@WORKER`; 0 by default.
  static void SetWorker(int worker);

 private:
  absl::Status Act();

  const std::string name_;
  bool is_set_ = false;
  std::string action_;
  int worker_ = -1;  // -1: all
  int count_ = 0;    // the pass at which it acts; 0: every pass
  std::atomic<int> passes_{0};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_FAILPOINT_H_
