// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/failure_attribution.h"

#include <map>
#include <set>
#include <utility>

#include "distribute/cluster/coordination/answer.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/runtime/status_proto.h"

namespace mirrorflow {
namespace {

// How long to wait for evidence of a cause other than the reported one.
constexpr absl::Duration kPatience = absl::Seconds(5);

}  // namespace

void FailureAttribution::Add(CoordinationState* group, uint64_t incarnation,
                             const absl::Status& report, CoordinationState::Done done) {
  MutexLock lock(&mu_);
  pending_.push_back({group, incarnation, report, std::move(done), MonotonicTime::Now()});
}

void FailureAttribution::Decide(const Membership& membership, MonotonicTime now) {
  std::list<UnattributedFailure> decided;
  {
    MutexLock lock(&mu_);
    if (pending_.empty()) return;
    const MonotonicTime heard_from_all = membership.HeardFromAllSince();
    std::set<CoordinationState*> known;  // groups with a failure whose cause is known
    for (const UnattributedFailure& s : pending_) {
      if (s.group->HasFailed(s.incarnation) || heard_from_all > s.since ||
          now > s.since + kPatience) {
        known.insert(s.group);
      }
    }
    for (auto it = pending_.begin(); it != pending_.end();) {
      const auto current = it++;
      if (known.contains(current->group)) decided.splice(decided.end(), pending_, current);
    }
  }
  // A worker that times out closes its connections. Its report must therefore take precedence over
  // the reports of workers that only saw their connections end.
  decided.sort([](const UnattributedFailure& a, const UnattributedFailure& b) {
    return absl::IsDeadlineExceeded(a.report) && !absl::IsDeadlineExceeded(b.report);
  });
  // Usually all workers report the same failure, and all get the same answer.
  std::map<std::pair<CoordinationState*, uint64_t>, Answer> answers;
  for (const UnattributedFailure& s : decided) {
    const auto [answer, is_new] = answers.try_emplace({s.group, s.incarnation}, "");
    if (is_new) {
      // Returns an earlier failure if one was reported in the meantime.
      const absl::Status first = s.group->ReportFailure(
          s.incarnation,
          absl::IsDeadlineExceeded(s.report) ? membership.BlameSlowest(s.report) : s.report);
      answer->second = StatusToProto(first).SerializeAsString();
    }
    s.done(answer->second);
  }
}

}  // namespace mirrorflow
