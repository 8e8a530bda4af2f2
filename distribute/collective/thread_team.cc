// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/thread_team.h"

#include <sched.h>

#include <atomic>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "distribute/collective/waiter.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

constexpr int64_t kLineBytes = 64;
constexpr int kMaxRanks = 1024;  // each is a thread

// One rank's announcement of one piece of work. `number` comes first, so that the cache line that
// the other ranks poll also has the fields that they need next.
struct alignas(kLineBytes) Slot {
  std::atomic<uint64_t> number{0};  // of the work that this slot describes, counted from 1
  TeamOffer offer;                  // written before `number`, read after it
};

// Written by one rank, read by all.
struct Member {
  Slot slots[LocalTeam::kMaxInFlight];
  alignas(kLineBytes) std::atomic<uint64_t> done{0};  // pieces of work whose share it has done
  // Set while this rank may access the memory of the others. Polled only after a failure.
  alignas(kLineBytes) std::atomic<bool> inside{false};
};

// State that the ranks share.
struct Group {
  Group(int size, const ThreadTeamOptions& options)
      : members(size), waiter(size, options.timeout), world_ranks(options.world_ranks) {
    if (world_ranks.empty()) {
      world_ranks.resize(size);
      std::iota(world_ranks.begin(), world_ranks.end(), 0);
    }
    waiter.OnAbort(options.on_failure);
  }

  std::vector<Member> members;
  Waiter waiter;
  std::vector<int> world_ranks;
};

