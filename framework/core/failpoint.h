// SPDX-License-Identifier: Apache-2.0
//
// Failpoints: named points in the code where tests make a process fail. They are in every build and
// do nothing unless MIRRORFLOW_FAILPOINTS is set, in which case the process prints a warning when
// it starts. A failpoint that is not set costs one branch.
//
//   MIRRORFLOW_FAILPOINTS='checkpoint/rename=kill@0#3'
//
// kills worker 0 at its third pass through `checkpoint/rename`. Commas separate several settings.
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

// One entry of MIRRORFLOW_FAILPOINTS.
struct FailpointSetting {
  std::string name, action;
  int worker = -1;  // -1 means every worker
  int count = 0;    // the pass when it acts; 0 means every pass
};

class Failpoint {
 public:
  // Registers the failpoint until the process ends. Requires static storage duration and a unique
  // name.
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

  // Returns the names of all failpoints in this program, sorted.
  static std::vector<std::string> Names();
  // Returns InvalidArgument if MIRRORFLOW_FAILPOINTS is malformed or names an unknown failpoint.
  static absl::Status CheckEnvironment();
  // Sets the worker index that `@WORKER` is compared with; 0 by default.
  static void SetWorker(int worker);

 private:
  absl::Status Act();

  const std::string name_;
  bool is_set_ = false;
  FailpointSetting setting_;
  std::atomic<int> passes_{0};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_FAILPOINT_H_
