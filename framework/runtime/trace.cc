// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/trace.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "framework/core/file.h"
#include "framework/core/json.h"
#include "framework/core/status.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

using Json = nlohmann::ordered_json;
using Thread = std::pair<int, int>;  // pid, tid

// The phase letter in the file, by Kind.
constexpr absl::string_view kPhases[] = {"X", "b", "e", "s", "f"};

// The unit of the file. Exact to the nanosecond for eleven days after the first event.
double Microseconds(uint64_t ns) { return static_cast<double>(ns) / 1e3; }

Json EventJson(const TraceEvent& event, int64_t origin_ns) {
  const uint64_t start_ns =
      static_cast<uint64_t>(event.start_ns) - static_cast<uint64_t>(origin_ns);
  Json json = {{"name", event.name}, {"cat", event.category}, {"ph", kPhases[event.kind]},
               {"pid", event.pid},   {"tid", event.tid},      {"ts", Microseconds(start_ns)}};
  if (event.kind == TraceEvent::kSpan) {
    json["dur"] = Microseconds(event.duration_ns);
  } else {
    // A string, because most readers parse JSON numbers as double.
    json["id"] = absl::StrCat(event.id);
  }
  // Binds the arrow to the enclosing span instead of the next span to begin.
  if (event.kind == TraceEvent::kFlowFinish) json["bp"] = "e";
  for (const auto& [key, value] : event.args) json["args"][key] = value;
  return json;
}

template <typename Value>
Json MetadataJson(absl::string_view kind, int pid, int tid, const char* key, const Value& value) {
  return {{"name", kind}, {"ph", "M"}, {"pid", pid}, {"tid", tid}, {"args", {{key, value}}}};
}

absl::Status Wrong(const TraceEvent& event, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("trace: ", JsonQuote(event.name), " on process ",
                                                 event.pid, ", thread ", event.tid, " at ",
                                                 event.start_ns, " ns: ", what));
}

int64_t EndOf(const TraceEvent& span) { return span.start_ns + span.duration_ns; }

using SpansByThread = std::map<Thread, std::vector<const TraceEvent*>>;

absl::StatusOr<SpansByThread> CheckSpans(const std::vector<TraceEvent>& events) {
  SpansByThread spans;
  for (const TraceEvent& event : events) {
    if (event.kind != TraceEvent::kSpan) continue;
    if (event.duration_ns < 0) return Wrong(event, "a span must not end before it starts");
    spans[{event.pid, event.tid}].push_back(&event);
  }
  for (auto& [thread, list] : spans) {
    // Outer spans come before inner ones with the same start.
    std::stable_sort(list.begin(), list.end(), [](const TraceEvent* a, const TraceEvent* b) {
      return std::make_tuple(a->start_ns, -a->duration_ns) <
             std::make_tuple(b->start_ns, -b->duration_ns);
    });
    std::vector<const TraceEvent*> open;
    for (const TraceEvent* span : list) {
      while (!open.empty() && EndOf(*open.back()) <= span->start_ns) open.pop_back();
      if (!open.empty() && EndOf(*span) > EndOf(*open.back())) {
        return Wrong(*span, absl::StrCat("overlaps ", JsonQuote(open.back()->name),
                                         "; expected it to end by ", EndOf(*open.back()), ", got ",
                                         EndOf(*span)));
      }
      open.push_back(span);
    }
  }
  return spans;
}

