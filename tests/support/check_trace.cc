// SPDX-License-Identifier: Apache-2.0
#include "tests/support/check_trace.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/core/json.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

using Thread = std::pair<int, int>;  // pid, tid

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

// Checks that, among events with the same key, the i-th beginning pairs with the i-th end, and that
// pairs do not overlap.
absl::Status CheckPairs(const std::vector<TraceEvent>& events, TraceEvent::Kind first,
                        TraceEvent::Kind last) {
  using Key = std::tuple<int, std::string, std::string, uint64_t>;
  using Events = std::vector<const TraceEvent*>;
  std::map<Key, std::pair<Events, Events>> by_key;
  for (const TraceEvent& event : events) {
    if (event.kind != first && event.kind != last) continue;
    // An arrow can lead to another process.
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

absl::Status CheckTrace(const TraceWriter& trace) {
  const std::vector<TraceEvent>& events = trace.events();
  MF_ASSIGN_OR_RETURN(const SpansByThread spans, CheckSpans(events));
  MF_RETURN_IF_ERROR(CheckPairs(events, TraceEvent::kAsyncBegin, TraceEvent::kAsyncEnd));
  MF_RETURN_IF_ERROR(CheckPairs(events, TraceEvent::kFlowStart, TraceEvent::kFlowFinish));
  return CheckArrowsLieInSpans(events, spans);
}

}  // namespace mirrorflow
