// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_startup.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/core/status.h"
#include "tools/bench_peers.h"
#include "tools/bench_training.h"
#include "tools/peer_process.h"

ABSL_DECLARE_FLAG(std::string, model);
ABSL_DECLARE_FLAG(int64_t, batch_size);

namespace mirrorflow {
namespace {

constexpr int kStartupRounds = 9;
constexpr int kMemoryRounds = 3;
constexpr absl::Duration kTrainingTime = absl::Milliseconds(200);  // as in peer.py
constexpr int kCheckedSteps = 3;                                   // as in peer.py
constexpr absl::Duration kTimeout = absl::Seconds(120);

// A measurement of a training process.
using Figure = absl::StatusOr<double> (*)(const PeerProcess& process);

absl::StatusOr<double> FirstStepMs(const PeerProcess& process) { return process.first_step_ms(); }

absl::StatusOr<double> PeakMegabytes(const PeerProcess& process) {
  MF_ASSIGN_OR_RETURN(const int64_t bytes, process.PeakBytes());
  return static_cast<double>(bytes) / 1e6;
}

// One goal for each model: the ratio of the best peer's figure to ours.
struct ProcessGoal {
  const char* gate;
  const char* what;
  Figure figure;
  const char* unit;
  int rounds;
  std::vector<std::pair<std::string, double>> models;  // with their bounds
};

absl::Status MeasureProcesses(const ProcessGoal& goal, const std::string& model, double bound,
                              Report* report) {
  MF_ASSIGN_OR_RETURN(const TrainingStep t, PrepareTraining({.model = model}));
  MF_ASSIGN_OR_RETURN(const auto file, CaseFile::Write(t));
  const std::vector<std::string> names = {"mirrorflow", "tensorflow", "torch", "jax"};
  auto start = [&](const std::string& name) {
    if (name != names[0]) return StartPeer(name, {model, "1", file->path()});
    return PeerProcess::Start(
        {"/proc/self/exe", "bench", "peer", absl::StrCat("--model=", model), "--replicas=1"},
        kTimeout);
  };
  Goal row = {.gate = goal.gate, .what = absl::StrCat(model, " 64, ", goal.what), .bound = bound};
  std::map<std::string, std::vector<double>> figures;
  for (int round = -1; round < goal.rounds; ++round) {  // the first reads files from the disk
    std::vector<std::string> order = names;
    if (round % 2 == 0) std::reverse(order.begin(), order.end());
    for (const std::string& name : order) {
      if (round >= 0 && figures.count(name) == 0) continue;
      const auto process = start(name);
      if (!process.ok() && (round >= 0 || name == names[0])) return process.status();
      if (!process.ok()) {
        row.peer = name;
        report->AddUnmeasured(row, "not measured", process.status().message());
        continue;
      }
      MF_ASSIGN_OR_RETURN(const double figure, goal.figure(**process));
      if (round < 0) figures[name];
      if (round >= 0) figures[name].push_back(figure);
    }
  }
  const std::vector<double> ours = figures.extract(names[0]).mapped();
  if (figures.empty()) return absl::OkStatus();
  const auto best = std::min_element(figures.begin(), figures.end(), [](auto& a, auto& b) {
    return Quantile(a.second, 0.5) < Quantile(b.second, 0.5);
  });
  auto say = [&](const std::vector<double>& values) {
    return absl::StrCat(FormatNumber(Quantile(values, 0.5)), " ", goal.unit);
  };
  row.figure = RatioOf(best->second, ours);
  row.ours = say(ours);
  row.peer = absl::StrCat(best->first, " ", say(best->second));
  report->Add(row);
  return absl::OkStatus();
}

absl::Status MeasureAll(const ProcessGoal& goal, Report* report) {
  for (const auto& [model, bound] : goal.models) {
    MF_RETURN_IF_ERROR(MeasureProcesses(goal, model, bound, report));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchStartup(Report* report) {
  return MeasureAll({.gate = "C21",
                     .what = "process start to end of first step",
                     .figure = FirstStepMs,
                     .unit = "ms",
                     .rounds = kStartupRounds,
                     .models = {{"mlp", 8}, {"cnn", 8}}},
                    report);
}

absl::Status BenchMemory(Report* report) {
  return MeasureAll({.gate = "C18",
                     .what = "peak memory of training",
                     .figure = PeakMegabytes,
                     .unit = "MB",
                     .rounds = kMemoryRounds,
                     .models = {{"mlp", 3}, {"cnn", 3}}},
                    report);
}

absl::Status TrainAsPeer(Report* /*report*/) {
  // Use one core, as the peers do.
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) {
    for (int core = 0, kept = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &cores) && kept++ > 0) CPU_CLR(core, &cores);
    }
    sched_setaffinity(0, sizeof(cores), &cores);
  }
  MF_ASSIGN_OR_RETURN(TrainingStep t, PrepareTraining({absl::GetFlag(FLAGS_model),
                                                       absl::GetFlag(FLAGS_batch_size), 1}));
  std::printf("version %s\n", Implementation().version.c_str());
  for (int i = 0; i < kCheckedSteps; ++i) {
    MF_ASSIGN_OR_RETURN(const StepOutputs out, t.step.Run(t.feeds));
    std::printf("loss %.9g\n", out[0].scalar<float>());
    std::fflush(stdout);
  }
  for (const absl::Time end = absl::Now() + kTrainingTime; absl::Now() < end;) {
    MF_RETURN_IF_ERROR(t.step.Run(t.feeds).status());
  }
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
