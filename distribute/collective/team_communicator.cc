// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/team_communicator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distribute/collective/check_collective.h"
#include "distribute/collective/shard_pieces.h"
#include "distribute/collective/team.h"
#include "distribute/collective/team_update.h"
#include "framework/core/buffer.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/reduce_in_rank_order.h"

namespace mirrorflow {
namespace {

using Ranks = absl::Span<const TeamMemory>;

void Copy(const void* from, void* to, int64_t bytes) {
  if (bytes > 0 && from != to) std::memcpy(to, from, bytes);
}

// A collective in flight, other than an update.
class TeamCollective final : public CollectiveInFlight {
 public:
  // Reserves memory so that later calls allocate nothing.
  void Reserve(size_t members) {
    ins_.reserve(members);
    outs_.reserve(members);
  }
  void Hold(const Collective& c, const TeamPosition& position) {
    out_[0] = static_cast<std::byte*>(c.out);
    const std::optional<int64_t> count = CountInShards(c);
    in_shards_ = count.has_value();
    // In other operations, each rank writes only its own result, plus the parts that it gathers
    // from other domains for the whole domain.
    const bool gathers_far =
        std::holds_alternative<AllGather>(c.operation) && !position.team_is_world();
    Offer(c,
          in_shards_ || gathers_far ? absl::MakeConstSpan(out_) : absl::Span<std::byte* const>());
    offer_.in_bytes = InputElements(c, position.rank) * element_bytes();
    if (!in_shards_) return;
    shard_ =
        ShardOf(*count, element_bytes(), position.index, static_cast<int>(position.members.size()));
    members_ = position.members;
  }
  // Returns whether each rank of the domain computes one shard of every rank's result.
  bool in_shards() const { return in_shards_; }

  // The exchange calls these only for collectives that work in shards.
  std::variant<DomainShard, DomainPart> Prepare(Ranks ranks) override {
    FindOuts(ranks);
    void* const own = ByteOffset(collective_.out, shard_.first * element_bytes());
    DomainShard shard = {.dtype = collective_.dtype,
                         .count = *CountInShards(collective_),
                         .out = own,
                         .urgency = collective_.urgency};
    if (const auto* broadcast = std::get_if<Broadcast>(&collective_.operation)) {
      shard.root = broadcast->root;
      shard.in = InOfRoot(ranks);
      return shard;
    }
    shard.reduction = std::get<AllReduce>(collective_.operation).reduction;
    shard.in = ByteOffset(collective_.in, shard_.first * element_bytes());
    if (ranks.size() > 1) {
      FindIns(ranks);
      ReduceInRankOrder(WithinDomain(shard.reduction), collective_.dtype, ins_, {&own, 1},
                        shard_.count);
      shard.in = own;
    }
    return shard;
  }
  void Take(int64_t first, const void* values, int64_t count) override {
    const int64_t at = (first - shard_.first) * element_bytes();
    for (void* out : outs_) Copy(values, ByteOffset(out, at), count * element_bytes());
  }

  // Computes this rank's shard of the results. REQUIRES: the team has all ranks.
  void MakeShard(Ranks ranks) {
    FindOuts(ranks);
    if (std::holds_alternative<Broadcast>(collective_.operation)) {
      return Take(shard_.first, InOfRoot(ranks), shard_.count);
    }
    FindIns(ranks);
    ReduceInRankOrder(std::get<AllReduce>(collective_.operation).reduction, collective_.dtype, ins_,
                      absl::MakeSpan(outs_), shard_.count);
  }

 private:
  // Returns the element count of a collective that works in shards; nullopt for other collectives.
  static std::optional<int64_t> CountInShards(const Collective& c) {
    if (const auto* all_reduce = std::get_if<AllReduce>(&c.operation)) return all_reduce->count;
    if (const auto* broadcast = std::get_if<Broadcast>(&c.operation)) return broadcast->count;
    return std::nullopt;
  }
  int64_t element_bytes() const { return static_cast<int64_t>(DataTypeSize(collective_.dtype)); }
  void FindIns(Ranks ranks) {
    ins_.clear();
    for (const TeamMemory& rank : ranks) {
      ins_.push_back(ByteOffset(rank.in, shard_.first * element_bytes()));
    }
  }
  void FindOuts(Ranks ranks) {
    outs_.clear();
    for (const TeamMemory& rank : ranks) {
      void* const out = ByteOffset(rank.out[0], shard_.first * element_bytes());
      if (outs_.empty() || outs_.back() != out) outs_.push_back(out);
    }
  }
  // Returns this rank's shard of the broadcast value; null if the root is in another domain.
  const void* InOfRoot(Ranks ranks) const {
    const int root = std::get<Broadcast>(collective_.operation).root;
    const auto at = std::find(members_.begin(), members_.end(), root);
    return at == members_.end()
               ? nullptr
               : ByteOffset(ranks[at - members_.begin()].in, shard_.first * element_bytes());
  }

