// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/core/status.h"
#include "tools/bench/benchmarks.h"
#include "tools/bench/peer_process.h"
#include "tools/bench/start_peers.h"
#include "tools/bench/temporary_directory.h"
#include "tools/bench/training_case.h"

namespace mirrorflow {
namespace {

// Measures how much a feature slows down training, and compares the result with the bound of
// `goal`. `without` does not use the feature; `with` uses it `exaggeration` times as often as the
// goal specifies.
absl::Status MeasureCost(Goal goal, const TrainingCase& with, const TrainingCase& without,
                         double round_ms, double exaggeration, Report* report) {
  MF_ASSIGN_OR_RETURN(auto costly, StartTraining(with));
  MF_ASSIGN_OR_RETURN(auto plain, StartTraining(without));
  MF_ASSIGN_OR_RETURN(const Rounds rounds,
                      MeasureInTurns({MakeSide(std::move(costly)), MakeSide(std::move(plain))},
                                     {.rounds = absl::GetFlag(FLAGS_rounds),
                                      .round_ms = round_ms,
                                      .canary_threads = with.workers}));
  std::vector<double> usual = rounds.ms[0];  // with the feature used as often as the goal specifies
  for (size_t i = 0; i < usual.size(); ++i) {
    usual[i] = rounds.ms[1][i] + (rounds.ms[0][i] - rounds.ms[1][i]) / exaggeration;
  }
  goal.what =
      absl::StrCat(with.model, " ", with.batch_size, ", ", with.workers, " workers, ", goal.what);
  goal.ours = FormatMedian(rounds, 0);
  goal.peer = absl::StrCat("without ", FormatMedian(rounds, 1));
  goal.figure = RatioOf(rounds.ms[1], usual);
  report->Add(goal);
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchCheckpoints(Report* report) {
  const TrainingCase without = {.model = "big", .workers = 2};
  TrainingCase with = without;
  const TemporaryDirectory directory;
  with.checkpoint_dir = directory.path();
  constexpr int kUsualSteps = 100;
  // Long enough for several saves in each round.
  constexpr double kRoundMs = 2500;
  return MeasureCost({.gate = "C23",
                      .what = absl::StrCat("a checkpoint every ", kUsualSteps,
                                           " steps (measured: every ", kStepsBetweenSaves, ")"),
                      .bound = 0.98},
                     with, without, kRoundMs, double{kUsualSteps} / kStepsBetweenSaves, report);
}

absl::Status BenchHeartbeats(Report* report) {
  // Four heartbeats per second, ten times as many as usual.
  const TrainingCase with = {.model = "mlp", .workers = 2, .heartbeat_timeout = absl::Seconds(1)};
  TrainingCase without = with;
  without.heartbeat_timeout = absl::InfiniteDuration();
  constexpr double kRoundMs = 1000, kExaggeration = 10;
  return MeasureCost(
      {.gate = "C24", .what = "heartbeats (measured: ten times as many)", .bound = 0.995}, with,
      without, kRoundMs, kExaggeration, report);
}

}  // namespace mirrorflow
