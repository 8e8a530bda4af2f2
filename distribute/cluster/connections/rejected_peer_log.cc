// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/rejected_peer_log.h"

#include <arpa/inet.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/core/log.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/names.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kInterval = absl::Minutes(1);
constexpr size_t kMaxNetworks = 256;

}  // namespace

std::string NetworkOf(absl::string_view peer) {
  const absl::string_view host = peer.substr(0, peer.rfind(':'));
  absl::string_view text = host;
  in6_addr address;
  if (!absl::ConsumePrefix(&text, "ipv6:%5B")) return std::string(host);
  text = text.substr(0, text.find('%'));  // without the scope
  if (inet_pton(AF_INET6, std::string(text).c_str(), &address) != 1) return std::string(host);
  return std::string(reinterpret_cast<const char*>(&address), sizeof(address) / 2);
}

void RejectedPeerLog::Log(const std::string& peer, absl::string_view what) {
  const std::string network = NetworkOf(peer);
  const MonotonicTime now = MonotonicTime::Now();
  {
    MutexLock lock(&mu_);
    if (last_.size() >= kMaxNetworks && !last_.contains(network)) last_.clear();
    MonotonicTime& last = last_.try_emplace(network, MonotonicTime::InfinitePast()).first->second;
    if (now - last < kInterval) return;
    last = now;
  }
  LogWarning(absl::StrCat(service_, ": ", Printable(peer), ": ", what));
}

}  // namespace mirrorflow
