// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/shard_pieces.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "distribute/collective/domain_partners.h"

namespace mirrorflow {
namespace {

constexpr int kNoOwner = -1;

// Fills in the messages that the rank in domain `own` exchanges for a piece that `owner` reduces.
void SetRoute(ShardRoute route, int own, int owner, int num_domains, ShardPiece* piece) {
  std::vector<int> others;
  for (int d = 0; d < num_domains; ++d) {
    if (d != own) others.push_back(d);
  }
  if (route == ShardRoute::kOneRound) {
    piece->values_from = piece->values_to = others;
  } else if (route == ShardRoute::kDirect && own == owner) {
    piece->values_from = piece->result_to = others;
  } else if (route == ShardRoute::kDirect) {
    piece->values_to = {owner};
    piece->result_from = owner;
  } else {
    // Values travel the ring from the domain after the owner to the owner; the result then travels
    // from the owner around the ring.
    const int next = (own + 1) % num_domains, last = (own + num_domains - 1) % num_domains;
    if (last != owner) piece->values_from = {last};
    if (own != owner) piece->values_to = {next};
    if (own != owner) piece->result_from = last;
    piece->gets_sums = piece->reduces() && last != (owner + 1) % num_domains;
    if (next != owner) piece->result_to = {next};
  }
}

// Cuts the shard of `rank` into pieces. The owners are domains that divide all elements among
// themselves. set_route(owner, piece) fills in the messages that the rank exchanges for a piece.
std::vector<ShardPiece> Cut(const Topology& topology, int rank, int64_t count,
                            int64_t element_bytes, absl::Span<const int> owners,
                            absl::FunctionRef<void(int owner, ShardPiece* piece)> set_route) {
  const DomainPartners domains(topology);
  const auto shard_of = [&](int index, int d) {
    return ShardOf(count, element_bytes, index, static_cast<int>(domains.RanksOf(d).size()));
  };
  const Shard own = shard_of(domains.IndexOf(rank), domains.DomainOf(rank));
  std::vector<int64_t> cuts = {own.first, own.end()};
  for (int other = 0; other < topology.world_size(); ++other) {
    const int64_t cut = shard_of(domains.IndexOf(other), domains.DomainOf(other)).first;
    if (cut > own.first && cut < own.end()) cuts.push_back(cut);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());

  std::map<int, uint32_t> next_part;  // by rank
  std::vector<ShardPiece> pieces;
  const auto add_pieces = [&](const Shard& part, int owner, const std::vector<int>& ranks) {
    const int64_t per_piece = kPieceBytes / element_bytes;
    for (int64_t first = part.first; first < part.end(); first += per_piece) {
      ShardPiece& piece = pieces.emplace_back();
      piece = {.first = first, .count = std::min(per_piece, part.end() - first), .ranks = ranks};
      set_route(owner, &piece);
      for (const int other : ranks) piece.parts.push_back(next_part[other]++);
    }
  };
  for (size_t c = 0; c + 1 < cuts.size(); ++c) {
    std::vector<int> ranks;
    for (int d = 0; d < domains.num_domains(); ++d) {
      int index = 0;
      while (shard_of(index, d).end() <= cuts[c]) ++index;
      ranks.push_back(domains.RanksOf(d)[index]);
    }
    const Shard cell = {.first = cuts[c], .count = cuts[c + 1] - cuts[c]};
    for (size_t i = 0; i < owners.size(); ++i) {
      Shard part =
          ShardOf(cell.count, element_bytes, static_cast<int>(i), static_cast<int>(owners.size()));
      part.first += cell.first;
      add_pieces(part, owners[i], ranks);
    }
  }
  return pieces;
}

}  // namespace

ShardRoute RouteOf(int num_domains, int64_t bytes, const ExchangeOptions& options) {
  if (bytes <= kOneRoundBytes) return ShardRoute::kOneRound;
  if (options.ring_from > 0 && num_domains >= options.ring_from) return ShardRoute::kRing;
  return num_domains == 2 ? ShardRoute::kOneRound : ShardRoute::kDirect;
}

std::vector<ShardPiece> PiecesOfShard(const Topology& topology, int rank, int64_t count,
                                      int64_t element_bytes, ShardRoute route) {
  const int num_domains = topology.num_domains();
  std::vector<int> owners = {kNoOwner};
  if (route != ShardRoute::kOneRound) {
    owners.resize(num_domains);
    std::iota(owners.begin(), owners.end(), 0);
  }
  const int own = topology.replicas[rank].domain;
  return Cut(topology, rank, count, element_bytes, owners, [&](int owner, ShardPiece* piece) {
    SetRoute(route, own, owner, num_domains, piece);
  });
}

std::vector<ShardPiece> PiecesOfBroadcast(const Topology& topology, int rank, int64_t count,
                                          int64_t element_bytes, int root) {
  const int own = topology.replicas[rank].domain, source = topology.replicas[root].domain;
  std::vector<int> others;
  for (int d = 0; d < topology.num_domains(); ++d) {
    if (d != source) others.push_back(d);
  }
  return Cut(topology, rank, count, element_bytes, others, [&](int owner, ShardPiece* piece) {
    if (own == source) {
      piece->result_to = {owner};
    } else if (own == owner) {
      piece->result_from = source;
      piece->result_to = others;
      std::erase(piece->result_to, own);
    } else {
      piece->result_from = owner;
    }
  });
}

}  // namespace mirrorflow
