// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/shard_pieces.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "framework/runtime/topology.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

TEST(ShardTest, ShardsAreDisjointWholeCacheLinesAndCoverRange) {
  for (const int64_t count : {0, 1, 15, 16, 17, 1000}) {
    for (const int size : {1, 2, 3, 7}) {
      int64_t next = 0;
      for (int i = 0; i < size; ++i) {
        const Shard shard = ShardOf(count, /*element_bytes=*/4, i, size);
        EXPECT_EQ(shard.first, next);
        EXPECT_TRUE(shard.first % 16 == 0 || shard.count == 0);
        next = shard.end();
      }
      EXPECT_EQ(next, count);
    }
  }
}

// Both ends of a message derive the same message, even if domains have different rank counts.
TEST(BroadcastPiecesTest, EachElementIsReceivedOnceFromRankThatSendsIt) {
  constexpr int kElementBytes = 4;
  Topology topology;
  for (const int domain : {0, 0, 1, 1, 1, 2, 3, 3}) topology.replicas.push_back({.domain = domain});
  for (const int64_t count : {0, 1, 40, 1000, 1'000'000}) {
    for (const int root : {0, 5}) {
      std::vector<std::vector<ShardPiece>> pieces;
      for (int rank = 0; rank < topology.world_size(); ++rank) {
        pieces.push_back(PiecesOfBroadcast(topology, rank, count, kElementBytes, root));
      }
      for (int rank = 0; rank < topology.world_size(); ++rank) {
        const int own = topology.replicas[rank].domain;
        int64_t elements = 0;
        for (const ShardPiece& piece : pieces[rank]) {
          elements += piece.count;
          ASSERT_EQ(piece.result_from < 0, own == topology.replicas[root].domain);
          if (piece.result_from < 0) continue;
          const auto& sender = pieces[piece.ranks[piece.result_from]];
          const auto sent = std::find_if(sender.begin(), sender.end(), [&](const ShardPiece& p) {
            return p.first == piece.first && p.count == piece.count;
          });
          ASSERT_NE(sent, sender.end());
          EXPECT_EQ(std::count(sent->result_to.begin(), sent->result_to.end(), own), 1);
          EXPECT_EQ(sent->parts[own], piece.parts[piece.result_from]);
        }
        const auto of_domain = topology.RanksOfDomain(own);
        const auto index = std::find(of_domain.begin(), of_domain.end(), rank) - of_domain.begin();
        EXPECT_EQ(elements, ShardOf(count, kElementBytes, static_cast<int>(index),
                                    static_cast<int>(of_domain.size()))
                                .count);
      }
    }
  }
}

// A rank waits longer for sums, because they are late if an earlier rank in the ring is late.
TEST(ShardPiecesTest, BothEndsOfMessageAgreeWhichValuesAreSums) {
  constexpr int64_t kCount = 100'000;
  constexpr int kElementBytes = 4;
  Topology topology;
  for (const int domain : {0, 0, 1, 1, 1, 2, 3, 3}) topology.replicas.push_back({.domain = domain});
  for (const ShardRoute route : {ShardRoute::kOneRound, ShardRoute::kDirect, ShardRoute::kRing}) {
    std::vector<std::vector<ShardPiece>> pieces;
    for (int rank = 0; rank < topology.world_size(); ++rank) {
      pieces.push_back(PiecesOfShard(topology, rank, kCount, kElementBytes, route));
    }
    for (const std::vector<ShardPiece>& received : pieces) {
      for (const ShardPiece& piece : received) {
        for (const int domain : piece.values_from) {
          const auto& sender = pieces[piece.ranks[domain]];
          const auto sent = std::find_if(sender.begin(), sender.end(), [&](const ShardPiece& p) {
            return p.first == piece.first && p.count == piece.count;
          });
          ASSERT_NE(sent, sender.end());
          EXPECT_EQ(piece.gets_sums, sent->passes_sums());
        }
      }
    }
  }
}

}  // namespace
}  // namespace mirrorflow