  std::byte* out_[1] = {};
  // Whether the collective works in shards. If so, the fields below hold this rank's shard, and
  // where it starts in each rank's values and results. Ranks can share the memory of a result.
  bool in_shards_ = false;
  absl::Span<const int> members_;
  Shard shard_;
  std::vector<const void*> ins_;
  std::vector<void*> outs_;
};

// Returns whether `c` is the collective `started`. Compares the fields that a caller can get wrong.
bool IsSame(const Collective& started, const Collective& c) {
  return started.operation.index() == c.operation.index() && started.in == c.in &&
         started.out == c.out && started.name == c.name;
}

class TeamCommunicator final : public Communicator, ProgressThread::Rank {
 public:
  TeamCommunicator(const Topology& topology, int rank, std::unique_ptr<LocalTeam> team,
                   std::shared_ptr<DomainExchange> exchange, std::shared_ptr<ProgressThread> thread)
      : domain_(topology.RanksOfDomain(topology.replicas[rank].domain)),
        team_(std::move(team)),
        position_({.rank = rank,
                   .index = team_->rank(),
                   .members = domain_,
                   .world_size = topology.world_size(),
                   .partners = exchange == nullptr ? nullptr : &exchange->partners()}),
        exchange_(std::move(exchange)),
        thread_(std::move(thread)),
        updates_(position_, team_.get()),
        ins_(domain_.size()) {
    for (TeamCollective& pending : pending_) pending.Reserve(domain_.size());
    if (thread_ != nullptr) thread_->Add(this);
  }
  ~TeamCommunicator() override {
    Resume();
    if (thread_ != nullptr) thread_->Remove(this);
    // An update in flight, after a failed step, receives into memory that is freed with it.
    if (exchange_ != nullptr) exchange_->CancelTransfers();
  }

  int rank() const override { return position_.rank; }
  int world_size() const override { return position_.world_size; }
  absl::Status status() const override { return team_->status(); }
  void Abort(absl::Status why) override { team_->Abort(std::move(why)); }
  void BeginStep(uint64_t step) override {
    Resume();
    if (exchange_ != nullptr) exchange_->set_step(step);
  }
  absl::Status EndStep() override {
    while (!waiting_.empty() && waiting_.front().overlaps) {
      MF_RETURN_IF_ERROR(Begin(waiting_.front().work, /*waits=*/true).status());
    }
    if (thread_ != nullptr && !std::exchange(paused_, true)) thread_->RankPauses();
    return absl::OkStatus();
  }

  absl::Status Start(const Collective& collective, Lane*) override {
    const absl::Status status = CheckCollective(collective, rank(), world_size());
    if (!status.ok()) [[unlikely]] {
      team_->Abort(WithFailure(status, {.rank = rank()}));
      return team_->Start({});  // returns the first failure
    }
    if (IsUpdate(collective)) return StartUpdate(collective);
    if (started_ - finished_ == kMaxInFlight) [[unlikely]] {
      TeamCollective refused;
      refused.Hold(collective, position_);
      return team_->Start(refused.offer());
    }
    TeamCollective& next = pending_[started_ % kMaxInFlight];
    next.Hold(collective, position_);
    MF_RETURN_IF_ERROR(StartWork(&next, /*over_domains=*/exchange_ != nullptr, next.in_shards()));
    ++started_;
    return absl::OkStatus();
  }

