// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/team_update.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "distribute/collective/check_collective.h"
#include "distribute/collective/shard_pieces.h"
#include "framework/core/buffer.h"
#include "framework/core/status.h"
#include "framework/runtime/reduce_in_rank_order.h"

namespace mirrorflow {
namespace {

constexpr int64_t kPieceOfL1 = 16 << 10;  // bytes of gradient; fits in part of a small L1 cache

// Returns the rule, which identifies an update from Start to Finish; null if the collective is not
// an update.
const void* RuleOf(const Collective& collective) {
  if (const auto* update = std::get_if<Update>(&collective.operation)) return update->rule;
  if (const auto* update = std::get_if<ProductUpdate>(&collective.operation)) return update->rule;
  return nullptr;
}

}  // namespace

void CollectiveInFlight::Offer(const Collective& collective, absl::Span<std::byte* const> out) {
  collective_ = collective;
  offer_ = {.fingerprint = Fingerprint(collective),
            .work = this,
            .name = collective.name,
            .sequence = collective.sequence,
            .in = collective.in,
            .out = out};
}

std::string CollectiveInFlight::ToString() const { return CollectiveToString(collective_); }

namespace {

class GradientUpdate final : public TeamUpdate {
 public:
  explicit GradientUpdate(const TeamPosition& position)
      : position_(position), ins_(position.members.size()) {}

  absl::Status Hold(const Collective& collective) override {
    update_ = std::get<Update>(collective.operation);
    Offer(collective, update_.variables);
    element_bytes_ = static_cast<int64_t>(DataTypeSize(collective.dtype));
    offer_.in_bytes = update_.count * element_bytes_;
    own_ = ShardOf(update_.count, element_bytes_, position_.index,
                   static_cast<int>(position_.members.size()));
    return absl::OkStatus();
  }
  bool needs_domains() const override {
    return update_.reduction.has_value() && !position_.team_is_world();
  }
  bool updates_arrivals() const override { return true; }

  void RunShard(absl::Span<const TeamMemory> ranks) override {
    FindOthers(ranks);
    alignas(64) std::byte piece[kPieceOfL1];
    void* const out = piece;
    const int64_t per_piece = kPieceOfL1 / element_bytes_;
    for (int64_t first = own_.first; first < own_.end(); first += per_piece) {
      const int64_t n = std::min(per_piece, own_.end() - first);
      if (!update_.reduction.has_value()) {
        Apply(first, ByteOffset(offer_.in, first * element_bytes_), n);
        continue;
      }
      for (size_t r = 0; r < ranks.size(); ++r) {
        ins_[r] = ByteOffset(ranks[r].in, first * element_bytes_);
      }
      ReduceInRankOrder(*update_.reduction, collective_.dtype, ins_, {&out, 1}, n);
      Apply(first, piece, n);
    }
  }

  std::variant<DomainShard, DomainPart> Prepare(absl::Span<const TeamMemory> ranks) override {
    FindOthers(ranks);
    const void* in = offer_.in;
    if (ranks.size() > 1) {
      shard_.resize(own_.count * element_bytes_);
      void* const sum = shard_.data();
      for (size_t r = 0; r < ranks.size(); ++r) {
        ins_[r] = ByteOffset(ranks[r].in, own_.first * element_bytes_);
      }
      ReduceInRankOrder(WithinDomain(*update_.reduction), collective_.dtype, ins_, {&sum, 1},
                        own_.count);
      in = sum;
    }
    return DomainShard{.reduction = *update_.reduction,
                       .dtype = collective_.dtype,
                       .count = update_.count,
                       .in = in,
                       .urgency = collective_.urgency};
  }
  void Take(int64_t first, const void* values, int64_t count) override {
    const int64_t per_piece = kPieceOfL1 / element_bytes_;
    for (int64_t at = 0; at < count; at += per_piece) {
      Apply(first + at, ByteOffset(values, at * element_bytes_), std::min(per_piece, count - at));
    }
  }

