// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <utility>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/core/file.h"
#include "framework/core/status.h"
#include "tools/bench/benchmarks.h"
#include "tools/bench/peer_process.h"
#include "tools/bench/start_peers.h"
#include "tools/bench/step_sides.h"
#include "tools/bench/training_case.h"
#include "tools/flags/command_line.h"
#include "tools/flags/step_flags.h"
#include "tools/launch/launch.h"

ABSL_FLAG(int, rounds, 15,
          "bench: number of rounds, at least 7; each round measures every side once");
ABSL_FLAG(
    std::string, svg, "",
    "bench step, gates: draw a chart to this file: the timeline of a step, or for gates the step "
    "times of all frameworks");
ABSL_DECLARE_FLAG(std::vector<std::string>, peers);
ABSL_DECLARE_FLAG(std::string, collective);

namespace mirrorflow {
namespace {

constexpr int kCheckedSteps = 3;  // as in peer.py

// Returns by what fraction of our loss a peer's loss may differ. In ResNet-50, batch normalisation
// in the deep layers sees few and nearly equal values, so rounding errors grow with every step.
double LossTolerance(absl::string_view model, size_t step) {
  constexpr double kOfResNet50[kCheckedSteps] = {1e-3, 0.05, 0.25};
  return absl::StartsWith(model, "resnet50") ? kOfResNet50[step] : 1e-3;
}

absl::Status CompareLosses(absl::string_view model, const std::vector<double>& ours,
                           const PeerProcess& peer) {
  for (size_t i = 0; i < ours.size(); ++i) {
    const double theirs = i < peer.start().losses.size() ? peer.start().losses[i]
                                                         : std::numeric_limits<double>::quiet_NaN();
    if (std::abs(theirs - ours[i]) <= LossTolerance(model, i) * std::abs(ours[i])) continue;
    return absl::FailedPreconditionError(absl::StrCat("the loss of step ", i + 1,
                                                      " differs; expected Mirrorflow's loss, ",
                                                      ours[i], ", got ", theirs));
  }
  return absl::OkStatus();
}

// Returns InvalidArgument unless the peer trains the model on this many replicas.
absl::Status CheckSupport(absl::string_view peer, absl::string_view model, int replicas) {
  if (replicas == 1) return absl::OkStatus();
  // Batch normalisation over several processes needs GPUs in PyTorch.
  if (peer == "jax" || (peer == "torch" && absl::StartsWith(model, "resnet"))) {
    return absl::InvalidArgumentError(absl::StrCat("--peers: ", peer, " supports ", model,
                                                   " only on one replica, got ", replicas));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StepRounds> MeasureStep(const TrainingCase& training,
                                       const std::vector<std::string>& peers,
                                       const WorkerHosts& hosts) {
  TrainingCase whole = training;
  whole.without.clear();
  MF_ASSIGN_OR_RETURN(ReadyStep t, PrepareTraining(whole));
  MF_ASSIGN_OR_RETURN(const auto file, CaseFile::Write(*t.session, t.feeds));
  std::vector<double> losses;
  for (int i = 0; i < kCheckedSteps; ++i) {
    MF_ASSIGN_OR_RETURN(const StepOutputs out, t.step.Run(t.feeds));
    losses.push_back(out[0].scalar<float>());
  }
  const auto compare = [&](const PeerProcess& peer) {
    return CompareLosses(training.model, losses, peer);
  };
  StepSides sides(absl::GetFlag(FLAGS_rounds), training.num_replicas());
  Implementation here;
  if (training.workers > 1) {
    MF_ASSIGN_OR_RETURN(auto process, StartTraining(whole, hosts));
    MF_RETURN_IF_ERROR(Annotate(compare(*process), "workers"));
    sides.Add(here, std::move(process));
    here.name += " in one process";
  }
  sides.Add(here, MakeSide([&t] { return t.step.Run(t.feeds).status(); }));
  ReadyStep other;
  if (!training.without.empty()) {
    const Implementation ours = WithoutPasses(training.without);
    if (training.workers > 1) {
      MF_ASSIGN_OR_RETURN(auto process, StartTraining(training, hosts));
      MF_RETURN_IF_ERROR(Annotate(compare(*process), ours.name));
      sides.Add(ours, std::move(process));
    } else {
      MF_ASSIGN_OR_RETURN(other, PrepareTraining(training));
      sides.Add(ours, MakeSide([&other] { return other.step.Run(other.feeds).status(); }));
    }
  }
  for (const std::string& name : peers) {
    // PyTorch runs one process per replica.
    const int workers = name == "torch" ? training.num_replicas() : training.workers;
    sides.AddPeer(name,
                  StartPeer(name,
                            {training.model, absl::StrCat(training.num_replicas()), file->path(),
                             "{addresses}", "{worker}"},
                            workers, hosts),
                  compare);
  }
  return sides.Measure();
}

absl::StatusOr<TrainingCase> TrainingCaseFromFlags(int replicas) {
  MF_ASSIGN_OR_RETURN(const CollectiveKind collective,
                      ParseCollectiveKind(absl::GetFlag(FLAGS_collective)));
  return TrainingCase{.model = absl::GetFlag(FLAGS_model),
                      .batch_size = absl::GetFlag(FLAGS_batch_size),
                      .replicas = absl::GetFlag(FLAGS_replicas).value_or(replicas),
                      .threads_per_replica = absl::GetFlag(FLAGS_threads_per_replica).value_or(1),
                      .without = absl::GetFlag(FLAGS_without),
                      .optimizer = absl::GetFlag(FLAGS_optimizer),
                      .hook = absl::GetFlag(FLAGS_hook),
                      .workers = absl::GetFlag(FLAGS_workers),
                      .trace = absl::GetFlag(FLAGS_trace),
                      .collective = collective};
}

absl::Status BenchStep(Report* report) {
  MF_ASSIGN_OR_RETURN(const TrainingCase training, TrainingCaseFromFlags(2));
  MF_ASSIGN_OR_RETURN(const WorkerHosts hosts, HostsFromFlags());
  MF_ASSIGN_OR_RETURN(const StepRounds measured,
                      MeasureStep(training, absl::GetFlag(FLAGS_peers), hosts));
  for (const auto& [peer, why] : measured.missing) return why;
  ReportSteps(absl::StrCat("step/", training.model), training.num_replicas(), training.batch_size,
              measured, report);
  const std::string svg = absl::GetFlag(FLAGS_svg);
  if (svg.empty()) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(const std::string timeline, DrawStepTimeline(training));
  return WriteFileAtomically(svg, {timeline});
}

absl::Status CheckStepWorkers() {
  const int workers = absl::GetFlag(FLAGS_workers);
  if (workers == 1) MF_RETURN_IF_ERROR(CheckDefaults({"trace"}, "given without --workers"));
  MF_RETURN_IF_ERROR(CheckOutputFlag("trace", absl::GetFlag(FLAGS_trace)));
  MF_RETURN_IF_ERROR(
      Annotate(ParseCollectiveKind(absl::GetFlag(FLAGS_collective)).status(), "--collective"));
  return CheckHostsFlags(workers);
}

absl::Status CheckStepSides() {
  MF_RETURN_IF_ERROR(CheckPeersFlag({"tensorflow", "torch", "jax"}));
  MF_RETURN_IF_ERROR(CheckStepWorkers());
  const std::string model = absl::GetFlag(FLAGS_model);
  const int replicas = absl::GetFlag(FLAGS_replicas).value_or(2) * absl::GetFlag(FLAGS_workers);
  for (const std::string& peer : absl::GetFlag(FLAGS_peers)) {
    MF_RETURN_IF_ERROR(CheckSupport(peer, model, replicas));
  }
  return absl::OkStatus();
}

absl::Status CheckStepFlags() {
  MF_RETURN_IF_ERROR(CheckFlagRange("batch_size", absl::GetFlag(FLAGS_batch_size), 1,
                                    std::numeric_limits<int32_t>::max()));
  MF_RETURN_IF_ERROR(CheckFlagRange("rounds", absl::GetFlag(FLAGS_rounds), 7, 1000));
  MF_RETURN_IF_ERROR(
      CheckFlagRange("replicas", absl::GetFlag(FLAGS_replicas).value_or(2), 1, 1024));
  MF_RETURN_IF_ERROR(CheckFlagRange("workers", absl::GetFlag(FLAGS_workers), 1, 64));
  MF_RETURN_IF_ERROR(CheckOutputFlag("svg", absl::GetFlag(FLAGS_svg)));
  MF_ASSIGN_OR_RETURN(const auto strategy, OneDeviceStrategy::Create());
  MF_RETURN_IF_ERROR(CheckTraining(*strategy, absl::GetFlag(FLAGS_model),
                                   absl::GetFlag(FLAGS_optimizer), absl::GetFlag(FLAGS_hook)));
  if (absl::GetFlag(FLAGS_peers).empty()) return absl::OkStatus();
  return CheckDefaults({"optimizer", "hook"}, "not supported with --peers");
}

}  // namespace mirrorflow
