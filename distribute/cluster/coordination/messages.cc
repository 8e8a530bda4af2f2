// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/messages.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/authentication.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {
namespace {

std::string Mac(absl::string_view key, Role role, const coordination::Signed& message) {
  return Hmac(key, {role == Role::kWorker ? "worker" : "server", absl::StrCat(message.sequence()),
                    message.body()});
}

}  // namespace

std::string NameOf(const coordination::Member& member) {
  return absl::StrCat("worker ", member.worker(), " (process ", member.pid(), " on ", member.host(),
                      ")");
}

void Sign(absl::string_view key, Role role, coordination::Signed* message) {
  message->set_mac(Mac(key, role, *message));
}

bool HasValidMac(absl::string_view key, Role role, const coordination::Signed& message) {
  return EqualSecrets(message.mac(), Mac(key, role, message));
}

int64_t MillisecondsUntil(MonotonicTime deadline) {
  if (deadline == MonotonicTime::InfiniteFuture()) return std::numeric_limits<int64_t>::max();
  return std::max<int64_t>(absl::ToInt64Milliseconds(deadline - MonotonicTime::Now()), 0);
}

MonotonicTime DeadlineIn(int64_t milliseconds) {
  // A wait of a year has no end.
  const absl::Duration wait = absl::Milliseconds(std::max<int64_t>(milliseconds, 0));
  return wait > absl::Hours(24 * 365) ? MonotonicTime::InfiniteFuture()
                                      : MonotonicTime::Now() + wait;
}

}  // namespace mirrorflow