class ThreadTeam final : public LocalTeam {
 public:
  ThreadTeam(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)),
        rank_(rank),
        self_(group_->members[rank]),
        offers_(group_->members.size()) {}

  ~ThreadTeam() override {
    // The other ranks cannot continue without this one, and must stop using its memory.
    const int world_rank = group_->world_ranks[rank_];
    Fail(WithFailure(
             absl::AbortedError(absl::StrCat("rank ", world_rank, " has left its communicator")),
             {.rank = world_rank}))
        .IgnoreError();
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->members.size()); }

  absl::Status Start(const TeamOffer& offer) override {
    if (group_->waiter.aborted()) [[unlikely]]
      return FirstFailure();
    if (started_ - finished_ == kMaxInFlight) [[unlikely]] {
      return Fail(absl::ResourceExhaustedError(
          absl::StrCat(offer.work->ToString(), ": too many in flight on rank ",
                       group_->world_ranks[rank_], "; expected at most ", kMaxInFlight)));
    }
    // The slot is free: its previous work was finished only after all ranks were done with it.
    Slot& slot = self_.slots[started_ % kMaxInFlight];
    slot.offer = offer;
    group_->waiter.Publish(&slot.number, ++started_);
    return absl::OkStatus();
  }

  absl::Status Finish(const TeamOffer& offer, Work work) override {
    if (finished_ == started_ || SlotOf(rank_).offer.fingerprint != offer.fingerprint)
        [[unlikely]] {
      return Fail(absl::FailedPreconditionError(
          absl::StrCat(offer.work->ToString(), ": rank ", group_->world_ranks[rank_],
                       " finishes it out of order; expected the oldest one in flight")));
    }
    const uint64_t number = finished_ + 1;
    const auto started = [&](int rank) -> const std::atomic<uint64_t>& {
      return SlotOf(rank).number;
    };
    const auto done = [&](int rank) -> const std::atomic<uint64_t>& {
      return group_->members[rank].done;
    };
    Waiter::Deadline deadline;
    MF_RETURN_IF_ERROR(WaitForAll(started, number, "started", &deadline));
    MF_RETURN_IF_ERROR(WorkInside(work));
    MF_RETURN_IF_ERROR(WaitForAll(done, number, "finished", &deadline));
    finished_ = number;
    return absl::OkStatus();
  }

  absl::Status status() const override {
    return group_->waiter.aborted() ? group_->waiter.failure() : absl::OkStatus();
  }
  void Abort(absl::Status why) override { group_->waiter.Abort(std::move(why)); }

 private:
  // The slot of `rank` for the work that this rank finishes next.
  const Slot& SlotOf(int rank) const {
    return group_->members[rank].slots[finished_ % kMaxInFlight];
  }

  // Waits until no other rank is inside. Whatever a rank waits for in there ends with the failure,
  // so this wait needs no deadline.
  // REQUIRES: aborted, so that no rank enters any more.
  void LetOthersOut() const {
    for (const Member& member : group_->members) {
      if (&member == &self_) continue;
      while (member.inside.load(std::memory_order_seq_cst)) sched_yield();
    }
  }

  // Waits until no other rank accesses this rank's memory, then returns the first failure.
  absl::Status FirstFailure() const {
    LetOthersOut();
    return group_->waiter.failure();
  }

  absl::Status Fail(absl::Status why) {
    Abort(std::move(why));
    return FirstFailure();
  }

  // Waits until the counter of every rank has reached `number`. `what` names that event in errors.
  template <typename CounterOf>
  absl::Status WaitForAll(CounterOf counter_of, uint64_t number, const char* what,
                          Waiter::Deadline* deadline) {
    for (int rank = 0; rank < size(); ++rank) {
      const Waiter::Outcome outcome = group_->waiter.Wait(counter_of(rank), number, deadline);
      if (outcome == Waiter::Outcome::kReached) [[likely]]
        continue;
      if (outcome == Waiter::Outcome::kTimedOut) {
        const std::vector<int> missing = RanksBelow(counter_of, number);
        if (missing.empty()) break;  // they arrived at the last moment
        if (IsInside(rank)) {
          // It is doing its share, and whatever it waits for in there has its own deadline.
          *deadline = Waiter::Deadline();
          --rank;
          continue;
        }
        Abort(TimedOut(what, missing));
      }
      // A rank that was inside may have done its share by now. If it was the last one, other ranks
      // may have returned OK, and so must this one: work succeeds on all ranks or on none.
      LetOthersOut();
      return RanksBelow(counter_of, number).empty() ? absl::OkStatus() : FirstFailure();
    }
    return absl::OkStatus();
  }

  // World ranks whose counter is below `number`.
  template <typename CounterOf>
  std::vector<int> RanksBelow(CounterOf counter_of, uint64_t number) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < size(); ++rank) {
      if (counter_of(rank).load(std::memory_order_acquire) < number) {
        ranks.push_back(group_->world_ranks[rank]);
      }
    }
    return ranks;
  }

  bool IsInside(int rank) const {
    return group_->members[rank].inside.load(std::memory_order_acquire);
  }

  absl::Status TimedOut(const char* what, const std::vector<int>& missing) const {
    const TeamOffer& offer = SlotOf(rank_).offer;
    return At(missing[0], absl::DeadlineExceededError(absl::StrCat(
                              offer.work->ToString(), ", collective ", finished_ + 1, ": rank ",
                              group_->world_ranks[rank_], " timed out after ",
                              absl::FormatDuration(group_->waiter.timeout()), "; expected ", size(),
                              " ranks, not ", what, " by rank ", absl::StrJoin(missing, ", "))));
  }

  // Names `rank` of the world as the one at fault in the current work.
  absl::Status At(int rank, absl::Status status) const {
    const TeamOffer& offer = SlotOf(rank_).offer;
    return WithFailure(std::move(status),
                       {.rank = rank, .sequence = offer.sequence, .name = std::string(offer.name)});
  }

  // Adds the current work to an error, unless the error already names its collective: then it is an
  // abort from outside the team.
  absl::Status Located(const absl::Status& status) const {
    const std::optional<Failure> where = FailureOf(status);
    if (where.has_value() && !where->name.empty()) return status;
    const int self = group_->world_ranks[rank_];
    return At(where.has_value() && where->rank >= 0 ? where->rank : self,
              Annotate(status, SlotOf(rank_).offer.work->ToString()));
  }

  // Does this rank's share of the work that all ranks have started.
  absl::Status WorkInside(Work work) {
    // Sequentially consistent, as in LetOthersOut: either this rank sees the failure, or the rank
    // that returns it sees that this one is inside and waits.
    self_.inside.store(true, std::memory_order_seq_cst);
    bool failed = group_->waiter.aborted();
    if (!failed) {
      absl::Status status = CheckAgreement();
      if (status.ok()) status = work(offers_);
      failed = !status.ok();
      if (failed) {
        group_->waiter.Abort(Located(status));
      } else {
        group_->waiter.Publish(&self_.done, finished_ + 1);
      }
    }
    self_.inside.store(false, std::memory_order_release);
    return failed ? FirstFailure() : absl::OkStatus();
  }

  // Collects the offers of all ranks, which must be for the same work as rank 0's.
  absl::Status CheckAgreement() {
    for (int rank = 0; rank < size(); ++rank) {
      offers_[rank] = &SlotOf(rank).offer;
      if (offers_[rank]->fingerprint == offers_[0]->fingerprint) [[likely]]
        continue;
      return At(group_->world_ranks[rank],
                absl::InvalidArgumentError(absl::StrCat(
                    "collective ", finished_ + 1, " differs between ranks: rank ",
                    group_->world_ranks[rank], " runs ", offers_[rank]->work->ToString(), ", rank ",
                    group_->world_ranks[0], " ", offers_[0]->work->ToString())));
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
  Member& self_;
  uint64_t started_ = 0;
  uint64_t finished_ = 0;
  std::vector<const TeamOffer*> offers_;  // of the current work; not local, as its size varies
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<LocalTeam>>> CreateThreadTeam(
    int size, const ThreadTeamOptions& options) {
  if (size < 1 || size > kMaxRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("thread team: expected 1 to ", kMaxRanks, " ranks, got ", size));
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat("thread team: expected a timeout above 0, got ",
                                                   absl::FormatDuration(options.timeout)));
  }
  const auto group = std::make_shared<Group>(size, options);
  std::vector<std::unique_ptr<LocalTeam>> team;
  for (int rank = 0; rank < size; ++rank) team.push_back(std::make_unique<ThreadTeam>(group, rank));
  return team;
}

}  // namespace mirrorflow
