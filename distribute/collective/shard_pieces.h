// SPDX-License-Identifier: Apache-2.0
//
// Shards and their pieces: how the ranks of different domains divide the all-reduce or the
// broadcast of a value.
//
// Each rank holds a shard of the value, reduced over its domain (ShardOf). The ranks that hold the
// same elements, one per domain, work together in one of three ways (D is the number of domains):
//   - Direct: each rank owns a part of these elements, reduces it and sends the result to the
//     others. This takes two rounds of messages, and each rank sends and receives 2 (D - 1)/D of
//     the shard's bytes.
//   - Ring: the same bytes travel around a ring of the domains. This takes 2 (D - 1) rounds, but
//     each rank sends to only one rank and receives from only one.
//   - One round: each rank sends its whole shard to the others and reduces everything itself, which
//     takes (D - 1) times the shard's bytes. This is best for two domains and for small values.
// In a broadcast, the root's domain sends each other domain a part of the shard, which that domain
// forwards to the rest. So the root's domain sends each byte once, and no domain sends more.
//
// If domains have different numbers of ranks, a shard is cut wherever a shard of any domain ends.
// Values travel in pieces that fit in a core's cache.
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

// Returns the shard of `count` elements that member `index` of `size` works on. Shards consist of
// whole cache lines, so no two members write to the same line, and are as even as that allows.
inline Shard ShardOf(int64_t count, int64_t element_bytes, int index, int size) {
  constexpr int64_t kLineBytes = 64;
  const int64_t per_line = kLineBytes / element_bytes;
  const int64_t lines = (count + per_line - 1) / per_line;
  const int64_t first = std::min(count, lines * index / size * per_line);
  return {first, std::min(count, lines * (index + 1) / size * per_line) - first};
}

inline constexpr int64_t kPieceBytes = int64_t{256} << 10;
// Up to this size, extra rounds cost more than the bytes that they save, assuming a latency of
// 50 µs and 0.2 ns per byte, for any number of domains.
inline constexpr int64_t kOneRoundBytes = int64_t{16} << 10;

enum class ShardRoute { kOneRound, kDirect, kRing };

// Returns the best route for a value of `bytes`.
ShardRoute RouteOf(int num_domains, int64_t bytes, const ExchangeOptions& options);

// A piece of a shard, and the messages that this rank exchanges for it. The rank receives the
// values of some domains and sends its own; the reduction of all values is the result. A rank
// reduces the received values and its own in domain order. In a broadcast, only results travel.
struct ShardPiece {
  int64_t first = 0, count = 0;  // elements of the whole value
  std::vector<int> ranks;        // by domain: the rank that holds these elements
  // For each domain, the index of this piece, in element order, among the pieces that this rank has
  // in common with that domain's rank. Both ranks compute the same index.
  std::vector<uint32_t> parts;

  // Domains, in ascending order.
  std::vector<int> values_from, values_to, result_to;
  int result_from = -1;    // -1 if this rank computes the result or has the value to broadcast
  bool gets_sums = false;  // whether the received values are partial sums that the sender computed
  bool reduces() const { return !values_from.empty(); }
  // Returns whether this rank adds its own values to the received ones and forwards the sum.
  bool passes_sums() const { return reduces() && result_from >= 0; }
};

// Returns the pieces of `rank`'s shard of a value with `count` elements, in element order.
std::vector<ShardPiece> PiecesOfShard(const Topology& topology, int rank, int64_t count,
                                      int64_t element_bytes, ShardRoute route);
// Returns the pieces of a broadcast from the domain of rank `root`, whose ranks all have the value.
std::vector<ShardPiece> PiecesOfBroadcast(const Topology& topology, int rank, int64_t count,
                                          int64_t element_bytes, int root);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARD_PIECES_H_
