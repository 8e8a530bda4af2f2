// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/team_communicator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
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
struct Pending final : TeamWork, Communicator::DomainWork {
  Collective collective;
  TeamOffer team_offer;
  std::byte* out[1] = {};
  // For an all-reduce over several domains: this rank's share, and all places of its result.
  Share share;
  std::vector<void*> outs;
  std::vector<const void*> ins;  // while its ranks' values are reduced

  void Hold(const Collective& c) {
    collective = c;
    out[0] = static_cast<std::byte*>(c.out);
    team_offer = {.fingerprint = Fingerprint(c),
                  .work = this,
                  .name = c.name,
                  .sequence = c.sequence,
                  .in = c.in};
    // In the other operations, each rank writes only its own result.
    if (is_all_reduce()) team_offer.out = out;
  }
  std::string ToString() const override { return CollectiveToString(collective); }
  bool is_all_reduce() const { return std::holds_alternative<AllReduce>(collective.operation); }

  const TeamOffer& offer() const override { return team_offer; }
  std::variant<Communicator::DomainShare, Communicator::DomainPart> Prepare(Ranks ranks) override {
    const auto& all_reduce = std::get<AllReduce>(collective.operation);
    const int64_t first = share.first * element_bytes();
    outs.clear();
    for (const TeamMemory& rank : ranks) outs.push_back(Skip(rank.out[0], first));
    const void* in = Skip(collective.in, first);
    void* const own = Skip(collective.out, first);
    if (ranks.size() > 1) {
      ins.clear();
      for (const TeamMemory& rank : ranks) ins.push_back(Skip(rank.in, first));
      ReduceInRankOrder(WithinDomain(all_reduce.reduction), collective.dtype, ins, {&own, 1},
                        share.count);
      in = own;
    }
    return Communicator::DomainShare{.reduction = all_reduce.reduction,
                                     .dtype = collective.dtype,
                                     .count = all_reduce.count,
                                     .in = in,
                                     .out = own};
  }
  void Take(int64_t first, const void* values, int64_t count) override {
    const int64_t at = (first - share.first) * element_bytes();
    for (void* out : outs) Copy(values, Skip(out, at), count * element_bytes());
  }

 private:
  int64_t element_bytes() const { return static_cast<int64_t>(DataTypeSize(collective.dtype)); }
};

// Whether `c` is the collective `started`; compares the fields that a caller can get wrong.
bool IsSame(const Collective& started, const Collective& c) {
  return started.operation.index() == c.operation.index() && started.in == c.in &&
         started.out == c.out && started.name == c.name;
}

