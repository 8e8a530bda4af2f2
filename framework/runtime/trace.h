// SPDX-License-Identifier: Apache-2.0
//
// TraceWriter: records what ran when, and writes it as a Chrome trace (chrome://tracing,
// ui.perfetto.dev). In the trace, each replica is a process and each of its lanes a thread.
// Collectives overlap other work on their lane, so they are asynchronous spans (begin and end,
// joined by an id). An arrow leads from the instruction that starts a collective to the one that
// waits for it. MergeTrace combines the traces of several workers.
//
// Not thread-safe: replicas record times in their own memory, and one thread adds the events after
// the step.
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
    kFlowStart,  // an arrow, joined by (category, name, id), within a span of its (pid, tid)
    kFlowFinish,
    kCounter,  // numbers at a time, in `args`; viewers draw a graph for each (pid, name)
  };

  std::string name;
  std::string category;
  Kind kind = kSpan;
  int pid = 0;  // replica
  int tid = 0;  // lane
  int64_t start_ns = 0;
  int64_t duration_ns = 0;  // of a span
  uint64_t id = 0;          // of asynchronous events and arrows
  // Details that the viewer shows for a selected event: a collective's bytes, a kernel's shape, …
  std::vector<std::pair<std::string, std::string>> args;
};

class TraceWriter {
 public:
  // Name processes and threads, which viewers show in the order of `pid` and `tid`.
  void NameProcess(int pid, absl::string_view name) { processes_[pid] = std::string(name); }
  void NameThread(int pid, int tid, absl::string_view name) {
    threads_[{pid, tid}] = std::string(name);
  }
  void Add(TraceEvent event) { events_.push_back(std::move(event)); }

  // Adds metadata about the trace as a whole.
  void Describe(absl::string_view what, absl::string_view value) {
    descriptions_[std::string(what)] = std::string(value);
  }

  const std::vector<TraceEvent>& events() const { return events_; }
  const std::map<int, std::string>& processes() const { return processes_; }
  // Returns the thread names, by (pid, tid).
  const std::map<std::pair<int, int>, std::string>& threads() const { return threads_; }

  // Returns the trace as JSON. Times are relative to the first event: viewers store them in double
  // precision, which cannot represent the nanoseconds since 1970 exactly.
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
