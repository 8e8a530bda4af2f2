// SPDX-License-Identifier: Apache-2.0
//
// Traces the steps of a session, on one worker or on all.
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/status.h"
#include "framework/session/gather_trace.h"
#include "framework/session/step_state.h"

namespace mirrorflow {
namespace {

// In the first ones, workers wait for one another; most of the rest take one round trip.
constexpr int kBarriers = 32;

}  // namespace

void SessionState::TraceTo(TraceWriter* trace) {
  tracer_ = trace == nullptr ? nullptr : std::make_unique<StepTracer>(trace);
}

void SessionState::AddTrace(const StepVariant& variant, uint64_t step) {
  for (size_t r = 0; r < variant.spans.size(); ++r) {
    const Replica& replica = *replicas_[r];
    std::string process =
        absl::StrCat("replica ", replica.rank(), " (", replica.device().name(), ")");
    if (connection_.has_other_workers()) {
      process = absl::StrCat("worker ", connection_.worker(), ", ", process);
    }
    tracer_->AddStep(variant.bound[r]->plan(), step, replica.rank(), process, variant.spans[r]);
  }
}

// A barrier of the replicas takes a fraction of the time of one of the worker group, and so does
// the error of the clocks.
absl::StatusOr<std::vector<Passage>> SessionState::PassBarriers() {
  MF_RETURN_IF_ERROR(FinishUpdates());
  std::vector<Passage> passages(kBarriers);
  for (Passage& passage : passages) {
    passage.enter_ns = absl::GetCurrentTimeNanos();
    MF_RETURN_IF_ERROR(OnEachReplica([](Replica& replica, Lane& lane) {
      return replica.communicator()->Run({.operation = Barrier{}, .name = "clocks"}, &lane);
    }));
    passage.leave_ns = absl::GetCurrentTimeNanos();
  }
  return passages;
}

absl::Status SessionState::GatherTrace() {
  if (tracer_ == nullptr) {
    return absl::FailedPreconditionError(
        "GatherTrace: expected a session that is traced (TraceTo)");
  }
  const absl::Status finished = FinishUpdates();  // and their spans
  TraceWriter& trace = std::exchange(tracer_, nullptr)->trace();
  MF_RETURN_IF_ERROR(finished);
  if (!connection_.has_other_workers()) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(const std::vector<Passage> passages, PassBarriers());
  return mirrorflow::GatherTrace(absl::StrCat("trace ", num_gathered_traces_++), passages,
                                 *connection_.workers(), PrepareDeadline(), &trace);
}

}  // namespace mirrorflow
