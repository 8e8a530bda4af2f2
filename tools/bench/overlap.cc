// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/status.h"
#include "framework/runtime/trace.h"
#include "mirrorflow_debug.h"
#include "tools/bench/benchmarks.h"
#include "tools/bench/start_peers.h"
#include "tools/bench/statistics.h"
#include "tools/bench/training_case.h"
#include "tools/report/svg_chart.h"

namespace mirrorflow {
namespace {

constexpr int kWarmUpSteps = 20;
constexpr int kTracedSteps = 101;
constexpr double kTcpRoundMs = 500;

// framework/session/step_tracer.h defines the categories.
bool IsCommunication(const TraceEvent& event) {
  return event.kind == TraceEvent::kSpan &&
         (event.category == "wait" || event.category == "collective");
}
bool IsUpdate(const TraceEvent& event) {
  return event.kind == TraceEvent::kSpan && absl::StrContains(event.name, "Apply");
}
bool IsStep(const TraceEvent& event) {
  return event.kind == TraceEvent::kSpan && event.category == "step";
}

// Returns communication as a fraction of the step time, averaged over the replicas.
double ExposedShare(const TraceWriter& trace) {
  double exposed = 0, whole = 0;
  for (const TraceEvent& event : trace.events()) {
    if (IsStep(event)) whole += static_cast<double>(event.duration_ns);
    if (IsCommunication(event)) exposed += static_cast<double>(event.duration_ns);
  }
  return exposed / whole;
}

absl::StatusOr<std::vector<TraceWriter>> TraceSteps(const TrainingCase& training) {
  MF_ASSIGN_OR_RETURN(ReadyStep t, PrepareTraining(training));
  for (int i = 0; i < kWarmUpSteps; ++i) MF_RETURN_IF_ERROR(t.step.Run(t.feeds).status());
  std::vector<TraceWriter> traces(kTracedSteps);
  for (TraceWriter& trace : traces) {
    MF_RETURN_IF_ERROR(t.session->TraceTo(&trace));
    MF_RETURN_IF_ERROR(t.step.Run(t.feeds).status());
    if (std::ranges::none_of(trace.events(), IsStep)) {
      return absl::InternalError("the step's trace lacks the span of the whole step");
    }
  }
  return traces;
}

absl::StatusOr<int64_t> GradientBytes(const TrainingCase& training) {
  MF_ASSIGN_OR_RETURN(const ReadyStep t, PrepareTraining(training));
  int64_t bytes = 0;
  for (const VariableInfo& variable : t.session->layout().variables()) {
    if (!variable.is_slot) bytes += variable.bytes();
  }
  return bytes;
}

}  // namespace

absl::Status BenchExposed(const TrainingCase& training, Report* report) {
  MF_ASSIGN_OR_RETURN(const std::vector<TraceWriter> traces, TraceSteps(training));
  std::vector<double> percents;
  for (const TraceWriter& trace : traces) percents.push_back(ExposedShare(trace) * 100);
  report->Add({.gate = "C15",
               .what = absl::StrCat("exposed communication, ", training.model, " ",
                                    training.batch_size, ", ", training.replicas, " replicas"),
               .figure = MedianOf(percents),
               .unit = "%",
               .bound = 8,
               .at_most = true});
  return absl::OkStatus();
}

absl::Status BenchExposedOverTcp(const TrainingCase& training, const Link& link, Report* report) {
  MF_ASSIGN_OR_RETURN(const auto namespaces, NetworkNamespaces::Create(link));
  TrainingCase both = training;
  both.workers = 2;
  MF_ASSIGN_OR_RETURN(const int64_t bytes, GradientBytes(training));
  MF_ASSIGN_OR_RETURN(auto two, StartTraining(both, namespaces->hosts()));
  MF_ASSIGN_OR_RETURN(auto one, StartTraining(training));
  MF_ASSIGN_OR_RETURN(auto bare, StartAllReduce(bytes, "tcp", namespaces->hosts()));
  MF_ASSIGN_OR_RETURN(
      const Rounds rounds,
      MeasureInTurns(
          {MakeSide(std::move(two)), MakeSide(std::move(one)), MakeSide(std::move(bare))},
          {.rounds = absl::GetFlag(FLAGS_rounds), .round_ms = kTcpRoundMs, .canary_threads = 2}));
  std::vector<double> percents;
  for (size_t i = 0; i < rounds.ms[0].size(); ++i) {
    percents.push_back((rounds.ms[0][i] - rounds.ms[1][i]) / rounds.ms[2][i] * 100);
  }
  report->Add({.gate = "C15b",
               .what = absl::StrCat("exposed communication, ", training.model, " ",
                                    training.batch_size, ", 2 workers, ", link.name),
               .figure = MedianOf(percents),
               .unit = "%",
               .bound = 40,
               .at_most = true,
               .gated = &link == &k8Gbit,
               .ours = FormatMedian(rounds, 0),
               .peer = absl::StrCat("1 worker ", FormatMedian(rounds, 1), "; all-reduce ",
                                    FormatMedian(rounds, 2))});
  return absl::OkStatus();
}

absl::StatusOr<std::string> DrawStepTimeline(const TrainingCase& training) {
  MF_ASSIGN_OR_RETURN(std::vector<TraceWriter> traces, TraceSteps(training));
  // Select the step of median duration.
  auto duration = [](const TraceWriter& trace) {
    int64_t ns = 0;
    for (const TraceEvent& event : trace.events()) ns += IsStep(event) ? event.duration_ns : 0;
    return ns;
  };
  std::nth_element(
      traces.begin(), traces.begin() + kTracedSteps / 2, traces.end(),
      [&](const TraceWriter& a, const TraceWriter& b) { return duration(a) < duration(b); });
  const std::vector<TraceEvent>& events = traces[kTracedSteps / 2].events();

  int64_t first = std::numeric_limits<int64_t>::max();
  for (const TraceEvent& event : events) {
    if (IsStep(event)) first = std::min(first, event.start_ns);
  }
  auto ms = [&](int64_t ns) { return static_cast<double>(ns - first) * 1e-6; };
  enum Kind { kKernel, kUpdate, kWait, kInFlight };
  std::vector<TimelineSpan> spans;
  std::map<std::pair<int, uint64_t>, double> begins;
  for (const TraceEvent& event : events) {
    const int row = 2 * event.pid;
    if (event.kind == TraceEvent::kAsyncBegin) begins[{event.pid, event.id}] = ms(event.start_ns);
    if (event.kind == TraceEvent::kAsyncEnd) {
      spans.push_back(
          {row + 1, kInFlight, begins[{event.pid, event.id}], ms(event.start_ns), event.name});
    }
    if (event.kind != TraceEvent::kSpan || IsStep(event)) continue;
    const Kind kind = IsCommunication(event) ? kWait : IsUpdate(event) ? kUpdate : kKernel;
    spans.push_back(
        {row, kind, ms(event.start_ns), ms(event.start_ns + event.duration_ns), event.name});
  }
  std::vector<std::string> rows;
  for (int replica = 0; replica < training.replicas; ++replica) {
    rows.push_back(absl::StrCat("replica ", replica, ", compute"));
    rows.push_back(absl::StrCat("replica ", replica, ", collectives"));
  }
  return Timeline(
      absl::StrFormat("One training step of %s, batch %d a replica: %.1f %% exposed communication",
                      training.model, training.batch_size,
                      ExposedShare(traces[kTracedSteps / 2]) * 100),
      rows, {"kernels", "updates", "waits and reduces", "collective in flight"}, spans);
}

}  // namespace mirrorflow
