// SPDX-License-Identifier: Apache-2.0
//
// Agreement holds everything that must be equal on all workers before a step first runs. Agree()
// compares hashes, and searches for the first difference only if they differ.
#ifndef MIRRORFLOW_FRAMEWORK_WORKERS_AGREEMENT_H_
#define MIRRORFLOW_FRAMEWORK_WORKERS_AGREEMENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/topology.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

// A list of lines. Add the lines that best explain a difference first: an option before the
// schedule that it changes.
class Agreement {
 public:
  // Adds the line `what = value`.
  void Add(absl::string_view what, absl::string_view value);
  // Adds each line of `text`.
  void AddText(absl::string_view text);

  const std::vector<std::string>& lines() const { return lines_; }
  // Returns one SHA-256 hash (32 bytes) per line, over that line and all lines before it.
  std::string PrefixHashes() const;

 private:
  std::vector<std::string> lines_;
};

// Compares `own` with the agreements of the other workers under the same `name`; each call needs a
// new name. If they differ, all workers return the same InvalidArgument, which quotes the first
// line where worker 0 and another worker differ, and names their ranks.
absl::Status Agree(const Agreement& own, absl::string_view name, const Topology& topology,
                   WorkerGroup& workers, MonotonicTime deadline);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_WORKERS_AGREEMENT_H_
