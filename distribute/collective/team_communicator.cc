// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/team_communicator.h"

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "distribute/collective/check_collective.h"
#include "distribute/collective/team.h"
#include "framework/core/status.h"
#include "framework/runtime/reduce_in_rank_order.h"
#include "framework/runtime/share.h"

namespace mirrorflow {
namespace {

using Ranks = absl::Span<const TeamMemory>;

void Copy(const void* from, void* to, int64_t bytes) {
  if (bytes > 0 && from != to) std::memcpy(to, from, bytes);
}

const std::byte* Skip(const void* memory, int64_t bytes) {
  return static_cast<const std::byte*>(memory) + bytes;
}
std::byte* Skip(void* memory, int64_t bytes) { return static_cast<std::byte*>(memory) + bytes; }

// A collective in flight.
struct Pending final : TeamWork {
  Collective collective;
  TeamOffer offer;
  std::byte* out[1] = {};

  void Hold(const Collective& c) {
    collective = c;
    out[0] = static_cast<std::byte*>(c.out);
    offer = {.fingerprint = Fingerprint(c),
             .work = this,
             .name = c.name,
             .sequence = c.sequence,
             .in = c.in};
    // In the other operations, each rank writes only its own result.
    if (std::holds_alternative<AllReduce>(c.operation)) offer.out = out;
  }
  std::string ToString() const override { return CollectiveToString(collective); }
};

// Whether `c` is the collective `started`; compares the fields that a caller can get wrong.
bool IsSame(const Collective& started, const Collective& c) {
  return started.operation.index() == c.operation.index() && started.in == c.in &&
         started.out == c.out && started.name == c.name;
}

class TeamCommunicator final : public Communicator {
 public:
  TeamCommunicator(const Topology& topology, int rank, std::unique_ptr<LocalTeam> team,
                   std::shared_ptr<DomainExchange> exchange)
      : rank_(rank),
        world_size_(topology.world_size()),
        domain_(topology.RanksOfDomain(topology.replicas[rank].domain)),
        team_(std::move(team)),
        exchange_(std::move(exchange)),
        ins_(domain_.size()),
        outs_(domain_.size()) {}

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  LocalTeam* team() override { return team_.get(); }
  int num_domains() const override { return exchange_ == nullptr ? 1 : exchange_->num_domains(); }
  absl::Status status() const override { return team_->status(); }
  void Abort(absl::Status why) override { team_->Abort(std::move(why)); }
  void BeginStep(uint64_t step) override {
    if (exchange_ != nullptr) exchange_->set_step(step);
  }

  absl::Status Start(const Collective& collective, Lane*) override {
    absl::Status status = CheckCollective(collective, rank_, world_size_);
    if (!status.ok()) [[unlikely]] {
      team_->Abort(status);
      return team_->Start({});  // returns the first failure
    }
    if (started_ - finished_ == kMaxInFlight) [[unlikely]] {
      Pending refused;
      refused.Hold(collective);
      return team_->Start(refused.offer);
    }
    Pending& pending = pending_[started_ % kMaxInFlight];
    pending.Hold(collective);
    pending.offer.in_bytes =
        InputElements(collective, rank_) * static_cast<int64_t>(DataTypeSize(collective.dtype));
    MF_RETURN_IF_ERROR(team_->Start(pending.offer));
    ++started_;
    return absl::OkStatus();
  }

  absl::Status Finish(const Collective& collective, Lane*) override {
    const Pending& next = pending_[finished_ % kMaxInFlight];
    const auto no_work = [](Ranks) { return absl::OkStatus(); };
    if (finished_ == started_ || !IsSame(next.collective, collective)) [[unlikely]] {
      Pending refused;
      refused.Hold(collective);
      return team_->Finish(refused.offer, no_work);
    }
    MF_RETURN_IF_ERROR(team_->Finish(next.offer, [&](Ranks ranks) {
      return std::visit([&](const auto& operation) { return Work(operation, next, ranks); },
                        next.collective.operation);
    }));
    ++finished_;
    return absl::OkStatus();
  }

  absl::Status ReduceOverDomains(const DomainShare& share) override {
    if (exchange_ == nullptr) return absl::OkStatus();
    return exchange_->ReduceShare(share, FingerprintOf(share));
  }

 private:
  static uint64_t FingerprintOf(const DomainShare& share) {
    return Fingerprint({.operation = AllReduce{share.reduction, share.count},
                        .dtype = share.dtype,
                        .name = share.name});
  }

  // Does this rank's share of a collective that all ranks of its domain have started.
  absl::Status Work(const Barrier&, const Pending& p, Ranks) {
    return exchange_ == nullptr ? absl::OkStatus() : exchange_->Barrier(p.offer.fingerprint);
  }

