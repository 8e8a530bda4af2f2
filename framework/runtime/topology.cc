// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/topology.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mirrorflow {
namespace {

template <typename Wanted>
std::vector<int> RanksWhere(const Topology& topology, const Wanted& wanted) {
  std::vector<int> ranks;
  for (int rank = 0; rank < topology.world_size(); ++rank) {
    if (wanted(topology.replicas[rank])) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

int Topology::num_domains() const {
  int count = 0;
  for (const ReplicaLocation& replica : replicas) count = std::max(count, replica.domain + 1);
  return count;
}

std::vector<std::string> Topology::devices() const {
  std::vector<std::string> devices;
  for (const ReplicaLocation& replica : replicas) devices.push_back(replica.device);
  return devices;
}

std::vector<int> Topology::RanksOfWorker(int worker) const {
  return RanksWhere(*this,
                    [&](const ReplicaLocation& replica) { return replica.worker == worker; });
}

std::vector<int> Topology::RanksOfDomain(int domain) const {
  return RanksWhere(*this,
                    [&](const ReplicaLocation& replica) { return replica.domain == domain; });
}

bool Topology::DomainSpansWorkers(int rank) const {
  const ReplicaLocation& own = replicas[rank];
  return std::any_of(replicas.begin(), replicas.end(), [&own](const ReplicaLocation& other) {
    return other.domain == own.domain && other.worker != own.worker;
  });
}

absl::Status Topology::Check() const {
  if (replicas.empty())
    return absl::InvalidArgumentError("topology: expected at least one replica, got none");
  int last_worker = -1;
  std::set<int> domains;
  for (int rank = 0; rank < world_size(); ++rank) {
    const ReplicaLocation& replica = replicas[rank];
    const bool follows = replica.worker == last_worker + 1;
    if (!follows && (rank == 0 || replica.worker != last_worker)) {
      return absl::InvalidArgumentError(
          absl::StrCat("topology: rank ", rank, ": expected worker ",
                       rank == 0 ? "" : absl::StrCat(last_worker, " or "), last_worker + 1,
                       ", got ", replica.worker));
    }
    last_worker = replica.worker;
    domains.insert(replica.domain);
  }
  if (*domains.begin() != 0 || *domains.rbegin() != static_cast<int>(domains.size()) - 1) {
    return absl::InvalidArgumentError(absl::StrCat("topology: expected domains 0 to ",
                                                   domains.size() - 1, ", got ", *domains.begin(),
                                                   " to ", *domains.rbegin()));
  }
  return absl::OkStatus();
}

std::string Topology::ToString() const {
  std::string text;
  int worker = -1;
  for (int rank = 0; rank < world_size(); ++rank) {
    const ReplicaLocation& replica = replicas[rank];
    if (replica.worker != worker) {
      worker = replica.worker;
      absl::StrAppend(&text, text.empty() ? "" : "; ", "worker ", worker, ": ");
    } else {
      text += ", ";
    }
    absl::StrAppend(&text, "rank ", rank, " on ", replica.device, " in domain ", replica.domain);
  }
  return text;
}

Topology Topology::OneWorker(absl::Span<const std::string> devices, bool one_domain) {
  Topology topology;
  for (size_t i = 0; i < devices.size(); ++i) {
    topology.replicas.push_back(
        {.domain = one_domain ? 0 : static_cast<int>(i), .device = devices[i]});
  }
  return topology;
}

int64_t LinkCosts::BucketBytes(int64_t bytes_of_gradients) const {
  constexpr double kMin = 64 << 10, kMax = 16 << 20;
  const double best = std::sqrt(message_ns * static_cast<double>(bytes_of_gradients) / byte_ns);
  return static_cast<int64_t>(std::clamp(best, kMin, kMax));
}

std::string LinkCosts::ToString() const {
  return absl::StrFormat("%.17g ns per message, %.17g ns per byte", message_ns, byte_ns);
}

}  // namespace mirrorflow
