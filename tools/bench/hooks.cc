// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/core/status.h"
#include "framework/session/step_plans.h"
#include "nlohmann/json.hpp"
#include "tools/bench/benchmarks.h"
#include "tools/bench/peer_process.h"
#include "tools/bench/predict_exchange.h"
#include "tools/bench/start_peers.h"
#include "tools/bench/statistics.h"
#include "tools/bench/training_case.h"
#include "tools/flags/step_flags.h"
#include "tools/launch/launch.h"

namespace mirrorflow {
namespace {

// Without a hook, workers can send rows instead of gradients (fuse_updates).
constexpr struct {
  const char* name;
  const char* hook;
  const char* without = nullptr;  // a pass to skip
} kCases[] = {{"none", "none"},
              {"none, no rows", "none", "fuse_updates"},
              {"bf16", "bf16"},
              {"fp16", "fp16"},
              {"powersgd", "powersgd"}};
constexpr int kSteps = 500;
constexpr double kRoundMs = 1000;

// The bytes that one worker sends to the others in a step, and the loss of step kSteps. One process
// with the replicas of all workers computes both, because hooks give the same results there.
struct Effect {
  int64_t sent_bytes = 0;
  double loss = 0;
};

absl::StatusOr<Effect> EffectOf(const TrainingCase& training) {
  MF_ASSIGN_OR_RETURN(ReadyStep t, PrepareTraining(training));
  Effect effect;
  for (int i = 0; i < kSteps; ++i) {
    MF_ASSIGN_OR_RETURN(const StepOutputs out, t.step.Run(t.feeds));
    effect.loss = out[0].scalar<float>();
  }
  Topology topology;
  for (int worker = 0; worker < training.workers; ++worker) {
    topology.replicas.push_back({.worker = worker, .domain = worker});
  }
  MF_ASSIGN_OR_RETURN(const PlanElsewhere there,
                      CompileStepFor(t.step, {t.feeds[0].shape(), t.feeds[1].shape()}, {topology}));
  const std::vector<double> costs(there.plan->instructions.size());
  effect.sent_bytes = PredictExchange(*there.plan, costs, topology, LinkCosts()).sent_bytes;
  return effect;
}

}  // namespace

absl::Status BenchHooks(Report* report) {
  TrainingCase training = {.model = absl::GetFlag(FLAGS_model),
                           .batch_size = absl::GetFlag(FLAGS_batch_size),
                           .workers = absl::GetFlag(FLAGS_workers)};
  if (training.workers < 2) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--workers: out of range; expected at least 2, got %d", training.workers));
  }
  MF_ASSIGN_OR_RETURN(const WorkerHosts hosts, HostsFromFlags());
  std::vector<Effect> effects;
  std::vector<Side> sides;
  for (const auto& c : kCases) {
    training.hook = c.hook;
    training.without.clear();
    if (c.without != nullptr) training.without.push_back(c.without);
    MF_ASSIGN_OR_RETURN(effects.emplace_back(), EffectOf(training));
    MF_ASSIGN_OR_RETURN(auto process, StartTraining(training, hosts));
    sides.push_back(MakeSide(std::move(process)));
  }
  MF_ASSIGN_OR_RETURN(const Rounds rounds,
                      MeasureInTurns(sides, {.rounds = absl::GetFlag(FLAGS_rounds),
                                             .round_ms = kRoundMs,
                                             .canary_threads = training.workers}));
  for (size_t i = 0; i < effects.size(); ++i) {
    const double ms = TimingOf(rounds, i).median_ms;
    const Estimate ratio = RatioOf(rounds.ms[0], rounds.ms[i]);
    const double mb = static_cast<double>(effects[i].sent_bytes) * 1e-6;
    report->AddLine(
        absl::StrFormat(
            "hooks/%s %-13s %8.2f ms  none / this = %.2f (%.2f to %.2f)  %8.3f MB sent  "
            "loss of step %d: %.4g",
            training.model, kCases[i].name, ms, ratio.median, ratio.low, ratio.high, mb, kSteps,
            effects[i].loss),
        {{"case", "hooks/" + training.model},
         {"hook", kCases[i].name},
         {"median_ms", ms},
         {"speedup", ratio.median},
         {"sent_bytes", effects[i].sent_bytes},
         {"steps", kSteps},
         {"loss", effects[i].loss}});
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
