// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/suspicions.h"

#include <utility>

#include "absl/time/clock.h"
#include "framework/runtime/status_proto.h"

namespace mirrorflow {
namespace {

// How long another cause than the timeout itself may take to appear.
constexpr absl::Duration kPatience = absl::Seconds(5);

}  // namespace

void Suspicions::Add(CoordinationState* group, uint64_t incarnation, const absl::Status& timeout,
                     CoordinationState::Done done) {
  std::lock_guard<std::mutex> lock(mu_);
  suspicions_.push_back({group, incarnation, timeout, std::move(done), absl::Now()});
}

void Suspicions::Decide(const Membership& membership, absl::Time now) {
  std::list<Suspicion> decided;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (auto it = suspicions_.begin(); it != suspicions_.end();) {
      const auto next = std::next(it);
      if (it->group->HasFailed(it->incarnation) || membership.HasHeardFromAllSince(it->since) ||
          now > it->since + kPatience) {
        decided.splice(decided.end(), suspicions_, it);
      }
      it = next;
    }
  }
  for (const Suspicion& s : decided) {
    // A failure that has come in the meantime is the first one.
    const absl::Status first =
        s.group->ReportFailure(s.incarnation, membership.BlameSlowest(s.timeout));
    s.done(StatusToProto(first).SerializeAsString());
  }
}

}  // namespace mirrorflow
