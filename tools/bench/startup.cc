// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "tools/bench/benchmarks.h"
#include "tools/bench/peer_process.h"
#include "tools/bench/start_peers.h"
#include "tools/bench/training_case.h"

namespace mirrorflow {
namespace {

constexpr int kStartupRounds = 9;
constexpr int kMemoryRounds = 3;
constexpr int kStartedWorkers = 4;

// Returns a figure of a training process.
using Figure = absl::StatusOr<double> (*)(const PeerProcess& process);

absl::StatusOr<double> FirstStepMs(const PeerProcess& process) {
  return process.start().first_step_ms;
}

absl::StatusOr<double> PeakMegabytes(const PeerProcess& process) {
  MF_ASSIGN_OR_RETURN(const int64_t bytes, process.PeakBytes());
  return static_cast<double>(bytes) / 1e6;
}

// One goal for each model: the ratio of the best peer's figure to Mirrorflow's.
struct ProcessGoal {
  const char* gate;
  const char* what;
  Figure figure;
  const char* unit;
  int rounds;
  std::vector<std::pair<std::string, double>> models;  // and their bounds
};

absl::Status MeasureProcesses(const ProcessGoal& goal, const std::string& model, double bound,
                              Report* report) {
  MF_ASSIGN_OR_RETURN(const ReadyStep t, PrepareTraining({.model = model}));
  MF_ASSIGN_OR_RETURN(const auto file, CaseFile::Write(*t.session, t.feeds));
  const std::vector<std::string> names = {"mirrorflow", "tensorflow", "torch", "jax"};
  auto start = [&](const std::string& name) {
    if (name != names[0]) return StartPeer(name, {model, "1", file->path()});
    return StartTraining({.model = model});
  };
  Goal row = {.gate = goal.gate, .what = absl::StrCat(model, " 64, ", goal.what), .bound = bound};
  std::map<std::string, std::vector<double>> figures;
  for (int round = -1; round < goal.rounds; ++round) {  // the first round reads files from disk
    std::vector<std::string> order = names;
    if (round % 2 == 0) std::reverse(order.begin(), order.end());
    for (const std::string& name : order) {
      if (round >= 0 && figures.count(name) == 0) continue;
      const auto process = start(name);
      if (!process.ok() && (round >= 0 || name == names[0])) return process.status();
      if (!process.ok()) {
        row.peer = name;
        report->AddUnmeasured(row, process.status().message());
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

absl::Status BenchWorkersStartup(Report* report) {
  std::vector<double> times;
  for (int round = -1; round < kStartupRounds; ++round) {  // the first round reads files from disk
    MF_ASSIGN_OR_RETURN(const auto process,
                        StartTraining({.model = "mlp", .workers = kStartedWorkers}));
    if (round >= 0) times.push_back(process->start().first_step_ms);
  }
  report->Add({.gate = "C13b",
               .what = absl::StrCat("mlp 64, process start to end of first step, ", kStartedWorkers,
                                    " workers"),
               .figure = MedianOf(times),
               .unit = "ms",
               .bound = 1000,
               .at_most = true});
  return absl::OkStatus();
}

}  // namespace mirrorflow