  absl::Status Work(const AllReduce& all_reduce, const Pending& p, Ranks ranks) {
    const Collective& c = p.collective;
    const auto element = static_cast<int64_t>(DataTypeSize(c.dtype));
    const Share share = ShareOf(all_reduce.count, element, team_->rank(), team_->size());
    for (size_t r = 0; r < ranks.size(); ++r) {
      ins_[r] = Skip(ranks[r].in, share.first * element);
      outs_[r] = Skip(ranks[r].out[0], share.first * element);
    }
    if (exchange_ == nullptr) {
      ReduceInRankOrder(all_reduce.reduction, c.dtype, ins_, absl::MakeSpan(outs_), share.count);
      return absl::OkStatus();
    }
    void* const own = outs_[team_->rank()];
    ReduceInRankOrder(WithinDomain(all_reduce.reduction), c.dtype, ins_, {&own, 1}, share.count);
    const DomainShare over_domains = {.reduction = all_reduce.reduction,
                                      .dtype = c.dtype,
                                      .memory = own,
                                      .count = all_reduce.count,
                                      .name = c.name};
    MF_RETURN_IF_ERROR(ReduceOverDomains(over_domains));
    for (void* out : outs_) Copy(own, out, share.count * element);
    return absl::OkStatus();
  }

  absl::Status Work(const ReduceScatter& scatter, const Pending& p, Ranks ranks) {
    const Collective& c = p.collective;
    const auto element = static_cast<int64_t>(DataTypeSize(c.dtype));
    const auto reduce = [&](Reduction reduction, int rank, void* out) {
      const int64_t first = FirstOf(rank, scatter.counts) * element;
      for (size_t r = 0; r < ranks.size(); ++r) ins_[r] = Skip(ranks[r].in, first);
      ReduceInRankOrder(reduction, c.dtype, ins_, {&out, 1}, scatter.counts[rank]);
    };
    if (exchange_ == nullptr) {
      reduce(scatter.reduction, rank_, c.out);
      return absl::OkStatus();
    }
    return exchange_->ReduceScatterParts(
        scatter.reduction, c.dtype, scatter.counts, c.out,
        [&](int rank, void* out) { reduce(WithinDomain(scatter.reduction), rank, out); },
        p.offer.fingerprint);
  }

  absl::Status Work(const AllGather& gather, const Pending& p, Ranks ranks) {
    const Collective& c = p.collective;
    const auto element = static_cast<int64_t>(DataTypeSize(c.dtype));
    for (size_t r = 0; r < ranks.size(); ++r) {
      Copy(ranks[r].in, Skip(c.out, FirstOf(domain_[r], gather.counts) * element),
           gather.counts[domain_[r]] * element);
    }
    if (exchange_ == nullptr) return absl::OkStatus();
    return exchange_->GatherParts(c.dtype, gather.counts, c.in, c.out, p.offer.fingerprint);
  }

  absl::Status Work(const Broadcast& broadcast, const Pending& p, Ranks ranks) {
    const Collective& c = p.collective;
    const int64_t bytes = broadcast.count * static_cast<int64_t>(DataTypeSize(c.dtype));
    for (size_t r = 0; r < ranks.size(); ++r) {
      if (domain_[r] == broadcast.root) Copy(ranks[r].in, c.out, bytes);
    }
    if (exchange_ == nullptr) return absl::OkStatus();
    return exchange_->Broadcast(broadcast.root, c.in, c.out, bytes, p.offer.fingerprint);
  }

  const int rank_;
  const int world_size_;
  const std::vector<int> domain_;  // the ranks of this rank's domain
  const std::unique_ptr<LocalTeam> team_;
  const std::shared_ptr<DomainExchange> exchange_;
  std::array<Pending, kMaxInFlight> pending_;
  uint64_t started_ = 0;
  uint64_t finished_ = 0;
  // The memory of each rank, while Finish runs; not local, as the number of ranks varies.
  std::vector<const void*> ins_;
  std::vector<void*> outs_;
};

}  // namespace

std::unique_ptr<Communicator> CreateTeamCommunicator(const Topology& topology, int rank,
                                                     std::unique_ptr<LocalTeam> team,
                                                     std::shared_ptr<DomainExchange> exchange) {
  return std::make_unique<TeamCommunicator>(topology, rank, std::move(team), std::move(exchange));
}

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> CreateTeamCommunicators(
    int world_size, absl::Duration timeout) {
  MF_ASSIGN_OR_RETURN(auto team, CreateThreadTeam(world_size, {.timeout = timeout}));
  const Topology topology =
      Topology::OneWorker(std::vector<std::string>(world_size), /*one_domain=*/true);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < world_size; ++rank) {
    communicators.push_back(
        CreateTeamCommunicator(topology, rank, std::move(team[rank]), /*exchange=*/nullptr));
  }
  return communicators;
}

}  // namespace mirrorflow