 private:
  void FindOthers(absl::Span<const TeamMemory> ranks) {
    others_.clear();
    for (const TeamMemory& rank : ranks) {
      others_.insert(others_.end(), rank.out.begin(), rank.out.end());
    }
  }
  // Updates a part of the shard and copies it to the other ranks' variables.
  void Apply(int64_t first, const void* gradient, int64_t count) {
    update_.rule->Apply(first, gradient, count);
    const int64_t at = first * element_bytes_, bytes = count * element_bytes_;
    for (size_t i = 0; i < others_.size(); ++i) {
      const std::byte* const own = offer_.out[i % offer_.out.size()];
      if (others_[i] != own) std::memcpy(others_[i] + at, own + at, bytes);
    }
  }

  const TeamPosition position_;
  Update update_;
  int64_t element_bytes_ = 0;
  Shard own_;
  std::vector<const void*> ins_;    // the gradient of each rank
  std::vector<std::byte*> others_;  // every rank's copy of each variable, by rank and variable
  std::vector<std::byte> shard_;    // the gradient's shard, while it is reduced over the domains
};

class RowsUpdate final : public TeamUpdate {
 public:
  RowsUpdate(const TeamPosition& position, LocalTeam* team) : position_(position), team_(*team) {}

  absl::Status Hold(const Collective& collective) override {
    update_ = std::get<ProductUpdate>(collective.operation);
    Offer(collective, update_.variables);
    a_row_bytes_ = update_.rows * static_cast<int64_t>(DataTypeSize(collective.dtype));
    const int64_t own_rows = update_.counts[position_.rank];
    offer_.in_bytes = own_rows * a_row_bytes_;
    offer_.right = update_.right;
    offer_.right_bytes = own_rows * update_.row_bytes;
    return needs_domains() ? OfferRows() : absl::OkStatus();
  }
  bool needs_domains() const override { return !position_.team_is_world(); }
  bool updates_arrivals() const override { return false; }

  void RunShard(absl::Span<const TeamMemory> ranks) override {
    parts_.assign(position_.world_size, {});
    for (size_t i = 0; i < ranks.size(); ++i) {
      const int rank = position_.members[i];
      parts_[rank] = {ranks[i].in, ranks[i].right, update_.counts[rank]};
    }
    for (const FarRows& far : far_) {
      const void* const rows = ByteOffset(ranks[far.holder].in, far.offset);
      const int64_t count = update_.counts[far.rank];
      parts_[far.rank] = {rows, ByteOffset(rows, count * a_row_bytes_), count};
    }
    const int64_t first = FirstRowOf(position_.index), last = FirstRowOf(position_.index + 1);
    update_.rule->Apply(parts_, first, last);
    CopyRows(ranks, first * update_.row_bytes, (last - first) * update_.row_bytes);
  }

  std::variant<DomainShard, DomainPart> Prepare(absl::Span<const TeamMemory>) override {
    return DomainPart{
        .own = {shared_.get(), static_cast<size_t>(offer_.in_bytes + offer_.right_bytes)},
        .others = others_,
        .urgency = collective_.urgency};
  }

 private:
  // The rows of one rank in another domain.
  struct FarRows {
    int rank = 0;
    int holder = 0;      // the member of this team that receives them
    int64_t offset = 0;  // in the holder's memory: the rows of a, then those of b
  };

  // Returns the size in bytes of a rank's rows of a and b.
  int64_t RowsBytes(int rank) const {
    return update_.counts[rank] * (a_row_bytes_ + update_.row_bytes);
  }

