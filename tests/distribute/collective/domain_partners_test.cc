// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/domain_partners.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "distribute/collective/exchange_options.h"
#include "distribute/collective/shard_pieces.h"
#include "framework/runtime/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using testing::ElementsAre;

constexpr int kElementBytes = 4;

Topology DomainsOf(const std::vector<int>& domain_of_rank) {
  Topology topology;
  for (const int domain : domain_of_rank) {
    topology.replicas.push_back({.worker = topology.world_size(), .domain = domain});
  }
  return topology;
}

// Returns a domain of m ranks followed by one of n ranks.
Topology TwoDomains(int m, int n) {
  std::vector<int> domain_of_rank(m, 0);
  domain_of_rank.resize(m + n, 1);
  return DomainsOf(domain_of_rank);
}

int CountPairs(const DomainPartners& partners) {
  size_t ends = 0;
  for (int rank = 0; rank < partners.world_size(); ++rank) ends += partners.PeersOf(rank).size();
  return static_cast<int>(ends / 2);
}

TEST(DomainPartnersTest, RanksOfEqualDomainsHaveOnePeerEach) {
  const DomainPartners partners(TwoDomains(8, 8));
  EXPECT_EQ(CountPairs(partners), 8);
  for (int i = 0; i < 8; ++i) {
    EXPECT_THAT(partners.PeersOf(i), ElementsAre(8 + i));
    EXPECT_EQ(partners.PartnerOf(i, 1), 8 + i);
    EXPECT_THAT(partners.RanksWithPartner(i), ElementsAre(8 + i));
  }
}

TEST(DomainPartnersTest, RanksOfUnequalDomainsArePeersIfTheirPartsOverlap) {
  const DomainPartners partners(DomainsOf({0, 1, 0, 1, 1}));
  EXPECT_THAT(partners.PeersOf(0), ElementsAre(1, 3));
  EXPECT_THAT(partners.PeersOf(2), ElementsAre(3, 4));
  EXPECT_THAT(partners.PeersOf(3), ElementsAre(0, 2));
  EXPECT_FALSE(partners.ArePeers(0, 4));
  EXPECT_FALSE(partners.ArePeers(1, 3));  // both are in the same domain
  EXPECT_EQ(partners.PartnerOf(2, 1), 3);
  EXPECT_EQ(partners.PartnerOf(4, 0), 2);
  EXPECT_THAT(partners.RanksWithPartner(0), ElementsAre(1, 3));
  EXPECT_THAT(partners.RanksWithPartner(4), ElementsAre());
}

TEST(DomainPartnersTest, DomainsOfAnySizesNeedFewPairs) {
  for (int m = 1; m <= 17; ++m) {
    for (int n = 1; n <= 17; ++n) {
      SCOPED_TRACE(testing::Message() << m << " and " << n << " ranks");
      const DomainPartners partners(TwoDomains(m, n));
      EXPECT_EQ(CountPairs(partners), m + n - std::gcd(m, n));
      for (int a = 0; a < m + n; ++a) {
        std::vector<int> peers;
        for (int b = 0; b < m + n; ++b) {
          EXPECT_EQ(partners.ArePeers(a, b), partners.ArePeers(b, a));
          if (partners.ArePeers(a, b)) peers.push_back(b);
        }
        EXPECT_EQ(partners.PeersOf(a), peers);
        EXPECT_TRUE(partners.ArePeers(a, partners.PartnerOf(a, a < m ? 1 : 0)));
      }
    }
  }
}

TEST(DomainPartnersTest, OverlappingShardsBelongToPeers) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const int m = 1 + static_cast<int>(random() % 20), n = 1 + static_cast<int>(random() % 20);
    const int64_t count = random() % 2 == 0 ? random() % 1000 : random() % 100'000'000;
    const DomainPartners partners(TwoDomains(m, n));
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        const Shard a = ShardOf(count, kElementBytes, i, m);
        const Shard b = ShardOf(count, kElementBytes, j, n);
        if (std::max(a.first, b.first) >= std::min(a.end(), b.end())) continue;
        ASSERT_TRUE(partners.ArePeers(i, m + j))
            << i << " of " << m << ", " << j << " of " << n << ", " << count << " elements";
      }
    }
  }
}

// Returns the ranks that a rank exchanges messages with for these pieces.
std::set<int> RanksIn(const std::vector<ShardPiece>& pieces) {
  std::set<int> ranks;
  for (const ShardPiece& piece : pieces) {
    for (const auto& domains : {piece.values_from, piece.values_to, piece.result_to}) {
      for (const int d : domains) ranks.insert(piece.ranks[d]);
    }
    if (piece.result_from >= 0) ranks.insert(piece.ranks[piece.result_from]);
  }
  return ranks;
}

TEST(DomainPartnersTest, PiecesAreExchangedOnlyBetweenPeers) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const int num_domains = 2 + static_cast<int>(random() % 3);
    std::vector<int> domain_of_rank(num_domains);
    std::iota(domain_of_rank.begin(), domain_of_rank.end(), 0);
    for (int more = static_cast<int>(random() % 12); more > 0; --more) {
      domain_of_rank.push_back(static_cast<int>(random() % num_domains));
    }
    const Topology topology = DomainsOf(domain_of_rank);
    const DomainPartners partners(topology);
    const int64_t count = random() % 2 == 0 ? random() % 1000 : random() % 1'000'000;
    for (int rank = 0; rank < topology.world_size(); ++rank) {
      const auto check = [&](const std::vector<ShardPiece>& pieces) {
        for (const int other : RanksIn(pieces)) {
          EXPECT_TRUE(partners.ArePeers(rank, other))
              << rank << " and " << other << " of " << topology.ToString();
        }
      };
      for (const ShardRoute route :
           {ShardRoute::kOneRound, ShardRoute::kDirect, ShardRoute::kRing}) {
        check(PiecesOfShard(topology, rank, count, kElementBytes, route));
      }
      check(PiecesOfBroadcast(topology, rank, count, kElementBytes, /*root=*/0));
    }
  }
}

TEST(DomainPartnersTest, EachRankHasOnePartnerInEachOtherDomain) {
  const DomainPartners partners(DomainsOf({0, 1, 1, 2, 0, 1, 2, 2, 2}));
  for (int rank = 0; rank < partners.world_size(); ++rank) {
    for (int d = 0; d < partners.num_domains(); ++d) {
      if (d == partners.DomainOf(rank)) continue;
      std::vector<int> serving;
      for (const int other : partners.RanksOf(d)) {
        const std::vector<int> served = partners.RanksWithPartner(other);
        if (std::find(served.begin(), served.end(), rank) != served.end()) {
          serving.push_back(other);
        }
      }
      EXPECT_THAT(serving, ElementsAre(partners.PartnerOf(rank, d)));
    }
  }
}

}  // namespace
}  // namespace mirrorflow