  absl::Status Finish(const Collective& collective, Lane*) override {
    if (IsUpdate(collective)) return FinishUpdate(collective);
    TeamCollective& next = pending_[finished_ % kMaxInFlight];
    if (finished_ == started_ || !IsSame(next.collective(), collective)) [[unlikely]] {
      return OutOfOrder(collective);
    }
    if (exchange_ != nullptr && next.in_shards()) {
      MF_RETURN_IF_ERROR(FinishOverDomains(&next));
    } else {
      if (exchange_ != nullptr) MF_RETURN_IF_ERROR(BeginUpTo(&next));
      MF_RETURN_IF_ERROR(team_->Finish(next.offer(), [&](Ranks ranks) {
        return std::visit([&](const auto& operation) { return Work(operation, next, ranks); },
                          next.collective().operation);
      }));
    }
    ++finished_;
    return absl::OkStatus();
  }

 private:
  // Work over several domains that this rank has started in its team but not yet begun in the
  // exchange. All domains number their work in the order it begins, so it must begin in the order
  // it was started.
  struct Waiting {
    DomainWork* work;
    bool overlaps;  // if false, the work begins and ends within Finish
  };

  absl::Status StartWork(CollectiveInFlight* work, bool over_domains, bool overlaps) {
    MF_RETURN_IF_ERROR(team_->Start(work->offer()));
    if (!over_domains) return absl::OkStatus();
    waiting_.push_back({work, overlaps});
    return Advance();
  }

  absl::Status StartUpdate(const Collective& collective) {
    const absl::StatusOr<TeamUpdate*> held = updates_.Start(collective);
    if (!held.ok()) [[unlikely]] {
      team_->Abort(WithFailure(
          Annotate(held.status(), CollectiveToString(collective)),
          {.rank = rank(), .sequence = collective.sequence, .name = std::string(collective.name)}));
      return team_->Start({});  // returns the first failure
    }
    TeamUpdate* const update = *held;
    const absl::Status started = StartWork(update, update->needs_domains(), /*overlaps=*/true);
    if (!started.ok()) [[unlikely]]
      updates_.Finish(update);
    return started;
  }
  absl::Status FinishUpdate(const Collective& collective) {
    TeamUpdate* const update = updates_.Find(collective);
    if (update == nullptr) [[unlikely]]
      return OutOfOrder(collective);
    if (update->needs_domains() && update->updates_arrivals()) {
      MF_RETURN_IF_ERROR(FinishOverDomains(update));
    } else {
      if (update->needs_domains()) MF_RETURN_IF_ERROR(ReceiveTogether(update));
      MF_RETURN_IF_ERROR(team_->Finish(update->offer(), [update](Ranks ranks) {
        update->RunShard(ranks);
        return absl::OkStatus();
      }));
    }
    updates_.Finish(update);
    return absl::OkStatus();
  }

  absl::Status FinishOverDomains(DomainWork* work) {
    MF_RETURN_IF_ERROR(Advance());
    MF_RETURN_IF_ERROR(BeginUpTo(work));
    return team_->Finish(work->offer(), [&](Ranks) { return exchange_->Finish(work); });
  }

  // Blocks until all ranks of the domain have received their data for `work`.
  absl::Status ReceiveTogether(DomainWork* work) {
    MF_RETURN_IF_ERROR(Advance());
    MF_RETURN_IF_ERROR(BeginUpTo(work));
    return team_->Meet(work->offer(), [&](Ranks) { return exchange_->Finish(work); });
  }

  absl::Status OutOfOrder(const Collective& collective) {
    team_->Abort(absl::FailedPreconditionError(
        absl::StrCat(CollectiveToString(collective), ": rank ", rank(),
                     " finishes it out of order; finish the oldest collective in flight first")));
    return team_->Start({});  // returns the first failure
  }