  // Offers memory that holds this rank's rows, followed by space for the rows that it receives. Its
  // own rows are copied, so the plan need not keep them while they are in flight.
  absl::Status OfferRows() {
    far_.clear();
    ends_.clear();
    for (const int member : position_.members) ends_.push_back(RowsBytes(member));
    const DomainPartners& partners = *position_.partners;
    const int domain = partners.DomainOf(position_.rank);
    for (int rank = 0; rank < position_.world_size; ++rank) {
      if (partners.DomainOf(rank) == domain || update_.counts[rank] == 0) continue;
      const int holder = partners.IndexOf(partners.PartnerOf(rank, domain));
      far_.push_back({.rank = rank, .holder = holder, .offset = ends_[holder]});
      ends_[holder] += RowsBytes(rank);
    }
    if (ends_[position_.index] > shared_bytes_) {
      shared_.reset();  // free the old memory first, so both need not fit at once
      shared_bytes_ = 0;
      MF_ASSIGN_OR_RETURN(shared_, team_.Allocate(ends_[position_.index]));
      shared_bytes_ = ends_[position_.index];
    }
    others_.assign(position_.world_size, {});
    for (const FarRows& far : far_) {
      if (far.holder != position_.index) continue;
      others_[far.rank] = {shared_.get() + far.offset, static_cast<size_t>(RowsBytes(far.rank))};
    }
    if (offer_.in_bytes > 0) std::memcpy(shared_.get(), offer_.in, offer_.in_bytes);
    if (offer_.right_bytes > 0) {
      std::memcpy(shared_.get() + offer_.in_bytes, offer_.right, offer_.right_bytes);
    }
    offer_.in = shared_.get();
    offer_.right = shared_.get() + offer_.in_bytes;
    return absl::OkStatus();
  }

  int64_t FirstRowOf(int index) const {
    constexpr int64_t kTogether = 4;  // rows; products are faster on several rows at a time
    const auto size = static_cast<int64_t>(position_.members.size());
    return index == size ? update_.rows : update_.rows * index / size / kTogether * kTogether;
  }

  // Copies the rows that this rank has written to the other ranks' variables, unless they share
  // memory.
  void CopyRows(absl::Span<const TeamMemory> ranks, int64_t first, int64_t bytes) const {
    for (const TeamMemory& other : ranks) {
      for (size_t v = 0; v < offer_.out.size(); ++v) {
        if (bytes == 0 || other.out[v] == offer_.out[v]) continue;
        std::memcpy(other.out[v] + first, offer_.out[v] + first, bytes);
      }
    }
  }

  const TeamPosition position_;
  LocalTeam& team_;
  ProductUpdate update_;
  int64_t a_row_bytes_ = 0;
  std::vector<ProductRows> parts_;  // by rank, while RunShard runs
  // Used only with several domains:
  std::shared_ptr<std::byte> shared_;  // memory that all ranks of the team read
  int64_t shared_bytes_ = 0;
  std::vector<FarRows> far_;
  std::vector<int64_t> ends_;                  // by member: the end of the rows in its memory
  std::vector<absl::Span<std::byte>> others_;  // by rank: where that rank's rows arrive
};

}  // namespace

absl::StatusOr<TeamUpdate*> TeamUpdates::Start(const Collective& collective) {
  const auto* product = std::get_if<ProductUpdate>(&collective.operation);
  const int64_t bytes = product != nullptr
                            ? product->rows * product->row_bytes
                            : std::get<Update>(collective.operation).count *
                                  static_cast<int64_t>(DataTypeSize(collective.dtype));
  Idle& idle = idle_[{product != nullptr, bytes}];
  if (idle.empty() && product != nullptr)
    idle.push_back(std::make_unique<RowsUpdate>(position_, &team_));
  if (idle.empty()) idle.push_back(std::make_unique<GradientUpdate>(position_));
  in_flight_.push_back({std::move(idle.back()), &idle});
  idle.pop_back();
  TeamUpdate* const update = in_flight_.back().update.get();
  const absl::Status held = update->Hold(collective);
  if (held.ok()) return update;
  Finish(update);
  return held;
}

TeamUpdate* TeamUpdates::Find(const Collective& collective) const {
  for (const Started& started : in_flight_) {
    if (RuleOf(started.update->collective()) == RuleOf(collective)) return started.update.get();
  }
  return nullptr;
}

void TeamUpdates::Finish(TeamUpdate* update) {
  const auto it = absl::c_find_if(
      in_flight_, [update](const Started& started) { return started.update.get() == update; });
  it->home->push_back(std::move(it->update));
  in_flight_.erase(it);
}

}  // namespace mirrorflow
