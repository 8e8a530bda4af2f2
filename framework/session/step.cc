// SPDX-License-Identifier: Apache-2.0
#include "framework/session/step.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/session/prepared_step.h"
#include "framework/session/session.h"
#include "framework/session/step_plans.h"

namespace mirrorflow {
namespace {

// Returns a step's session, or null if there is none.
Session* SessionOf(const PreparedStep* step) {
  return step == nullptr ? nullptr : step->session.load(std::memory_order_relaxed);
}

// Returns the error to report if SessionOf returns null for a step.
absl::Status NoSession(const PreparedStep* step) {
  return absl::FailedPreconditionError(
      step == nullptr ? "step: not prepared; get it from Session::Prepare"
                      : "step: its session was destroyed; keep the session alive until the "
                        "step's last use");
}

}  // namespace

void StepOutputs::OutOfRange(size_t i) const {
  internal::Misused(absl::StrCat("StepOutputs[", i, "]: no such fetch; expected an index below ",
                                 values_.size()));
}

absl::StatusOr<StepOutputs> Step::Run(absl::Span<const Tensor> feeds, const RunOptions& options) {
  if (Session* const session = SessionOf(prepared_.get())) [[likely]]
    return session->RunStep(*prepared_, feeds, options);
  return NoSession(prepared_.get());
}

absl::StatusOr<StepOutputs> Step::Run(const DistributedBatch& batch, RunOptions options) {
  options.next_feeds = batch.next();
  options.local_feeds |= batch.has_local_rows();
  if (options.replica_rows.empty()) options.replica_rows = batch.replica_rows();
  return Run(batch.components(), options);
}

absl::Duration Step::host_time() const {
  const Session* const session = SessionOf(prepared_.get());
  return session != nullptr ? absl::Nanoseconds(prepared_->host_time_ns.load())
                            : absl::ZeroDuration();
}

absl::StatusOr<std::vector<Tensor>> Step::PerReplica(int i) const {
  if (const Session* const session = SessionOf(prepared_.get())) {
    return session->PerReplica(*prepared_, i);
  }
  return NoSession(prepared_.get());
}

absl::StatusOr<StepPlans> CompileStep(const Step& step, absl::Span<const Shape> feed_shapes,
                                      const RunOptions& options) {
  Session* const session = SessionOf(step.prepared());
  if (session == nullptr) return NoSession(step.prepared());
  return session->Compile(*step.prepared(), feed_shapes, options);
}

absl::StatusOr<PlanElsewhere> CompileStepFor(const Step& step, std::vector<Shape> feed_shapes,
                                             const Topology& topology, const LinkCosts& link) {
  const Session* const session = SessionOf(step.prepared());
  if (session == nullptr) return NoSession(step.prepared());
  return session->CompileFor(*step.prepared(), std::move(feed_shapes), topology, link);
}

}  // namespace mirrorflow
