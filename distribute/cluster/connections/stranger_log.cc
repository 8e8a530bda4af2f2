// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/stranger_log.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/names.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kInterval = absl::Minutes(1);
constexpr absl::Duration kPatience = absl::Seconds(5);
constexpr size_t kMaxHosts = 256;
constexpr size_t kMaxSilent = 4096;

}  // namespace

void StrangerLog::Log(const std::string& peer, absl::string_view what) {
  const std::string host = peer.substr(0, peer.rfind(':'));
  const MonotonicTime now = MonotonicTime::Now();
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (last_.size() >= kMaxHosts && !last_.contains(host)) last_.clear();
    MonotonicTime& last = last_.try_emplace(host, MonotonicTime::InfinitePast()).first->second;
    if (now - last < kInterval || log_ == nullptr) return;
    last = now;
  }
  log_(absl::StrCat(service_, ": ", Printable(peer), ": ", what));
}

void StrangerLog::Connected(const std::string& peer) {
  std::lock_guard<std::mutex> lock(mu_);
  if (silent_.size() < kMaxSilent) silent_[peer] = MonotonicTime::Now();
}

void StrangerLog::Called(const std::string& peer) {
  std::lock_guard<std::mutex> lock(mu_);
  silent_.erase(peer);
}

void StrangerLog::LogSilent(MonotonicTime now) {
  std::vector<std::string> peers;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (auto it = silent_.begin(); it != silent_.end();) {
      if (now - it->second < kPatience) {
        ++it;
      } else {
        peers.push_back(it->first);
        it = silent_.erase(it);
      }
    }
  }
  for (const std::string& peer : peers) Log(peer, "connected, but made no call within 5 s");
}

}  // namespace mirrorflow
