// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/stranger_log.h"

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/names.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kInterval = absl::Minutes(1);
constexpr size_t kMaxHosts = 256;

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

}  // namespace mirrorflow
