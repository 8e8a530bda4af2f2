// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/messages.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distribute/cluster/connections/authentication.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {
namespace {

std::string Mac(absl::string_view key, Role role, uint64_t sequence, absl::string_view digest) {
  return Hmac(key, {role == Role::kWorker ? "worker" : "server", absl::StrCat(sequence), digest});
}

}  // namespace

std::string NameOf(const coordination::Member& member) {
  return absl::StrCat("worker ", member.worker(), " (process ", member.pid(), " on ", member.host(),
                      ")");
}

std::string FirstOf(absl::Span<const int> workers, absl::Span<const std::string> addresses) {
  constexpr size_t kShown = 10;
  std::vector<std::string> shown;
  for (const int worker : workers.subspan(0, kShown)) {
    const bool is_known = static_cast<size_t>(worker) < addresses.size();
    shown.push_back(absl::StrCat(worker, is_known ? " (" : "", is_known ? addresses[worker] : "",
                                 is_known ? ")" : ""));
  }
  const size_t more = workers.size() - shown.size();
  return absl::StrCat(absl::StrJoin(shown, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

Body::Body(std::string bytes) : bytes(std::move(bytes)), digest(Sha256(this->bytes)) {}

std::string MacOf(absl::string_view key, Role role, uint64_t sequence, const Body& body) {
  return Mac(key, role, sequence, body.digest);
}

bool HasValidMac(absl::string_view key, Role role, const coordination::Signed& message) {
  return EqualSecrets(message.mac(), Mac(key, role, message.sequence(), Sha256(message.body())));
}

int64_t MillisecondsUntil(MonotonicTime deadline) {
  if (deadline == MonotonicTime::InfiniteFuture()) return std::numeric_limits<int64_t>::max();
  return std::max<int64_t>(absl::ToInt64Milliseconds(deadline - MonotonicTime::Now()), 0);
}

MonotonicTime DeadlineIn(int64_t milliseconds) {
  // Treat a wait of a year as infinite.
  const absl::Duration wait = absl::Milliseconds(std::max<int64_t>(milliseconds, 0));
  return wait > absl::Hours(24 * 365) ? MonotonicTime::InfiniteFuture()
                                      : MonotonicTime::Now() + wait;
}

}  // namespace mirrorflow