class TeamCommunicator final : public Communicator, ProgressThread::Rank {
 public:
  TeamCommunicator(const Topology& topology, int rank, std::unique_ptr<LocalTeam> team,
                   std::shared_ptr<DomainExchange> exchange, std::shared_ptr<ProgressThread> thread)
      : rank_(rank),
        world_size_(topology.world_size()),
        domain_(topology.RanksOfDomain(topology.replicas[rank].domain)),
        team_(std::move(team)),
        exchange_(std::move(exchange)),
        thread_(std::move(thread)),
        ins_(domain_.size()),
        outs_(domain_.size()) {
    if (thread_ != nullptr) thread_->Add(this);
  }
  ~TeamCommunicator() override {
    GoOn();
    if (thread_ != nullptr) thread_->Remove(this);
  }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  LocalTeam* team() override { return team_.get(); }
  int num_domains() const override { return exchange_ == nullptr ? 1 : exchange_->num_domains(); }
  absl::Span<const int> domain_ranks() const override { return domain_; }
  absl::Status status() const override { return team_->status(); }
  void Abort(absl::Status why) override { team_->Abort(std::move(why)); }
  void BeginStep(uint64_t step) override {
    GoOn();
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
      return team_->Start(refused.team_offer);
    }
    Pending& pending = pending_[started_ % kMaxInFlight];
    pending.Hold(collective);
    const auto element_bytes = static_cast<int64_t>(DataTypeSize(collective.dtype));
    pending.team_offer.in_bytes = InputElements(collective, rank_) * element_bytes;
    if (exchange_ == nullptr) {
      MF_RETURN_IF_ERROR(team_->Start(pending.team_offer));
    } else {
      if (const auto* all_reduce = std::get_if<AllReduce>(&collective.operation)) {
        pending.share = ShareOf(all_reduce->count, element_bytes, team_->rank(), team_->size());
      }
      MF_RETURN_IF_ERROR(team_->Start(pending.team_offer));
      waiting_.push_back({&pending, pending.is_all_reduce()});
      MF_RETURN_IF_ERROR(Advance());
    }
    ++started_;
    return absl::OkStatus();
  }

  absl::Status Finish(const Collective& collective, Lane*) override {
    Pending& next = pending_[finished_ % kMaxInFlight];
    if (finished_ == started_ || !IsSame(next.collective, collective)) [[unlikely]] {
      team_->Abort(absl::FailedPreconditionError(
          absl::StrCat(CollectiveToString(collective), ": rank ", rank_,
                       " finishes it out of order; expected the oldest one in flight")));
      return team_->Start({});  // returns the first failure
    }
    if (exchange_ != nullptr && next.is_all_reduce()) {
      MF_RETURN_IF_ERROR(FinishOverDomains(&next));
    } else {
      if (exchange_ != nullptr) MF_RETURN_IF_ERROR(BeginUpTo(&next));
      MF_RETURN_IF_ERROR(team_->Finish(next.team_offer, [&](Ranks ranks) {
        return std::visit([&](const auto& operation) { return Work(operation, next, ranks); },
                          next.collective.operation);
      }));
    }
    ++finished_;
    return absl::OkStatus();
  }

  absl::Status Settle() override {
    while (!waiting_.empty() && waiting_.front().reduces) {
      MF_RETURN_IF_ERROR(Begin(waiting_.front().work, /*waits=*/true).status());
    }
    if (thread_ != nullptr && !std::exchange(rests_, true)) thread_->Rest();
    return absl::OkStatus();
  }

  absl::Status StartOverDomains(DomainWork* work) override {
    MF_RETURN_IF_ERROR(team_->Start(work->offer()));
    waiting_.push_back({work, /*reduces=*/true});
    return Advance();
  }

  absl::Status FinishOverDomains(DomainWork* work) override {
    MF_RETURN_IF_ERROR(Advance());
    MF_RETURN_IF_ERROR(BeginUpTo(work));
    return team_->Finish(work->offer(), [&](Ranks ranks) -> absl::Status {
      MF_RETURN_IF_ERROR(exchange_->Finish(work));
      work->Complete(ranks);
      return absl::OkStatus();
    });
  }

 private:
  // Work over domains that this rank has started and not begun. Works of all domains are numbered
  // in the order in which they begin, so none may overtake another.
  struct Waiting {
    DomainWork* work;
    bool reduces;  // others begin when they are finished, and are done then
  };

  // Begins what all ranks of the domain have started, and moves all that is in flight.
  absl::Status Advance() {
    while (!waiting_.empty() && waiting_.front().reduces) {
      MF_ASSIGN_OR_RETURN(const bool begun, Begin(waiting_.front().work, /*waits=*/false));
      if (!begun) break;
    }
    return Progress().status();
  }

  absl::StatusOr<bool> Progress() override {
    bool moved = false;
    MF_RETURN_IF_ERROR(team_->Access([&]() -> absl::Status {
      MF_ASSIGN_OR_RETURN(moved, exchange_->Progress());
      return absl::OkStatus();
    }));
    return moved;
  }
  bool PrepareToWait(std::vector<pollfd>* events) override {
    return exchange_->PrepareToWait(events);
  }
  void GoOn() {
    if (std::exchange(rests_, false)) thread_->GoOn();
  }

  absl::StatusOr<bool> Begin(DomainWork* work, bool waits) {
    MF_ASSIGN_OR_RETURN(const bool begun, team_->Begin(work->offer(), waits, [&](Ranks ranks) {
      return exchange_->Begin(work, work->Prepare(ranks));
    }));
    if (begun) {
      waiting_.erase(waiting_.begin());
      if (thread_ != nullptr) thread_->Begun();
    }
    return begun;
  }

  // Begins `work`, and all that was started before it. Waits until all ranks of the domain have
  // started it. Not called inside the team's work, whose memory that of another would replace.
  absl::Status BeginUpTo(const DomainWork* work) {
    const auto is_it = [work](const Waiting& waiting) { return waiting.work == work; };
    while (std::any_of(waiting_.begin(), waiting_.end(), is_it)) {
      const Waiting first = waiting_.front();
      if (first.reduces) {
        MF_RETURN_IF_ERROR(Begin(first.work, /*waits=*/true).status());
      } else if (first.work == work) {
        waiting_.erase(waiting_.begin());
      } else {
        team_->Abort(absl::FailedPreconditionError(
            absl::StrCat(work->offer().name, ": rank ", rank_, " finishes it before '",
                         first.work->offer().name, "', which it has started before")));
        return team_->Start({});  // returns the first failure
      }
    }
    return absl::OkStatus();
  }

  // Does this rank's share of a collective that all ranks of its domain have started.
  absl::Status Work(const Barrier&, const Pending& p, Ranks) {
    return exchange_ == nullptr ? absl::OkStatus() : exchange_->Barrier(p.team_offer.fingerprint);
  }

  // Within one domain: FinishOverDomains does it over several.
  absl::Status Work(const AllReduce& all_reduce, const Pending& p, Ranks ranks) {
    const Collective& c = p.collective;
    const auto element = static_cast<int64_t>(DataTypeSize(c.dtype));
    const Share share = ShareOf(all_reduce.count, element, team_->rank(), team_->size());
    for (size_t r = 0; r < ranks.size(); ++r) {
      ins_[r] = Skip(ranks[r].in, share.first * element);
      outs_[r] = Skip(ranks[r].out[0], share.first * element);
    }
    ReduceInRankOrder(all_reduce.reduction, c.dtype, ins_, absl::MakeSpan(outs_), share.count);
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
        p.team_offer.fingerprint);
  }

  absl::Status Work(const AllGather& gather, const Pending& p, Ranks ranks) {
    const Collective& c = p.collective;
    const auto element = static_cast<int64_t>(DataTypeSize(c.dtype));
    for (size_t r = 0; r < ranks.size(); ++r) {
      Copy(ranks[r].in, Skip(c.out, FirstOf(domain_[r], gather.counts) * element),
           gather.counts[domain_[r]] * element);
    }
    if (exchange_ == nullptr) return absl::OkStatus();
    return exchange_->GatherParts(c.dtype, gather.counts, c.in, c.out, p.team_offer.fingerprint);
  }

  absl::Status Work(const Broadcast& broadcast, const Pending& p, Ranks ranks) {
    const Collective& c = p.collective;
    const int64_t bytes = broadcast.count * static_cast<int64_t>(DataTypeSize(c.dtype));
    for (size_t r = 0; r < ranks.size(); ++r) {
      if (domain_[r] == broadcast.root) Copy(ranks[r].in, c.out, bytes);
    }
    if (exchange_ == nullptr) return absl::OkStatus();
    return exchange_->Broadcast(broadcast.root, c.in, c.out, bytes, p.team_offer.fingerprint);
  }

  const int rank_;
  const int world_size_;
  const std::vector<int> domain_;  // the ranks of this rank's domain
  const std::unique_ptr<LocalTeam> team_;
  const std::shared_ptr<DomainExchange> exchange_;
  const std::shared_ptr<ProgressThread> thread_;  // may be null
  bool rests_ = false;                            // since Settle
  std::array<Pending, kMaxInFlight> pending_;
  uint64_t started_ = 0;
  uint64_t finished_ = 0;
  std::vector<Waiting> waiting_;
  // The memory of each rank, while Finish runs; not local, as the number of ranks varies.
  std::vector<const void*> ins_;
  std::vector<void*> outs_;
};

}  // namespace

std::unique_ptr<Communicator> CreateTeamCommunicator(const Topology& topology, int rank,
                                                     std::unique_ptr<LocalTeam> team,
                                                     std::shared_ptr<DomainExchange> exchange,
                                                     std::shared_ptr<ProgressThread> thread) {
  return std::make_unique<TeamCommunicator>(topology, rank, std::move(team), std::move(exchange),
                                            std::move(thread));
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
