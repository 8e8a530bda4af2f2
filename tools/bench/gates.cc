// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/core/file.h"
#include "framework/core/status.h"
#include "framework/core/terminal.h"
#include "tools/bench/benchmarks.h"
#include "tools/bench/machine.h"
#include "tools/bench/start_peers.h"
#include "tools/bench/training_case.h"
#include "tools/report/svg_chart.h"

ABSL_DECLARE_FLAG(std::string, svg);
ABSL_FLAG(std::vector<std::string>, only, {},
          "bench gates: measure only these gates, such as C9,C21");

namespace mirrorflow {
namespace {

// Workers on one host may take 10 % longer than one process.
constexpr char kOneProcess[] = "mirrorflow in one process";
constexpr double kAsOneProcess = 1 / 1.1;

// The minimum acceptable ratio of a peer's time to Mirrorflow's.
struct Against {
  const char* gate;
  const char* peer;  // null for the fastest peer
  double ratio;
};

struct StepCase {
  const char* model;
  int64_t batch_size;
  int replicas;
  std::vector<Against> bounds;
  int workers = 1;             // if there are several, each has one replica
  const Link* link = nullptr;  // between the workers; null if they use shared memory
};

constexpr const Link* kLinks[] = {&kVirtualEthernet, &k8Gbit, &k2Gbit};

std::vector<StepCase> StepCases() {
  std::vector<StepCase> cases = {
      {"chain", 1, 1, {{"C1", "tensorflow", 20}, {"C1", "torch", 50}}},
      {"mlp", 64, 1, {{"C5", nullptr, 1.08}}},
      {"mlp", 256, 1, {{"C5", nullptr, 1.03}}},
      {"big", 64, 1, {{"C5", nullptr, 1.05}}},
      {"big", 16, 1, {{"C5", nullptr, 1.15}}},
      {"cnn", 64, 1, {{"C7", nullptr, 1.10}}},
      {"lstm", 1, 1, {{"C22", "jax", 1.2}, {"C22", "tensorflow", 10}}},
      {"mlp", 64, 2, {{"C9", "tensorflow", 1.6}, {"C9b", "torch", 3.3}}},
      {"mlp", 256, 2, {{"C9", "tensorflow", 1.1}, {"C9b", "torch", 1.6}}},
      {"cnn", 64, 2, {{"C9", "tensorflow", 1.18}, {"C9b", "torch", 2.0}}},
      {"big", 64, 2, {{"C9", "tensorflow", 1.5}, {"C9b", "torch", 1.8}}},
      {"big", 16, 2, {{"C9", "tensorflow", 2.2}, {"C9b", "torch", 2.8}}},
      {"mlp", 64, 2, {{"C13b", nullptr, 2.5}, {"C13b", kOneProcess, kAsOneProcess}}, 2},
      {"mlp", 256, 2, {{"C13b", nullptr, 1.4}, {"C13b", kOneProcess, kAsOneProcess}}, 2},
      {"cnn", 64, 2, {{"C13b", nullptr, 1.25}, {"C13b", kOneProcess, kAsOneProcess}}, 2},
      {"big", 64, 2, {{"C13b", nullptr, 1.5}, {"C13b", kOneProcess, kAsOneProcess}}, 2},
      {"big", 16, 2, {{"C13b", nullptr, 2.2}, {"C13b", kOneProcess, kAsOneProcess}}, 2},
  };
  for (const Link* link : kLinks) {
    cases.push_back({"mlp", 64, 2, {{"C14b", nullptr, 2}}, 2, link});
    cases.push_back({"mlp", 256, 2, {{"C14b", nullptr, 1.25}}, 2, link});
    cases.push_back({"cnn", 64, 2, {{"C14b", nullptr, 1.25}}, 2, link});
    cases.push_back({"big", 64, 2, {{"C14b", nullptr, 1.25}}, 2, link});
    cases.push_back({"big", 16, 2, {{"C14b", nullptr, 1.8}}, 2, link});
  }
  return cases;
}

std::string CaseName(const StepCase& c) {
  return absl::StrCat(c.model, " ", c.batch_size, ", ", c.workers > 1 ? c.workers : c.replicas,
                      c.workers > 1     ? " workers"
                      : c.replicas == 1 ? " replica"
                                        : " replicas",
                      c.link == nullptr ? "" : ", ", c.link == nullptr ? "" : c.link->name);
}

// Measures one case in turns with all peers, and adds a row for each of its bounds.
absl::Status MeasureAgainst(const StepCase& c, Report* report) {
  std::vector<std::string> peers = {"tensorflow", "torch"};
  if (c.replicas == 1) peers.emplace_back("jax");
  std::unique_ptr<NetworkNamespaces> namespaces;
  if (c.link != nullptr) {
    MF_ASSIGN_OR_RETURN(namespaces, NetworkNamespaces::Create(*c.link));
  }
  MF_ASSIGN_OR_RETURN(const StepRounds measured,
                      MeasureStep({.model = c.model,
                                   .batch_size = c.batch_size,
                                   .replicas = c.replicas / c.workers,
                                   .workers = c.workers},
                                  peers, namespaces ? namespaces->hosts() : WorkerHosts()));
  std::vector<double> medians;
  for (size_t side = 0; side < measured.sides.size(); ++side) {
    const Timing timing = TimingOf(measured.rounds, side);
    medians.push_back(timing.median_ms);
    report->AddStep(c.model, c.replicas, c.batch_size, timing, measured.sides[side]);
  }
  for (const Against& against : c.bounds) {
    Goal goal = {.gate = against.gate,
                 .what = CaseName(c),
                 .bound = against.ratio,
                 .gated = c.link == nullptr || c.link == &k8Gbit,
                 .ours = FormatMs(medians[0])};
    // Skip Mirrorflow's second side: only other frameworks are peers.
    const int own = c.workers > 1 ? 2 : 1;
    size_t side = std::min_element(medians.begin() + own, medians.end()) - medians.begin();
    for (const auto& [peer, why] : measured.missing) {
      if (against.peer != nullptr && peer != against.peer) continue;
      goal.peer = peer;
      report->AddUnmeasured(goal, why.message());
      if (against.peer != nullptr) side = medians.size();
    }
    for (size_t k = 1; k < measured.sides.size(); ++k) {
      if (against.peer != nullptr && measured.sides[k].name == against.peer) side = k;
    }
    if (side == medians.size()) continue;
    goal.peer = absl::StrCat(measured.sides[side].name, " ", FormatMs(medians[side]));
    goal.figure = RatioOf(measured.rounds.ms[side], measured.rounds.ms[0]);
    report->Add(goal);
  }
  return absl::OkStatus();
}

// Compares one replica with two, at the same batch size per replica. Perfect scaling gives a ratio
// of 1.
absl::Status MeasureScaling(const std::string& model, int64_t batch_size, Report* report) {
  MF_ASSIGN_OR_RETURN(ReadyStep one, PrepareTraining({model, batch_size, 1}));
  MF_ASSIGN_OR_RETURN(ReadyStep two, PrepareTraining({model, batch_size, 2}));
  auto side = [](ReadyStep& t) { return MakeSide([&t] { return t.step.Run(t.feeds).status(); }); };
  MF_ASSIGN_OR_RETURN(const Rounds rounds,
                      MeasureInTurns({side(one), side(two)},
                                     {.rounds = absl::GetFlag(FLAGS_rounds), .canary_threads = 2}));
  report->Add({.gate = "C10",
               .what = absl::StrCat(model, " ", batch_size, ", 1 replica / 2"),
               .figure = RatioOf(rounds.ms[0], rounds.ms[1]),
               .bound = 0.88,
               .ours = FormatMedian(rounds, 1),
               .peer = absl::StrCat("1 replica ", FormatMedian(rounds, 0))});
  return absl::OkStatus();
}

// Draws the ratio of every implementation's time to Mirrorflow's.
std::string StepChart(const std::vector<StepTime>& steps) {
  const std::vector<std::string> series = {Implementation().name, "tensorflow", "torch", "jax"};
  std::vector<BarGroup> groups;
  double ours = 0;
  for (const StepTime& step : steps) {
    if (step.implementation == series[0]) {  // the first side of each case
      ours = step.median_ms;
      groups.push_back({absl::StrCat(step.model, " ", step.batch_size, "\n", step.replicas,
                                     step.replicas == 1 ? " replica" : " replicas"),
                        std::vector<double>(series.size())});
    }
    const size_t i = std::find(series.begin(), series.end(), step.implementation) - series.begin();
    if (i < series.size()) groups.back().values[i] = step.median_ms / ours;
  }
  return GroupedBars("Time of a step, relative to mirrorflow", DescribeMachine(), series, groups,
                     8);
}

// One measurement, and the gates that it adds rows for.
struct GateCase {
  std::vector<std::string> gates;
  std::string what;
  std::function<absl::Status(Report*)> measure;
};

std::vector<GateCase> GateCases() {
  std::vector<GateCase> cases;
  auto add = [&](const char* gate, std::string what, std::function<absl::Status(Report*)> measure) {
    cases.push_back({{gate}, std::move(what), std::move(measure)});
  };
  auto add_steps = [&](absl::string_view gate) {
    for (const StepCase& step : StepCases()) {
      if (step.bounds[0].gate != gate) continue;
      add(step.bounds[0].gate, CaseName(step),
          [step](Report* report) { return MeasureAgainst(step, report); });
      for (size_t i = 1; i < step.bounds.size(); ++i) {
        if (step.bounds[i].gate != gate) cases.back().gates.emplace_back(step.bounds[i].gate);
      }
    }
  };
  const std::vector<StepCase> replicated = {
      {"mlp", 64, 2}, {"mlp", 256, 2}, {"cnn", 64, 2}, {"big", 64, 2}, {"big", 16, 2}};
  add("C1", "dispatch", BenchDispatch);
  add_steps("C1");
  add("C2", "one step", BenchFixedCost);
  add("C3", "products", BenchProducts);
  add("C4", "convolutions", BenchConvolutions);
  add_steps("C5");
  add_steps("C7");
  add_steps("C9");
  for (const StepCase& c : replicated) {
    add("C10", CaseName(c),
        [c](Report* report) { return MeasureScaling(c.model, c.batch_size, report); });
  }
  add("C11", "all-reduce", BenchAllReduceOfThreads);
  add("C12", "reduction in the update", BenchUpdate);
  add("C13", "all-reduce between processes", BenchAllReduceOfProcesses);
  add_steps("C13b");
  add("C13b", "start-up of workers", BenchWorkersStartup);
  for (const Link* link : kLinks) {
    add("C14", absl::StrCat("all-reduce between hosts, ", link->name),
        [link](Report* report) { return BenchAllReduceOverTcp(*link, report); });
  }
  add_steps("C14b");
  for (const StepCase& c : replicated) {
    add("C15", CaseName(c), [c](Report* report) {
      return BenchExposed({c.model, c.batch_size, c.replicas}, report);
    });
  }
  for (const Link* link : kLinks) {
    add("C15b", absl::StrCat("exposed communication, big 64, ", link->name),
        [link](Report* report) {
          return BenchExposedOverTcp({.model = "big", .batch_size = 64}, *link, report);
        });
  }
  add("C16", "arena", BenchArena);
  add("C17", "steady state", BenchSteadyState);
  add("C18", "memory", BenchMemory);
  add("C19", "compile", BenchCompileNodes);
  for (const char* model : {"mlp", "cnn"}) {
    add("C20", absl::StrCat("compile ", model),
        [model](Report* report) { return BenchCompileReplicas(model, report); });
  }
  add("C21", "start-up", BenchStartup);
  add_steps("C22");
  add("C23", "checkpoints", BenchCheckpoints);
  add("C24", "heartbeats", BenchHeartbeats);
  add("C25", "loss of a worker", BenchRecovery);
  return cases;
}

void PrintPreamble() {
  double load = 0;
  getloadavg(&load, 1);
  PrintLine(absl::StrFormat("- Machine: %s; load %.1f at the start", DescribeMachine(), load));
  PrintLine(absl::StrCat("- Versions: mirrorflow ", Implementation().version, " with oneDNN ",
                         OneDnnVersion(), "; ", PeersVersions()));
  PrintLine(
      absl::StrCat("- Settings: ", absl::GetFlag(FLAGS_rounds),
                   " rounds where all sides take turns; one thread and one core per "
                   "replica on every side; equal weights, batches and losses; batch sizes are "
                   "per replica"));
  PrintLine(
      absl::StrCat("- Date: ", absl::FormatTime("%Y-%m-%d", absl::Now(), absl::UTCTimeZone())));
  PrintLine("");
  for (const absl::string_view line : absl::StrSplit(TableHead(), '\n')) PrintLine(line);
  std::fflush(stdout);
}

}  // namespace

Report GatesReport() { return Report::Table(absl::GetFlag(FLAGS_only)); }

absl::Status BenchGates(Report* report) {
  PrintPreamble();
  for (const GateCase& c : GateCases()) {
    if (absl::c_none_of(c.gates, [&](auto& gate) { return report->Wants(gate); })) continue;
    const absl::Status status = c.measure(report);
    if (status.ok()) continue;
    for (const std::string& gate : c.gates) {
      report->AddUnmeasured({.gate = gate, .what = c.what}, status.message());
    }
  }
  const std::string svg = absl::GetFlag(FLAGS_svg);
  return svg.empty() ? absl::OkStatus() : WriteFileAtomically(svg, {StepChart(report->steps())});
}

absl::Status CheckGatesFlags() {
  const std::vector<GateCase> cases = GateCases();
  std::vector<absl::string_view> known;
  for (const GateCase& c : cases) {
    for (const std::string& gate : c.gates) {
      if (!absl::c_linear_search(known, gate)) known.push_back(gate);
    }
  }
  for (const std::string& gate : absl::GetFlag(FLAGS_only)) {
    MF_RETURN_IF_ERROR(CheckChoice("only", gate, known));
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
