// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/step_sides.h"

#include <utility>

#include "framework/core/status.h"

namespace mirrorflow {

void StepSides::Add(const Implementation& of, Side side) {
  result_.sides.push_back(of);
  sides_.push_back(std::move(side));
}

void StepSides::Add(const Implementation& of, std::unique_ptr<PeerProcess> process) {
  constexpr double kProcessRoundMs = 300;
  options_.round_ms = kProcessRoundMs;
  Add(of, MakeSide(std::move(process)));
}

void StepSides::AddPeer(const std::string& name,
                        absl::StatusOr<std::unique_ptr<PeerProcess>> started,
                        const std::function<absl::Status(const PeerProcess&)>& check) {
  const absl::Status usable = started.ok() ? Annotate(check(**started), name) : started.status();
  if (!usable.ok()) {
    result_.missing[name] = usable;
    return;
  }
  const Implementation of = {.name = name,
                             .version = (*started)->start().version,
                             .settings = (*started)->start().settings,
                             .empty_call_ms = (*started)->start().empty_call_ms};
  Add(of, *std::move(started));
}

absl::StatusOr<StepRounds> StepSides::Measure() {
  MF_ASSIGN_OR_RETURN(result_.rounds, MeasureInTurns(sides_, options_));
  return std::move(result_);
}

void ReportSteps(absl::string_view name, int replicas, int64_t batch_size,
                 const StepRounds& measured, Report* report) {
  for (size_t side = 0; side < measured.sides.size(); ++side) {
    report->Add(name, replicas, batch_size, TimingOf(measured.rounds, side), measured.sides[side]);
  }
  for (size_t side = 1; side < measured.sides.size(); ++side) {
    report->AddRatio(name, replicas, batch_size, measured.sides[side].name,
                     RatioOf(measured.rounds.ms[side], measured.rounds.ms[0]));
  }
}

}  // namespace mirrorflow
