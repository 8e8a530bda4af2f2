// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/json.h"
#include "framework/core/status.h"
#include "nlohmann/json.hpp"
#include "tools/report/read_run.h"

namespace mirrorflow {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxSpans = 6000;  // per picture; the shortest spans are omitted
constexpr size_t kMaxRows = 64;
constexpr size_t kMaxOps = 12;

// The order determines the colours in the picture.
const std::vector<std::string> kKinds = {"kernel", "copy", "wait", "collective", "update"};

// Return a field's value, or 0 or an empty string if it is missing or has another type.
double Number(const Json& event, const char* field) {
  const auto found = event.find(field);
  return found != event.end() && found->is_number() ? found->get<double>() : 0;
}
std::string Text(const Json& event, const char* field) {
  const auto found = event.find(field);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}

struct Span {
  std::string name, category, op;
  int pid, tid;
  double begin, end;  // in milliseconds
};

struct Trace {
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  std::vector<Span> spans;
  std::vector<Span> flights;  // collectives in flight
};

int Id(const Json& event, const char* field) {
  constexpr double kMax = 1e9;
  return static_cast<int>(std::clamp(Number(event, field), -kMax, kMax));
}

void AddMetadata(const Json& event, const std::string& name, Trace* trace) {
  if (!event.contains("args") || !event["args"].is_object()) return;
  const std::string text = Text(event["args"], "name");
  const int pid = Id(event, "pid");
  if (name == "process_name") trace->processes[pid] = text;
  if (name == "thread_name") trace->threads[{pid, Id(event, "tid")}] = text;
}

absl::StatusOr<Trace> ParseTrace(const std::string& text) {
  MF_ASSIGN_OR_RETURN(const Json json, Annotate(ParseJson(text), "not a trace"));
  if (!json.is_object() || !json.contains("traceEvents") || !json["traceEvents"].is_array()) {
    return absl::InvalidArgumentError("not a trace; expected a JSON object with traceEvents");
  }
  Trace trace;
  std::map<std::tuple<int, std::string, std::string>, Span> open;
  for (const Json& event : json["traceEvents"]) {
    if (!event.is_object()) continue;
    const std::string phase = Text(event, "ph"), name = Text(event, "name");
    const double ts = Number(event, "ts") / 1e3;
    Span span = {name, Text(event, "cat"), "", Id(event, "pid"), Id(event, "tid"), ts, ts};
    if (phase == "M") {
      AddMetadata(event, name, &trace);
    } else if (phase == "X") {
      span.end += Number(event, "dur") / 1e3;
      if (event.contains("args") && event["args"].is_object()) {
        span.op = Text(event["args"], "op");
      }
      trace.spans.push_back(std::move(span));
    } else if (phase == "b" || phase == "e") {
      const std::tuple key(span.pid, name, Text(event, "id"));
      if (phase == "b") {
        open.insert_or_assign(key, std::move(span));
      } else if (auto begin = open.extract(key); !begin.empty()) {
        begin.mapped().end = ts;
        trace.flights.push_back(std::move(begin.mapped()));
      }
    }
  }
  return trace;
}

// Returns the index in kKinds of the span's category, or kKinds.size() for other categories, such
// as whole steps.
size_t KindOf(const Span& span) {
  return std::find(kKinds.begin(), kKinds.end(), span.category) - kKinds.begin();
}

struct Range {
  double begin, end;
};

// Returns the steps by name. A step lasts from when the first process begins it until the last
// process ends it.
std::map<std::string, Range> StepsOf(const Trace& trace) {
  std::map<std::string, Range> steps;
  for (const Span& span : trace.spans) {
    if (span.category != "step") continue;
    auto [step, is_new] = steps.emplace(span.name, Range{span.begin, span.end});
    if (is_new) continue;
    step->second.begin = std::min(step->second.begin, span.begin);
    step->second.end = std::max(step->second.end, span.end);
  }
  return steps;
}

// Returns the total time that at least one of the ranges covers.
double Covered(std::vector<Range> ranges) {
  std::ranges::sort(ranges, {}, &Range::begin);
  double covered = 0, until = 0;
  for (const Range& range : ranges) {
    covered += std::max(0.0, range.end - std::max(range.begin, until));
    until = std::max(until, range.end);
  }
  return covered;
}

// Fills in a timeline with the spans of its step.
class Builder {
 public:
  Builder(const Trace& trace, const Range& step, StepTimeline* out)
      : trace_(trace), step_(step), out_(*out) {}