// Checks that, of the events with the same key, the i-th beginning pairs with the i-th end, and
// that pairs do not overlap.
absl::Status CheckPairs(const std::vector<TraceEvent>& events, TraceEvent::Kind first,
                        TraceEvent::Kind last) {
  using Key = std::tuple<int, std::string, std::string, uint64_t>;
  using Events = std::vector<const TraceEvent*>;
  std::map<Key, std::pair<Events, Events>> by_key;
  for (const TraceEvent& event : events) {
    if (event.kind != first && event.kind != last) continue;
    // An arrow may lead to another process.
    const int pid = first == TraceEvent::kAsyncBegin ? event.pid : 0;
    auto& [begins, ends] = by_key[{pid, event.category, event.name, event.id}];
    (event.kind == first ? begins : ends).push_back(&event);
  }
  for (auto& [key, pairs] : by_key) {
    auto& [begins, ends] = pairs;
    for (Events* list : {&begins, &ends}) {
      std::stable_sort(list->begin(), list->end(), [](const TraceEvent* a, const TraceEvent* b) {
        return a->start_ns < b->start_ns;
      });
    }
    for (size_t i = 0; i < std::max(begins.size(), ends.size()); ++i) {
      if (i >= ends.size()) return Wrong(*begins[i], "has no end");
      if (i >= begins.size() || ends[i]->start_ns < begins[i]->start_ns) {
        return Wrong(*ends[i], "has no beginning before it");
      }
      if (i > 0 && begins[i]->start_ns < ends[i - 1]->start_ns) {
        return Wrong(*begins[i], "begins again before its end");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckArrowsLieInSpans(const std::vector<TraceEvent>& events,
                                   const SpansByThread& spans) {
  for (const TraceEvent& event : events) {
    if (event.kind != TraceEvent::kFlowStart && event.kind != TraceEvent::kFlowFinish) continue;
    const auto list = spans.find({event.pid, event.tid});
    const bool inside =
        list != spans.end() &&
        std::any_of(list->second.begin(), list->second.end(), [&](const TraceEvent* span) {
          return span->start_ns <= event.start_ns && event.start_ns <= EndOf(*span);
        });
    if (!inside) return Wrong(event, "the end of an arrow must lie within a span of its thread");
  }
  return absl::OkStatus();
}

}  // namespace

void TraceWriter::NameProcess(int pid, absl::string_view name) {
  processes_[pid] = std::string(name);
}

void TraceWriter::NameThread(int pid, int tid, absl::string_view name) {
  threads_[{pid, tid}] = std::string(name);
}

void TraceWriter::Describe(absl::string_view what, absl::string_view value) {
  descriptions_[std::string(what)] = std::string(value);
}

absl::Status TraceWriter::Check() const {
  MF_ASSIGN_OR_RETURN(const SpansByThread spans, CheckSpans(events_));
  MF_RETURN_IF_ERROR(CheckPairs(events_, TraceEvent::kAsyncBegin, TraceEvent::kAsyncEnd));
  MF_RETURN_IF_ERROR(CheckPairs(events_, TraceEvent::kFlowStart, TraceEvent::kFlowFinish));
  return CheckArrowsLieInSpans(events_, spans);
}

std::string TraceWriter::ToJson() const {
  std::string out =
      absl::StrCat("{\"displayTimeUnit\":\"ms\",\"otherData\":", JsonText(Json(descriptions_)),
                   ",\"traceEvents\":[");
  absl::string_view separator = "\n";
  // Formats each event at once: the objects of a whole trace take several times its text.
  auto append = [&](const Json& event) {
    absl::StrAppend(&out, separator, JsonText(event));
    separator = ",\n";
  };
  for (const auto& [pid, name] : processes_) {
    append(MetadataJson("process_name", pid, 0, "name", name));
    append(MetadataJson("process_sort_index", pid, 0, "sort_index", pid));
  }
  for (const auto& [thread, name] : threads_) {
    const auto [pid, tid] = thread;
    append(MetadataJson("thread_name", pid, tid, "name", name));
    append(MetadataJson("thread_sort_index", pid, tid, "sort_index", tid));
  }
  int64_t origin_ns = std::numeric_limits<int64_t>::max();
  for (const TraceEvent& event : events_) origin_ns = std::min(origin_ns, event.start_ns);
  for (const TraceEvent& event : events_) append(EventJson(event, origin_ns));
  return out + "\n]}\n";
}

absl::Status TraceWriter::WriteFile(absl::string_view path) const {
  return WriteFileAtomically(path, {ToJson()});
}

}  // namespace mirrorflow
