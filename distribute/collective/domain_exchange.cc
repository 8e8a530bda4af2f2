// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/domain_exchange.h"

#include <algorithm>
#include <utility>

#include "distribute/collective/check_collective.h"
#include "framework/core/status.h"
#include "framework/runtime/reduce_in_rank_order.h"
#include "framework/runtime/share.h"

namespace mirrorflow {
namespace {

std::byte* At(void* memory, int64_t bytes) { return static_cast<std::byte*>(memory) + bytes; }

absl::Span<std::byte> Bytes(void* memory, int64_t first, int64_t count) {
  return {At(memory, first), static_cast<size_t>(count)};
}

// Reduces one part per domain to `out`. A mean is divided here, once.
void ReduceDomains(Reduction reduction, DataType dtype, absl::Span<const void* const> parts,
                   void* out, int64_t count, int64_t ranks) {
  ReduceInRankOrder(WithinDomain(reduction), dtype, parts, {&out, 1}, count);
  if (reduction == Reduction::kMean) DivideSums(dtype, out, count, ranks);
}

}  // namespace

// A range of elements that is in the share of one rank in each domain, and the part of it that each
// of these ranks reduces.
struct DomainExchange::Cell {
  std::vector<int> ranks;    // by domain
  std::vector<Share> parts;  // by domain
};

DomainExchange::DomainExchange(const Topology& topology, int rank,
                               std::unique_ptr<Transport> transport)
    : rank_(rank), domain_(topology.replicas[rank].domain), transport_(std::move(transport)) {
  for (const Topology::Place& replica : topology.replicas) domain_of_.push_back(replica.domain);
  for (int d = 0; d < topology.num_domains(); ++d) domains_.push_back(topology.RanksOfDomain(d));
  parts_.resize(domains_.size());
  const std::vector<int>& own = domains_[domain_];
  index_ = static_cast<int>(std::find(own.begin(), own.end(), rank) - own.begin());
}

DomainExchange::~DomainExchange() = default;

std::byte* DomainExchange::Scratch(int64_t bytes) {
  if (static_cast<int64_t>(scratch_.size()) < bytes) scratch_.resize(bytes);
  return scratch_.data();
}

MessageTag DomainExchange::NextTag(uint64_t fingerprint) {
  return {.step = step_.load(std::memory_order_relaxed),
          .sequence = ++sequence_,
          .fingerprint = fingerprint};
}

const std::vector<DomainExchange::Cell>& DomainExchange::CellsOf(int64_t count,
                                                                 int64_t element_bytes) {
  std::vector<Cell>& cells = cells_[{count, element_bytes}];
  if (cells.empty()) cells = MakeCells(count, element_bytes);
  return cells;
}

std::vector<DomainExchange::Cell> DomainExchange::MakeCells(int64_t count,
                                                            int64_t element_bytes) const {
  const auto share_of = [&](int d, size_t index) {
    return ShareOf(count, element_bytes, static_cast<int>(index),
                   static_cast<int>(domains_[d].size()));
  };
  const Share own = share_of(domain_, index_);
  std::vector<int64_t> cuts = {own.first, own.end()};
  for (int d = 0; d < num_domains(); ++d) {
    for (size_t i = 0; i < domains_[d].size(); ++i) {
      const int64_t cut = share_of(d, i).first;
      if (cut > own.first && cut < own.end()) cuts.push_back(cut);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Cell> cells;
  for (size_t c = 0; c + 1 < cuts.size(); ++c) {
    Cell& cell = cells.emplace_back();
    for (int d = 0; d < num_domains(); ++d) {
      size_t index = 0;
      while (share_of(d, index).end() <= cuts[c]) ++index;
      cell.ranks.push_back(domains_[d][index]);
      Share part = ShareOf(cuts[c + 1] - cuts[c], element_bytes, d, num_domains());
      part.first += cuts[c];
      cell.parts.push_back(part);
    }
  }
  return cells;
}

absl::Status DomainExchange::ReduceShare(const Communicator::DomainShare& share,
                                         uint64_t fingerprint) {
  const MessageTag tag = NextTag(fingerprint);
  const auto size = static_cast<int64_t>(DataTypeSize(share.dtype));
  const std::vector<Cell>& cells = CellsOf(share.count, size);
  // Holds the other domains' values of the elements that this rank reduces.
  int64_t scratch_bytes = 0;
  for (const Cell& cell : cells) scratch_bytes += cell.parts[domain_].count * size * num_domains();
  std::byte* const scratch = Scratch(scratch_bytes);
  const int64_t first =
      ShareOf(share.count, size, index_, static_cast<int>(domains_[domain_].size())).first;
  const auto values_of = [&](const Share& part) {
    return Bytes(share.memory, (part.first - first) * size, part.count * size);
  };

  std::byte* next = scratch;
  for (const Cell& cell : cells) {
    for (int d = 0; d < num_domains(); ++d) {
      const int64_t own_bytes = cell.parts[domain_].count * size;
      if (d != domain_ && cell.parts[d].count > 0) {
        MF_RETURN_IF_ERROR(transport_->StartSend(cell.ranks[d], tag, values_of(cell.parts[d])));
      }
      if (d != domain_ && own_bytes > 0) {
        MF_RETURN_IF_ERROR(transport_->StartReceive(cell.ranks[d], tag, Bytes(next, 0, own_bytes)));
      }
      next += own_bytes;
    }
  }
  MF_RETURN_IF_ERROR(transport_->Finish());

  next = scratch;
  for (const Cell& cell : cells) {
    const Share& own = cell.parts[domain_];
    std::byte* const values = values_of(own).data();
    for (int d = 0; d < num_domains(); ++d) {
      parts_[d] = d == domain_ ? values : next;
      next += own.count * size;
    }
    ReduceDomains(share.reduction, share.dtype, parts_, values, own.count,
                  static_cast<int64_t>(domain_of_.size()));
    for (int d = 0; d < num_domains(); ++d) {
      if (d == domain_) continue;
      if (own.count > 0) {
        MF_RETURN_IF_ERROR(transport_->StartSend(cell.ranks[d], tag, values_of(own)));
      }
      if (cell.parts[d].count > 0) {
        MF_RETURN_IF_ERROR(transport_->StartReceive(cell.ranks[d], tag, values_of(cell.parts[d])));
      }
    }
  }
  return transport_->Finish();
}

absl::Status DomainExchange::ReduceScatterParts(
    Reduction reduction, DataType dtype, absl::Span<const int64_t> counts, void* out,
    absl::FunctionRef<void(int rank, void* out)> reduce_in_domain, uint64_t fingerprint) {
  const MessageTag tag = NextTag(fingerprint);
  const auto size = static_cast<int64_t>(DataTypeSize(dtype));
  const auto works_for = [&](int rank) {
    return !IsNear(rank) && counts[rank] > 0 && Partner(domain_, rank) == rank_;
  };
  const int64_t own_bytes = counts[rank_] * size;
  int64_t scratch_bytes = own_bytes * num_domains();
  for (size_t r = 0; r < counts.size(); ++r) {
    if (works_for(static_cast<int>(r))) scratch_bytes += counts[r] * size;
  }
  std::byte* next = Scratch(scratch_bytes);
  for (int d = 0; d < num_domains() && own_bytes > 0; ++d) {
    parts_[d] = d == domain_ ? out : next;
    if (d == domain_) continue;
    MF_RETURN_IF_ERROR(transport_->StartReceive(Partner(d, rank_), tag, Bytes(next, 0, own_bytes)));
    next += own_bytes;
  }
  for (int r = 0; r < static_cast<int>(counts.size()); ++r) {
    if (!works_for(r)) continue;
    reduce_in_domain(r, next);
    MF_RETURN_IF_ERROR(transport_->StartSend(r, tag, Bytes(next, 0, counts[r] * size)));
    next += counts[r] * size;
  }
  if (own_bytes > 0) reduce_in_domain(rank_, out);
  MF_RETURN_IF_ERROR(transport_->Finish());
  if (own_bytes > 0) {
    ReduceDomains(reduction, dtype, parts_, out, counts[rank_],
                  static_cast<int64_t>(counts.size()));
  }
  return absl::OkStatus();
}

absl::Status DomainExchange::GatherParts(DataType dtype, absl::Span<const int64_t> counts,
                                         const void* own, void* all, uint64_t fingerprint) {
  const MessageTag tag = NextTag(fingerprint);
  const auto size = static_cast<int64_t>(DataTypeSize(dtype));
  for (int r = 0; r < static_cast<int>(counts.size()); ++r) {
    if (IsNear(r)) continue;
    if (counts[rank_] > 0) {
      MF_RETURN_IF_ERROR(
          transport_->StartSend(r, tag, Bytes(const_cast<void*>(own), 0, counts[rank_] * size)));
    }
    if (counts[r] > 0) {
      MF_RETURN_IF_ERROR(transport_->StartReceive(
          r, tag, Bytes(all, FirstOf(r, counts) * size, counts[r] * size)));
    }
  }
  return transport_->Finish();
}

absl::Status DomainExchange::Broadcast(int root, const void* in, void* out, int64_t bytes,
                                       uint64_t fingerprint) {
  const MessageTag tag = NextTag(fingerprint);
  if (bytes == 0) return absl::OkStatus();
  if (!IsNear(root)) {
    MF_RETURN_IF_ERROR(transport_->StartReceive(root, tag, Bytes(out, 0, bytes)));
  }
  for (int r = 0; r < static_cast<int>(domain_of_.size()) && root == rank_; ++r) {
    if (IsNear(r)) continue;
    MF_RETURN_IF_ERROR(transport_->StartSend(r, tag, Bytes(const_cast<void*>(in), 0, bytes)));
  }
  return transport_->Finish();
}

absl::Status DomainExchange::Barrier(uint64_t fingerprint) {
  const MessageTag tag = NextTag(fingerprint);
  if (index_ != 0) return absl::OkStatus();
  std::byte token{}, tokens[1];
  for (int d = 0; d < num_domains(); ++d) {
    if (d == domain_) continue;
    MF_RETURN_IF_ERROR(transport_->StartSend(domains_[d][0], tag, {&token, 1}));
    MF_RETURN_IF_ERROR(transport_->StartReceive(domains_[d][0], tag, tokens));
  }
  return transport_->Finish();
}

}  // namespace mirrorflow