  void Build() {
    out_.kinds = kKinds;
    for (const Span& span : trace_.spans) {
      if (KindOf(span) < kKinds.size() && IsInStep(span))
        lanes_[{span.pid, span.tid}].push_back(&span);
    }
    // The row of collectives follows the other lanes of its process.
    constexpr int kLast = 1'000'000'001;
    for (const Span& flight : trace_.flights) {
      if (KindOf(flight) < kKinds.size() && IsInStep(flight))
        lanes_[{flight.pid, kLast}].push_back(&flight);
    }
    for (const auto& [lane, spans] : lanes_) AddLane(lane, spans, lane.second == kLast);
    for (auto& [op, ms] : by_op_) out_.ms_by_op.emplace_back(op, ms);
    std::ranges::sort(out_.ms_by_op, std::ranges::greater(), [](auto& op) { return op.second; });
    if (out_.ms_by_op.size() > kMaxOps) out_.ms_by_op.resize(kMaxOps);
    if (out_.spans.size() > kMaxSpans) {
      std::nth_element(out_.spans.begin(), out_.spans.begin() + kMaxSpans, out_.spans.end(),
                       [](const TimelineSpan& a, const TimelineSpan& b) {
                         return a.end - a.begin > b.end - b.begin;
                       });
      out_.spans_left_out += out_.spans.size() - kMaxSpans;
      out_.spans.resize(kMaxSpans);
    }
  }

 private:
  bool IsInStep(const Span& span) const { return span.begin < step_.end && span.end > step_.begin; }

  std::string ProcessName(int pid) const {
    const auto found = trace_.processes.find(pid);
    return found != trace_.processes.end() ? found->second : absl::StrCat("process ", pid);
  }

  void AddLane(const std::pair<int, int>& lane, const std::vector<const Span*>& spans,
               bool in_flight) {
    const std::string process = ProcessName(lane.first);
    const bool is_first = out_.processes.empty() || last_pid_ != lane.first;
    if (is_first) out_.processes.push_back({process});
    last_pid_ = lane.first;
    StepTimeline::Process& times = out_.processes.back();
    const auto thread = trace_.threads.find(lane);
    const std::string row = in_flight                        ? "in flight"
                            : thread != trace_.threads.end() ? thread->second
                                                             : absl::StrCat("thread ", lane.second);
    const bool has_room = out_.rows.size() < kMaxRows;
    // Process names are long, and the lanes of a process are adjacent, so show the name only once.
    if (has_room) out_.rows.push_back(is_first ? absl::StrCat(process, ", ", row) : row);
    std::vector<Range> flights;
    for (const Span* span : spans) {
      const double begin = std::max(span->begin, step_.begin);
      const double end = std::min(span->end, step_.end), ms = end - begin;
      if (in_flight) flights.push_back({begin, end});
      if (!in_flight && span->category == "kernel") {
        times.kernels += ms;
        by_op_[span->op.empty() ? span->name : span->op] += ms;
      }
      if (!in_flight && span->category == "wait") times.waiting += ms;
      if (!has_room) {
        ++out_.spans_left_out;
        continue;
      }
      out_.spans.push_back({static_cast<int>(out_.rows.size()) - 1, static_cast<int>(KindOf(*span)),
                            begin - step_.begin, end - step_.begin, span->name});
    }
    if (in_flight) times.in_flight = Covered(std::move(flights));
  }

  const Trace& trace_;
  const Range step_;
  StepTimeline& out_;
  std::map<std::pair<int, int>, std::vector<const Span*>> lanes_;
  std::map<std::string, double> by_op_;
  int last_pid_ = 0;
};

}  // namespace

absl::StatusOr<StepTimeline> ReadStepTimeline(const std::string& json) {
  MF_ASSIGN_OR_RETURN(const Trace trace, ParseTrace(json));
  std::vector<std::pair<std::string, Range>> steps;
  for (auto& [name, range] : StepsOf(trace)) steps.emplace_back(name, range);
  if (steps.empty()) return absl::InvalidArgumentError("the trace has no steps");
  StepTimeline timeline;
  std::ranges::sort(steps, {}, [](const auto& step) { return step.second.begin; });
  for (const auto& [name, range] : steps) timeline.step_ms.push_back(range.end - range.begin);
  const auto median = steps.begin() + static_cast<ptrdiff_t>((steps.size() - 1) / 2);
  std::nth_element(steps.begin(), median, steps.end(), [](const auto& a, const auto& b) {
    return a.second.end - a.second.begin < b.second.end - b.second.begin;
  });
  timeline.step = median->first;
  timeline.ms = median->second.end - median->second.begin;
  Builder(trace, median->second, &timeline).Build();
  return timeline;
}

}  // namespace mirrorflow
