// SPDX-License-Identifier: Apache-2.0
//
// Shards and their pieces: how the ranks of different domains divide the all-reduce or the
// broadcast of a value.
//
// Each rank holds a shard of the value, reduced over its domain (ShardOf). The ranks with
// the same elements, one per domain, work together, in one of three ways:
//   - Each owns a part of these elements, which it reduces and sends to the others: two rounds of
//     messages, 2 (D - 1)/D of the shard's bytes sent and received.
//   - The same bytes go around a ring of the domains: 2 (D - 1) rounds, but each rank sends to one
//     other rank and receives from one.
//   - Each sends all to the others, and reduces all: one round, (D - 1) times the bytes. This is
//     better for two domains, and for small values.
// A broadcast sends each of the other domains a part of the shard, which that domain passes on to
// the rest: the root's domain sends each byte once, and no other domain sends more bytes than it.
//
// Where domains have different numbers of ranks, a shard is cut wherever a shard of any domain
// ends. The values travel in pieces that stay in a core's cache.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARD_PIECES_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARD_PIECES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "distribute/collective/exchange_options.h"
#include "framework/runtime/topology.h"

namespace mirrorflow {

// Elements [first, first + count).
struct Shard {
  int64_t first = 0;
  int64_t count = 0;

  int64_t end() const { return first + count; }
};

// Returns the part of `count` elements that member `index` of `size` works on. Shards are whole
// cache lines, so that no two members write to the same line, and as even as that allows.
inline Shard ShardOf(int64_t count, int64_t element_bytes, int index, int size) {
  constexpr int64_t kLineBytes = 64;
  const int64_t per_line = kLineBytes / element_bytes;
  const int64_t lines = (count + per_line - 1) / per_line;
  const int64_t first = std::min(count, lines * index / size * per_line);
  return {first, std::min(count, lines * (index + 1) / size * per_line) - first};
}

inline constexpr int64_t kPieceBytes = int64_t{256} << 10;
// The size of a value up to which more rounds cost more than the bytes that they save: with a
// latency of 50 µs and 0.2 ns a byte, for any number of domains.
inline constexpr int64_t kOneRoundBytes = int64_t{16} << 10;

enum class ShardRoute { kOneRound, kDirect, kRing };

// The best way for a value of `bytes`.
ShardRoute RouteOf(int num_domains, int64_t bytes, const ExchangeOptions& options);

// A rank gets the values of some domains and sends its own; the sum of all is the result. Values
// are reduced in the order of the domains, those that arrived and its own. In a broadcast, only
// results travel.
struct ShardPiece {
  int64_t first = 0, count = 0;  // elements of the whole value
  std::vector<int> ranks;        // by domain: the one that has these elements
  // By domain: the index of this piece among those that this rank has in common with that domain's
  // rank, in the order of elements. Both compute the same.
  std::vector<uint32_t> parts;

  // Domains, in their order.
  std::vector<int> values_from, values_to, result_to;
  int result_from = -1;    // -1: this rank reduces the last values, or has the value of a broadcast
  bool gets_sums = false;  // whether the values that arrive are sums that their sender passes on
  bool reduces() const { return !values_from.empty(); }
  // Whether the values that go on are those that arrived, reduced with this rank's own.
  bool passes_sums() const { return reduces() && result_from >= 0; }
};

// The pieces of the shard of `rank` of a value of `count` elements, in the order of elements.
std::vector<ShardPiece> PiecesOfShard(const Topology& topology, int rank, int64_t count,
                                      int64_t element_bytes, ShardRoute route);
// Those of a broadcast from the domain of rank `root`, all of whose ranks have the value.
std::vector<ShardPiece> PiecesOfBroadcast(const Topology& topology, int rank, int64_t count,
                                          int64_t element_bytes, int root);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARD_PIECES_H_
