// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/trace.h"

#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/core/file.h"
#include "framework/core/json.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

using Json = nlohmann::ordered_json;

// The phase letters of the trace format, by Kind.
constexpr absl::string_view kPhases[] = {"X", "b", "e", "s", "f", "C"};

// Converts to the trace format's unit. Exact to the nanosecond for eleven days after the first
// event.
double Microseconds(uint64_t ns) { return static_cast<double>(ns) / 1e3; }

Json EventJson(const TraceEvent& event, int64_t origin_ns) {
  const uint64_t start_ns =
      static_cast<uint64_t>(event.start_ns) - static_cast<uint64_t>(origin_ns);
  Json json = {{"name", event.name}, {"cat", event.category}, {"ph", kPhases[event.kind]},
               {"pid", event.pid},   {"tid", event.tid},      {"ts", Microseconds(start_ns)}};
  if (event.kind == TraceEvent::kSpan) {
    json["dur"] = Microseconds(event.duration_ns);
  } else if (event.kind != TraceEvent::kCounter) {
    // Written as a string, because most readers parse JSON numbers in double precision.
    json["id"] = absl::StrCat(event.id);
  }
  // Binds the arrow to the enclosing span instead of the next span that begins.
  if (event.kind == TraceEvent::kFlowFinish) json["bp"] = "e";
  for (const auto& [key, value] : event.args) {
    int64_t number = 0;
    if (event.kind == TraceEvent::kCounter && absl::SimpleAtoi(value, &number)) {
      json["args"][key] = number;
    } else {
      json["args"][key] = value;
    }
  }
  return json;
}

template <typename Value>
Json MetadataJson(absl::string_view kind, int pid, int tid, const char* key, const Value& value) {
  return {{"name", kind}, {"ph", "M"}, {"pid", pid}, {"tid", tid}, {"args", {{key, value}}}};
}

}  // namespace

std::string TraceWriter::ToJson() const {
  std::string out =
      absl::StrCat("{\"displayTimeUnit\":\"ms\",\"otherData\":", JsonText(Json(descriptions_)),
                   ",\"traceEvents\":[");
  absl::string_view separator = "\n";
  // Formats events one by one: the JSON objects of a whole trace take several times as much memory
  // as its text.
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
