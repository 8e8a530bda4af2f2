// SPDX-License-Identifier: Apache-2.0
//
// What all workers must have in common before a step runs for the first time, and the check that
// they do. Workers compare hashes; only if these differ do they look for the first difference.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_AGREEMENT_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_AGREEMENT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/runtime/topology.h"
#include "framework/session/worker_group.h"

namespace mirrorflow {

// A list of lines, the ones that explain a difference best first: an option before the schedule
// that it changes.
class Agreement {
 public:
  // `what = value`
  void Add(absl::string_view what, absl::string_view value);
  // Each line of `text`.
  void AddText(absl::string_view text);

  const std::vector<std::string>& lines() const { return lines_; }
  // By line: SHA-256 over this line and all before it, 32 bytes each.
  std::string PrefixHashes() const;

 private:
  std::vector<std::string> lines_;
};

// Compares it with what the other workers have under the same `name`, a new one for each call.
// InvalidArgument, the same on all workers, with the first line that differs, both its values and
// both workers with their ranks.
absl::Status Agree(const Agreement& own, absl::string_view name, const Topology& topology,
                   WorkerGroup& workers, absl::Time deadline);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_AGREEMENT_H_
