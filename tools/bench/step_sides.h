// SPDX-License-Identifier: Apache-2.0
//
// StepSides: the sides of a benchmark that compares the times of steps, here and in other
// frameworks.
#ifndef MIRRORFLOW_TOOLS_BENCH_STEP_SIDES_H_
#define MIRRORFLOW_TOOLS_BENCH_STEP_SIDES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/bench/bench_report.h"
#include "tools/bench/peer_process.h"
#include "tools/bench/statistics.h"

namespace mirrorflow {

// The measurements of a step.
struct StepRounds {
  Rounds rounds;
  std::vector<Implementation> sides;            // Mirrorflow first
  std::map<std::string, absl::Status> missing;  // peers that could not be measured, and why
};

class StepSides {
 public:
  StepSides(int rounds, int canary_threads)
      : options_{.rounds = rounds, .canary_threads = canary_threads} {}

  // Add a side: work in this process, or a process.
  void Add(const Implementation& of, Side side);
  void Add(const Implementation& of, std::unique_ptr<PeerProcess> process);
  // Adds a peer that has started and passed `check`. Otherwise, lists it as missing.
  void AddPeer(const std::string& name, absl::StatusOr<std::unique_ptr<PeerProcess>> started,
               const std::function<absl::Status(const PeerProcess&)>& check);
  // Measures all sides in turns.
  absl::StatusOr<StepRounds> Measure();

 private:
  TimingOptions options_;
  std::vector<Side> sides_;
  StepRounds result_;
};

// Reports the time of each side of the case, and its ratio to Mirrorflow's.
void ReportSteps(absl::string_view name, int replicas, int64_t batch_size,
                 const StepRounds& measured, Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_STEP_SIDES_H_
