// SPDX-License-Identifier: Apache-2.0
//
// DomainPartners determines which ranks of different memory domains exchange data, and so need a
// connection.
//
// The ranks of a domain divide the unit interval evenly, in rank order. Two ranks of different
// domains are peers if their parts of the interval overlap. Therefore, two domains of equal size
// need one connection per rank; domains of m and n ranks need at most m + n - 1. Shards (ShardOf)
// that overlap belong to peers, whatever the size of the value.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_PARTNERS_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_PARTNERS_H_

#include <vector>

#include "absl/types/span.h"
#include "framework/runtime/topology.h"

namespace mirrorflow {

class DomainPartners {
 public:
  explicit DomainPartners(const Topology& topology);

  int world_size() const { return static_cast<int>(positions_.size()); }
  int num_domains() const { return static_cast<int>(domains_.size()); }
  absl::Span<const int> RanksOf(int domain) const { return domains_[domain]; }
  int DomainOf(int rank) const { return positions_[rank].domain; }
  int IndexOf(int rank) const { return positions_[rank].index; }  // among the ranks of its domain

  // Returns whether the two ranks are in different domains and exchange data.
  bool ArePeers(int a, int b) const;
  // Returns the peers of `rank` in ascending order.
  std::vector<int> PeersOf(int rank) const;

  // Returns the peer of `rank` in another domain that receives the data that `rank` sends to that
  // whole domain, and that sends `rank` the data that the domain as a whole has for it.
  int PartnerOf(int rank, int domain) const;
  // Returns the ranks of other domains whose partner is `rank`, in ascending order.
  std::vector<int> RanksWithPartner(int rank) const;

 private:
  struct Position {
    int domain = 0;
    int index = 0;
  };
  std::vector<std::vector<int>> domains_;  // the ranks of each domain
  std::vector<Position> positions_;        // by rank
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_PARTNERS_H_
