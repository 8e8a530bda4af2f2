// SPDX-License-Identifier: Apache-2.0
#include "framework/workers/gather_trace.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/proto/trace.pb.h"
#include "framework/runtime/trace_proto.h"

namespace mirrorflow {
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
