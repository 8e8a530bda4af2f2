// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/messages.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/authentication.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/names.h"

namespace mirrorflow {
namespace {

std::string Mac(absl::string_view key, Role role, absl::string_view method,
                const coordination::Signed& message) {
  return Hmac(key,
              {role == Role::kWorker ? "worker" : "server", method, absl::StrCat(message.worker()),
               absl::StrCat(message.sequence()), message.body()});
}

}  // namespace

std::string NameOf(const coordination::Member& member) {
  return absl::StrCat("worker ", member.worker(), " (process ", member.pid(), " on ", member.host(),
                      ")");
}

std::string DifferenceOf(const coordination::Identity& server,
                         const coordination::Identity& worker) {
  if (server.protocol() != worker.protocol()) {
    return absl::StrCat("another protocol, that of another version; expected ", server.protocol(),
                        ", got ", worker.protocol());
  }
  if (server.job() == worker.job()) return "";
  return absl::StrCat("another job; expected '", Printable(server.job()), "', got '",
                      Printable(worker.job()), "'");
}

std::string ServerProof(absl::string_view secret, const coordination::HelloRequest& request,
                        absl::string_view server_nonce) {
  return Hmac(secret, {"server", request.job(), absl::StrCat(request.worker()),
                       request.client_nonce(), server_nonce});
}

std::string SessionKey(absl::string_view secret, absl::string_view job, int worker,
                       absl::string_view client_nonce, absl::string_view server_nonce) {
  return Hmac(secret, {"session", job, absl::StrCat(worker), client_nonce, server_nonce});
}

void Sign(absl::string_view key, Role role, absl::string_view method,
          coordination::Signed* message) {
  message->set_mac(Mac(key, role, method, *message));
}

bool HasValidMac(absl::string_view key, Role role, absl::string_view method,
                 const coordination::Signed& message) {
  return EqualSecrets(message.mac(), Mac(key, role, method, message));
}

gpr_timespec GrpcDeadline(MonotonicTime deadline) {
  if (deadline == MonotonicTime::InfiniteFuture()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const absl::Duration left = deadline - MonotonicTime::Now();
  return gpr_time_from_nanos(absl::ToInt64Nanoseconds(left), GPR_TIMESPAN);
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
