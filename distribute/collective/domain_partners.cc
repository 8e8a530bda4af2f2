// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/domain_partners.h"

#include <algorithm>
#include <cstdint>

namespace mirrorflow {

DomainPartners::DomainPartners(const Topology& topology) : domains_(topology.num_domains()) {
  for (int rank = 0; rank < topology.world_size(); ++rank) {
    const int domain = topology.replicas[rank].domain;
    positions_.push_back({.domain = domain, .index = static_cast<int>(domains_[domain].size())});
    domains_[domain].push_back(rank);
  }
}

bool DomainPartners::ArePeers(int a, int b) const {
  const Position &first = positions_[a], &second = positions_[b];
  if (first.domain == second.domain) return false;
  // Whether [i/m, (i + 1)/m) and [j/n, (j + 1)/n) overlap.
  const int64_t m = static_cast<int64_t>(domains_[first.domain].size());
  const int64_t n = static_cast<int64_t>(domains_[second.domain].size());
  const int64_t i = first.index, j = second.index;
  return i * n < (j + 1) * m && j * m < (i + 1) * n;
}

std::vector<int> DomainPartners::PeersOf(int rank) const {
  std::vector<int> peers;
  for (int d = 0; d < num_domains(); ++d) {
    if (d == DomainOf(rank)) continue;
    // The partner is the first peer in the domain, and the peers are adjacent.
    const int size = static_cast<int>(domains_[d].size());
    for (int j = IndexOf(PartnerOf(rank, d)); j < size && ArePeers(rank, domains_[d][j]); ++j) {
      peers.push_back(domains_[d][j]);
    }
  }
  std::sort(peers.begin(), peers.end());
  return peers;
}

int DomainPartners::PartnerOf(int rank, int domain) const {
  const std::vector<int>& ranks = domains_[domain];
  const auto own_size = static_cast<int64_t>(domains_[DomainOf(rank)].size());
  return ranks[int64_t{IndexOf(rank)} * static_cast<int64_t>(ranks.size()) / own_size];
}

std::vector<int> DomainPartners::RanksWithPartner(int rank) const {
  std::vector<int> ranks;
  for (const int peer : PeersOf(rank)) {
    if (PartnerOf(peer, DomainOf(rank)) == rank) ranks.push_back(peer);
  }
  return ranks;
}

}  // namespace mirrorflow
