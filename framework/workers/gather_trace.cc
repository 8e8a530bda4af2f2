// SPDX-License-Identifier: Apache-2.0
#include "framework/workers/gather_trace.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/proto/trace.pb.h"

namespace mirrorflow {

absl::StatusOr<ClockOffset> OffsetOf(absl::Span<const Passage> other,
                                     absl::Span<const Passage> own) {
  if (own.empty() || other.size() != own.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "clock offset: expected equal counts of barrier times, at least one each; got ", own.size(),
        " and ", other.size()));
  }
  ClockOffset best;
  for (size_t i = 0; i < own.size(); ++i) {
    const int64_t most = other[i].leave_ns - own[i].enter_ns;
    const int64_t least = other[i].enter_ns - own[i].leave_ns;
    const ClockOffset offset{.ns = least + (most - least) / 2,
                             .max_error_ns = (most - least + 1) / 2};
    if (i == 0 || offset.max_error_ns < best.max_error_ns) best = offset;
  }
  return best;
}

namespace {

absl::Status Malformed(absl::string_view what, int64_t got, int64_t end) {
  return absl::InvalidArgumentError(absl::StrCat("trace from another worker: ", what,
                                                 " out of range; expected less than ", end,
                                                 ", got ", got));
}

}  // namespace

proto::Trace TraceToProto(const TraceWriter& trace) {
  proto::Trace proto;
  std::map<std::string, uint32_t, std::less<>> indices;
  const auto index_of = [&](const std::string& text) {
    const auto [index, is_new] = indices.try_emplace(text, proto.strings_size());
    if (is_new) proto.add_strings(text);
    return index->second;
  };
  int64_t last_ns = 0;
  for (const TraceEvent& event : trace.events()) {
    proto::Trace::Event& out = *proto.add_events();
    out.set_name(index_of(event.name));
    out.set_category(index_of(event.category));
    out.set_kind(event.kind);
    out.set_pid(event.pid);
    out.set_tid(event.tid);
    out.set_start_ns(event.start_ns - std::exchange(last_ns, event.start_ns));
    out.set_duration_ns(event.duration_ns);
    out.set_id(event.id);
    for (const auto& [key, value] : event.args) {
      out.add_args(index_of(key));
      out.add_args(index_of(value));
    }
  }
  for (const auto& [pid, name] : trace.processes()) {
    proto::Trace::Name& process = *proto.add_processes();
    process.set_pid(pid);
    process.set_name(name);
  }
  for (const auto& [thread, name] : trace.threads()) {
    proto::Trace::Name& out = *proto.add_threads();
    out.set_pid(thread.first);
    out.set_tid(thread.second);
    out.set_name(name);
  }
  return proto;
}

absl::Status MergeTrace(const proto::Trace& proto, int64_t clock_offset_ns, TraceWriter* trace) {
  const auto num_strings = static_cast<uint32_t>(proto.strings_size());
  int64_t start_ns = -clock_offset_ns;
  for (const proto::Trace::Event& in : proto.events()) {
    uint32_t last = std::max(in.name(), in.category());
    for (const uint32_t arg : in.args()) last = std::max(last, arg);
    if (last >= num_strings) return Malformed("string index", last, num_strings);
    if (in.kind() > TraceEvent::kCounter) {
      return Malformed("event kind", in.kind(), TraceEvent::kCounter + 1);
    }
    start_ns += in.start_ns();
    TraceEvent event{.name = proto.strings(in.name()),
                     .category = proto.strings(in.category()),
                     .kind = static_cast<TraceEvent::Kind>(in.kind()),
                     .pid = in.pid(),
                     .tid = in.tid(),
                     .start_ns = start_ns,
                     .duration_ns = in.duration_ns(),
                     .id = in.id()};
    for (int i = 0; i + 1 < in.args_size(); i += 2) {
      event.args.emplace_back(proto.strings(in.args(i)), proto.strings(in.args(i + 1)));
    }
    trace->Add(std::move(event));
  }
  for (const proto::Trace::Name& process : proto.processes()) {
    trace->NameProcess(process.pid(), process.name());
  }
  for (const proto::Trace::Name& thread : proto.threads()) {
    trace->NameThread(thread.pid(), thread.tid(), thread.name());
  }
  return absl::OkStatus();
}

namespace {

absl::Status MergeWorker(int worker, const std::string& bytes, absl::Span<const Passage> own,
                         TraceWriter* trace) {
  proto::Trace proto;
  if (!proto.ParseFromString(bytes)) return absl::InternalError("malformed trace");
  std::vector<Passage> passages;
  for (const proto::Trace::Passage& passage : proto.passages()) {
    passages.push_back({passage.enter_ns(), passage.leave_ns()});
  }
  MF_ASSIGN_OR_RETURN(const ClockOffset offset, OffsetOf(passages, own));
  trace->Describe(absl::StrCat("clock of worker ", worker),
                  absl::StrFormat("%.1f us ahead of worker 0, error at most %.1f us",
                                  static_cast<double>(offset.ns) * 1e-3,
                                  static_cast<double>(offset.max_error_ns) * 1e-3));
  return MergeTrace(proto, offset.ns, trace);
}

}  // namespace

absl::Status GatherTrace(absl::string_view name, absl::Span<const Passage> passages,
                         WorkerGroup& workers, MonotonicTime deadline, TraceWriter* trace) {
  const auto key = [&](int worker) { return absl::StrCat(name, " of worker ", worker); };
  if (workers.worker() != 0) {
    proto::Trace proto = TraceToProto(*trace);
    for (const Passage& passage : passages) {
      proto::Trace::Passage& out = *proto.add_passages();
      out.set_enter_ns(passage.enter_ns);
      out.set_leave_ns(passage.leave_ns);
    }
    return workers.PutForReaders(key(workers.worker()), /*readers=*/1, proto.SerializeAsString(),
                                 deadline);
  }
  for (int worker = 1; worker < workers.num_workers(); ++worker) {
    MF_ASSIGN_OR_RETURN(const std::string bytes, workers.Get(key(worker), deadline));
    MF_RETURN_IF_ERROR(
        Annotate(MergeWorker(worker, bytes, passages, trace), absl::StrCat("worker ", worker)));
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
