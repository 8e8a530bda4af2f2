// SPDX-License-Identifier: Apache-2.0
#include "framework/session/step.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/session/prepared_step.h"
#include "framework/session/session.h"
#include "framework/session/step_plans.h"

namespace mirrorflow {
namespace {

absl::StatusOr<Session*> SessionOf(const PreparedStep* step) {
  if (step == nullptr) {
    return absl::FailedPreconditionError("step: not prepared; get it from Session::Prepare");
  }
  if (Session* const session = step->session.load(std::memory_order_relaxed)) return session;
  return absl::FailedPreconditionError(
      "step: its session was destroyed; keep the session alive until the step's last use");
}

}  // namespace

void StepOutputs::OutOfRange(size_t i) const {
  internal::Misused(absl::StrCat("StepOutputs[", i, "]: no such fetch; expected an index below ",
                                 values_.size()));
}

absl::StatusOr<StepOutputs> Step::Run(absl::Span<const Tensor> feeds, const RunOptions& options) {
  MF_ASSIGN_OR_RETURN(Session* const session, SessionOf(prepared_.get()));
  return session->RunStep(*prepared_, feeds, options);
}

absl::StatusOr<StepOutputs> Step::Run(const DistributedBatch& batch, RunOptions options) {
  options.next_feeds = batch.next();
  options.local_feeds |= batch.has_local_rows();
  if (options.replica_rows.empty()) options.replica_rows = batch.replica_rows();
  return Run(batch.components(), options);
}

absl::Duration Step::host_time() const {
  return SessionOf(prepared_.get()).ok() ? absl::Nanoseconds(prepared_->host_time_ns.load())
                                         : absl::ZeroDuration();
}

absl::StatusOr<std::vector<Tensor>> Step::PerReplica(int i) const {
  MF_ASSIGN_OR_RETURN(const Session* const session, SessionOf(prepared_.get()));
  return session->PerReplica(*prepared_, i);
}

absl::StatusOr<StepPlans> CompileStep(const Step& step, absl::Span<const Shape> feed_shapes,
                                      const RunOptions& options) {
  MF_ASSIGN_OR_RETURN(Session* const session, SessionOf(step.prepared()));
  return session->Compile(*step.prepared(), feed_shapes, options);
}

absl::StatusOr<PlanElsewhere> CompileStepFor(const Step& step, std::vector<Shape> feed_shapes,
                                             const Elsewhere& elsewhere) {
  MF_ASSIGN_OR_RETURN(const Session* const session, SessionOf(step.prepared()));
  return session->CompileFor(*step.prepared(), std::move(feed_shapes), elsewhere);
}

}  // namespace mirrorflow