  // Begins the work that all ranks of the domain have started, and makes progress on the transfers
  // in flight.
  absl::Status Advance() {
    while (!waiting_.empty() && waiting_.front().overlaps) {
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
  void Resume() {
    if (std::exchange(paused_, false)) thread_->RankResumes();
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

  // Begins `work` and all work started before it. Blocks until all ranks of the domain have started
  // it. Must not be called inside team work: it would replace that work's list of rank memory.
  absl::Status BeginUpTo(const DomainWork* work) {
    const auto is_it = [work](const Waiting& waiting) { return waiting.work == work; };
    while (std::any_of(waiting_.begin(), waiting_.end(), is_it)) {
      const Waiting first = waiting_.front();
      if (first.overlaps) {
        MF_RETURN_IF_ERROR(Begin(first.work, /*waits=*/true).status());
      } else if (first.work == work) {
        waiting_.erase(waiting_.begin());
      } else {
        team_->Abort(absl::FailedPreconditionError(absl::StrCat(
            work->offer().name, ": rank ", rank(), " tried to finish this before '",
            first.work->offer().name, "', which it started earlier and must finish first")));
        return team_->Start({});  // returns the first failure
      }
    }
    return absl::OkStatus();
  }

  // Does this rank's part of a collective that all ranks of its domain have started.
  absl::Status Work(const Barrier&, const TeamCollective& t, Ranks) {
    return exchange_ == nullptr ? absl::OkStatus() : exchange_->Barrier(t.offer().fingerprint);
  }

  // Handles a single domain; FinishOverDomains handles several.
  absl::Status Work(const AllReduce&, TeamCollective& t, Ranks ranks) {
    t.MakeShard(ranks);
    return absl::OkStatus();
  }
  absl::Status Work(const Broadcast&, TeamCollective& t, Ranks ranks) {
    t.MakeShard(ranks);
    return absl::OkStatus();
  }

  absl::Status Work(const ReduceScatter& scatter, const TeamCollective& t, Ranks ranks) {
    const Collective& c = t.collective();
    const auto element = static_cast<int64_t>(DataTypeSize(c.dtype));
    const auto reduce = [&](Reduction reduction, int rank, void* out) {
      const int64_t first = FirstOf(rank, scatter.counts) * element;
      for (size_t r = 0; r < ranks.size(); ++r) ins_[r] = ByteOffset(ranks[r].in, first);
      ReduceInRankOrder(reduction, c.dtype, ins_, {&out, 1}, scatter.counts[rank]);
    };
    if (exchange_ == nullptr) {
      reduce(scatter.reduction, rank(), c.out);
      return absl::OkStatus();
    }
    return exchange_->ReduceScatterParts(
        scatter.reduction, c.dtype, scatter.counts, c.out,
        [&](int rank, void* out) { reduce(WithinDomain(scatter.reduction), rank, out); },
        t.offer().fingerprint);
  }

  absl::Status Work(const AllGather& gather, const TeamCollective& t, Ranks ranks) {
    const Collective& c = t.collective();
    const auto element = static_cast<int64_t>(DataTypeSize(c.dtype));
    for (size_t r = 0; r < ranks.size(); ++r) {
      Copy(ranks[r].in, ByteOffset(c.out, FirstOf(domain_[r], gather.counts) * element),
           gather.counts[domain_[r]] * element);
    }
    if (exchange_ == nullptr) return absl::OkStatus();
    MF_RETURN_IF_ERROR(
        exchange_->GatherParts(c.dtype, gather.counts, c.in, c.out, t.offer().fingerprint));
    // Distribute the parts that this rank has received for its domain.
    for (const int far : exchange_->served()) {
      const int64_t first = FirstOf(far, gather.counts) * element;
      for (const TeamMemory& other : ranks) {
        Copy(ByteOffset(c.out, first), ByteOffset(other.out[0], first),
             gather.counts[far] * element);
      }
    }
    return absl::OkStatus();
  }

  // Never called: updates_ runs the updates.
  absl::Status Work(const Update&, const TeamCollective& c, Ranks) {
    return absl::InternalError(c.ToString());
  }
  absl::Status Work(const ProductUpdate&, const TeamCollective& c, Ranks) {
    return absl::InternalError(c.ToString());
  }

  const std::vector<int> domain_;  // the ranks of this rank's domain
  const std::unique_ptr<LocalTeam> team_;
  const TeamPosition position_;
  const std::shared_ptr<DomainExchange> exchange_;
  const std::shared_ptr<ProgressThread> thread_;  // may be null
  bool paused_ = false;                           // set by EndStep, cleared by Resume
  std::array<TeamCollective, kMaxInFlight> pending_;
  uint64_t started_ = 0;  // counts collectives other than updates
  uint64_t finished_ = 0;
  TeamUpdates updates_;
  std::vector<Waiting> waiting_;
  std::vector<const void*> ins_;  // the memory of each rank, while Finish runs
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
