// SPDX-License-Identifier: Apache-2.0
//
// TraceWriter: collects what ran when, and writes it as a Chrome trace (chrome://tracing,
// ui.perfetto.dev). A replica is a process of the trace, and a lane is a thread of it. Collectives
// overlap other work of their lane, so they are asynchronous spans (begin and end, joined by an
// id). An arrow leads from the instruction that starts a collective to the one that waits for it.
// Traces of several workers are merged into one (MergeTrace).
//
// Not thread-safe: replicas record times in their own memory, and events are added after the step.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_TRACE_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_TRACE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

struct TraceEvent {
  enum Kind {
    kSpan,        // start and duration; spans of one (pid, tid) nest or are disjoint
    kAsyncBegin,  // joined to its end by (pid, category, id); these may overlap
    kAsyncEnd,
    kFlowStart,  // an arrow, joined by (category, name, id); lies within a span of its (pid, tid)
    kFlowFinish,
  };

  std::string name;
  std::string category;
  Kind kind = kSpan;
  int pid = 0;  // replica
  int tid = 0;  // lane
  int64_t start_ns = 0;
  int64_t duration_ns = 0;  // of a span
  uint64_t id = 0;          // of the other kinds
  // Shown when the event is clicked: bytes of a collective, shape of a kernel, …
  std::vector<std::pair<std::string, std::string>> args;
};

class TraceWriter {
 public:
  // Processes and threads are shown in the order of their numbers.
  void NameProcess(int pid, absl::string_view name);
  void NameThread(int pid, int tid, absl::string_view name);
  void Add(TraceEvent event) { events_.push_back(std::move(event)); }

  // A fact about the trace as a whole, for the reader of the file.
  void Describe(absl::string_view what, absl::string_view value);

  const std::vector<TraceEvent>& events() const { return events_; }
  const std::map<int, std::string>& processes() const { return processes_; }
  // By (pid, tid).
  const std::map<std::pair<int, int>, std::string>& threads() const { return threads_; }

  // Times count from the first event: viewers keep them in double precision, which is too coarse
  // for the nanoseconds since 1970.
  std::string ToJson() const;
  absl::Status WriteFile(absl::string_view path) const;

 private:
  std::map<int, std::string> processes_;
  std::map<std::pair<int, int>, std::string> threads_;
  std::map<std::string, std::string> descriptions_;
  std::vector<TraceEvent> events_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_TRACE_H_
