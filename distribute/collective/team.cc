// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/team.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "distribute/collective/first_failure.h"
#include "distribute/collective/waiter.h"
#include "framework/core/status.h"
#include "framework/core/thread.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

using Position = AddressSpace::Position;

constexpr int64_t kLineBytes = 64;
constexpr int kMaxRanks = 1024;  // each rank is a thread
constexpr auto kDescriptionTimeout = std::chrono::seconds(1);
constexpr auto kStoppedTimeout = std::chrono::seconds(1);

// --- state that the ranks share, possibly across processes; initially zeroed --------------------

// One rank's announcement of one piece of work. `number` is the first field, so the cache line that
// the other ranks poll also holds the fields that they need next.
struct alignas(kLineBytes) Slot {
  std::atomic<uint64_t> number;  // of the work that this slot describes, counted from 1
  // Written before `number`, read after it.
  uint64_t fingerprint;
  Position in;
  Position right;
  Position out[LocalTeam::kMaxOuts];
  const TeamWork* work;  // an address in the rank's process
  // Set to `number` once the rank has done the first phase of its part (Meet) or all of its part.
  alignas(kLineBytes) std::atomic<uint64_t> met;
  std::atomic<uint64_t> done;
};
static_assert(sizeof(Slot) == 3 * kLineBytes);

// Written by one rank, read by all.
struct Member {
  Slot slots[LocalTeam::kMaxInFlight];  // work n is in slot n % kMaxInFlight
  // How many threads of this rank may access other ranks' memory now. Polled only after a failure.
  alignas(kLineBytes) std::atomic<int> inside;
  // Describes the work that this rank has started, for errors in other processes. Written only if
  // ranks differ.
  alignas(kLineBytes) std::atomic<uint64_t> described;  // the number of the work
  char description[1000];                               // null-terminated
};

struct alignas(kLineBytes) Header {
  Waiter::Shared waits;
  FirstFailure::Shared failure;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

// The shared state, at its addresses in this process.
struct State {
  State(std::byte* memory, int size)
      : header(reinterpret_cast<Header*>(memory)),
        members(reinterpret_cast<Member*>(memory + sizeof(Header))),
        texts(reinterpret_cast<FirstFailure::Text*>(members + size)) {}
  Header* header;
  Member* members;
  FirstFailure::Text* texts;  // by process
};

// ------------------------------------------------------------------------------------------------

// State that the ranks of one process share.
class Group {
 public:
  Group(const ProcessTeam& team, const TeamOptions& options)
      : team(team),
        state(team.state.get(), size()),
        world_ranks(options.world_ranks),
        waiter(&state.header->waits, {num_local(), size()}, options.timeout),
        failure_(&state.header->failure, state.texts, team.space->process()),
        on_failure_(options.on_failure) {
    if (world_ranks.empty()) {
      world_ranks.resize(size());
      std::iota(world_ranks.begin(), world_ranks.end(), 0);
    }
    // While the ranks of this process wait for other domains, only this thread notices that a rank
    // of another process has failed.
    if (on_failure_ != nullptr && spans_processes()) {
      absl::StatusOr<std::thread> watcher = StartThread("failures of other ranks", [this] {
        waiter.WaitForEnd();
        ReportOnce();
      });
      if (watcher.ok()) {
        watcher_ = *std::move(watcher);
      } else {
        Abort(watcher.status());
      }
    }
  }
  ~Group() {
    if (watcher_.joinable()) watcher_.join();  // the ranks' destructors have ended all waits
  }

  int size() const { return static_cast<int>(team.processes.size()); }
  bool spans_processes() const { return num_local() < size(); }
  AddressSpace& space() const { return *team.space; }

  // Returns the first failure of any rank; OK if none has failed.
  absl::Status failure() const { return failure_.Get(); }

  void Abort(const absl::Status& why) {
    failure_.Set(why);
    waiter.End();
    ReportOnce();
  }

  bool IsLocal(int rank) const { return team.processes[rank] == team.space->process(); }

  // Returns when this process, after the first failure, stops waiting for ranks of other processes
  // to leave.
  std::chrono::steady_clock::time_point LastTimeForOthers() {
    std::call_once(first_wait_,
                   [this] { last_time_ = std::chrono::steady_clock::now() + kStoppedTimeout; });
    return last_time_;
  }

  bool IsInside(int rank) const {
    // A process that has ended no longer accesses memory.
    return state.members[rank].inside.load(std::memory_order_seq_cst) > 0 &&
           space().IsAlive(team.processes[rank]);
  }

  const ProcessTeam team;
  const State state;
  std::vector<int> world_ranks;
  Waiter waiter;

 private:
  int num_local() const {
    return static_cast<int>(
        std::count(team.processes.begin(), team.processes.end(), team.space->process()));
  }
  void ReportOnce() {
    if (!reported_.exchange(true) && on_failure_ != nullptr) on_failure_(failure());
  }

  FirstFailure failure_;
  const std::function<void(const absl::Status&)> on_failure_;
  std::atomic<bool> reported_{false};
  std::once_flag first_wait_;
  std::chrono::steady_clock::time_point last_time_;
  std::thread watcher_;
};

// Copies of memory that other processes cannot access, for work in flight.
class Staging {
 public:
  explicit Staging(AddressSpace& space) : space_(space) {}

  // Returns a copy that is kept until work `number` is finished. All work up to `finished` is
  // finished already.
  absl::StatusOr<const std::byte*> Copy(const void* memory, int64_t bytes, uint64_t number,
                                        uint64_t finished) {
    const auto fits = [&](const Block& block) {
      return block.until <= finished && block.bytes >= bytes;
    };
    auto block = std::find_if(blocks_.begin(), blocks_.end(), fits);
    if (block == blocks_.end()) {
      MF_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> allocated, space_.Allocate(bytes));
      block = blocks_.insert(blocks_.end(), {std::move(allocated), bytes, 0});
    }
    block->until = number;
    std::memcpy(block->memory.get(), memory, bytes);
    return block->memory.get();
  }

 private:
  struct Block {
    std::shared_ptr<std::byte> memory;
    int64_t bytes;
    uint64_t until;
  };
  AddressSpace& space_;
  std::vector<Block> blocks_;
};

class Team final : public LocalTeam {
 public:
  Team(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)),
        rank_(rank),
        self_(group_->state.members[rank]),
        staging_(group_->space()),
        ranks_(group_->size()),
        outs_(group_->size()) {}

  ~Team() override {
    // The other ranks cannot continue without this one, and must stop using its memory.
    const int world_rank = group_->world_ranks[rank_];
    Fail(WithFailure(
             absl::AbortedError(absl::StrCat("rank ", world_rank, " has left its communicator")),
             {.rank = world_rank}))
        .IgnoreError();
  }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) override {
    return group_->space().Allocate(bytes);
  }

  absl::Status Start(const TeamOffer& offer) override {
    if (group_->waiter.ended()) [[unlikely]]
      return FirstFailure();
    if (started_ - finished_ == kMaxInFlight) [[unlikely]] {
      return Fail(absl::ResourceExhaustedError(
          absl::StrCat(offer.work->ToString(), ": too many collectives in flight on rank ",
                       group_->world_ranks[rank_], "; expected at most ", kMaxInFlight)));
    }
    // The slot is free: its previous work was finished only after all ranks were done with it.
    Slot& slot = self_.slots[(started_ + 1) % kMaxInFlight];
    const absl::Status written = WriteOffer(offer, &slot);
    if (!written.ok()) [[unlikely]]
      return Fail(WithRank(group_->world_ranks[rank_], offer, written));
    in_flight_[(started_ + 1) % kMaxInFlight] = true;
    group_->waiter.Publish(&slot.number, ++started_);
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Begin(const TeamOffer& offer, bool waits, Work work) override {
    if (group_->waiter.ended()) [[unlikely]]
      return FirstFailure();
    const uint64_t number = NumberOf(offer);
    if (number == 0) [[unlikely]]
      return Fail(NotStarted(offer));
    if (waits) {
      Waiter::Deadline deadline;
      MF_RETURN_IF_ERROR(WaitForAll(&Slot::number, number, offer, "started", &deadline));
    } else if (!RanksBelow(&Slot::number, number).empty()) {
      return false;
    }
    MF_RETURN_IF_ERROR(WorkInside(offer, number, work, /*counter=*/nullptr));
    return true;
  }

  absl::Status Access(absl::FunctionRef<absl::Status()> access) override {
    return Inside([&] {
      const absl::Status status = access();
      if (!status.ok()) group_->Abort(WithFailure(status, {.rank = group_->world_ranks[rank_]}));
      return status;
    });
  }

  absl::Status Meet(const TeamOffer& offer, Work work) override {
    return WorkTogether(offer, NumberOf(offer), work, &Slot::met, "carried through its first half");
  }

  absl::Status Finish(const TeamOffer& offer, Work work) override {
    const uint64_t number = NumberOf(offer);
    MF_RETURN_IF_ERROR(WorkTogether(offer, number, work, &Slot::done, "finished"));
    in_flight_[number % kMaxInFlight] = false;
    while (finished_ < started_ && !in_flight_[(finished_ + 1) % kMaxInFlight]) ++finished_;
    return absl::OkStatus();
  }

  absl::Status status() const override { return group_->failure(); }
  void Abort(absl::Status why) override { group_->Abort(why); }

 private:
  using Counter = std::atomic<uint64_t> Slot::*;

  // Returns the slot of `rank` for work `number`.
  const Slot& SlotOf(int rank, uint64_t number) const {
    return group_->state.members[rank].slots[number % kMaxInFlight];
  }

  // Returns the number of the work in flight that this rank has started with `offer`; 0 if none.
  uint64_t NumberOf(const TeamOffer& offer) const {
    for (uint64_t number = finished_ + 1; number <= started_; ++number) {
      const Slot& slot = SlotOf(rank_, number);
      if (slot.work == offer.work && slot.fingerprint == offer.fingerprint &&
          in_flight_[number % kMaxInFlight]) {
        return number;
      }
    }
    return 0;
  }

  absl::Status NotStarted(const TeamOffer& offer) const {
    return absl::FailedPreconditionError(absl::StrCat(offer.work->ToString(), ": rank ",
                                                      group_->world_ranks[rank_],
                                                      " finishes it, but has not started it"));
  }

  absl::Status WriteOffer(const TeamOffer& offer, Slot* slot) {
    const AddressSpace& space = group_->space();
    slot->fingerprint = offer.fingerprint;
    slot->work = offer.work;
    MF_ASSIGN_OR_RETURN(slot->in, ReadablePosition(offer.in, offer.in_bytes));
    MF_ASSIGN_OR_RETURN(slot->right, ReadablePosition(offer.right, offer.right_bytes));
    if (offer.out.size() > kMaxOuts) [[unlikely]] {
      return absl::UnimplementedError(absl::StrCat(offer.work->ToString(), ": expected at most ",
                                                   kMaxOuts, " results, got ", offer.out.size()));
    }
    for (size_t i = 0; i < offer.out.size(); ++i) {
      slot->out[i] = space.PositionOf(offer.out[i]);
      if (slot->out[i] == Position::kPrivate) [[unlikely]] {
        return absl::FailedPreconditionError(
            absl::StrCat(offer.work->ToString(),
                         ": writes memory that other processes cannot access; expected memory "
                         "allocated by the device"));
      }
    }
    return absl::OkStatus();
  }

  // Returns the position of `memory` if other ranks can access it, and otherwise the position of a
  // copy that they can access.
  absl::StatusOr<Position> ReadablePosition(const void* memory, int64_t bytes) {
    const AddressSpace& space = group_->space();
    const Position position = space.PositionOf(memory);
    if (position != Position::kPrivate) [[likely]]
      return position;
    if (bytes == 0) return Position::kNull;
    MF_ASSIGN_OR_RETURN(const std::byte* copy,
                        staging_.Copy(memory, bytes, started_ + 1, finished_));
    return space.PositionOf(copy);
  }

  // Blocks until no rank is inside, including other threads of this rank. Whatever a rank waits for
  // inside ends with the failure, so this wait needs no deadline for ranks of this process. Another
  // process may have been stopped (SIGSTOP). It can access only shared memory, which stays mapped
  // for as long as that process lives, and it must leave before its worker can join the next
  // incarnation. REQUIRES: all waits have ended, so no rank can enter.
  void LetOthersOut() const {
    const auto give_up = group_->LastTimeForOthers();
    for (int rank = 0; rank < size(); ++rank) {
      while (group_->IsInside(rank)) {
        sched_yield();
        if (!group_->IsLocal(rank) && std::chrono::steady_clock::now() > give_up) break;
      }
    }
  }

  // Blocks until no other rank accesses this rank's memory, then returns the first failure.
  absl::Status FirstFailure() const {
    LetOthersOut();
    return group_->failure();
  }

  absl::Status Fail(const absl::Status& why) {
    group_->Abort(why);
    return FirstFailure();
  }

  // Blocks until every rank's counter for work `number` is at least `number`. `what` names that
  // event in errors.
  absl::Status WaitForAll(Counter counter, uint64_t number, const TeamOffer& offer,
                          const char* what, Waiter::Deadline* deadline) {
    for (int rank = 0; rank < size(); ++rank) {
      const Waiter::Outcome outcome =
          group_->waiter.Wait(SlotOf(rank, number).*counter, number, deadline);
      if (outcome == Waiter::Outcome::kReached) [[likely]]
        continue;
      if (outcome == Waiter::Outcome::kTimedOut) {
        const std::vector<int> missing = RanksBelow(counter, number);
        if (missing.empty()) break;  // all ranks arrived at the last moment
        if (group_->IsInside(rank)) {
          // The rank is doing its part, and whatever it waits for inside has its own deadline.
          *deadline = Waiter::Deadline();
          --rank;
          continue;
        }
        Abort(TimedOut(offer, number, what, missing));
      }
      // A rank that was inside may have done its part by now. If it was the last one, other ranks
      // may have returned OK, and so must this rank: work succeeds on all ranks or on none.
      LetOthersOut();
      return RanksBelow(counter, number).empty() ? absl::OkStatus() : FirstFailure();
    }
    return absl::OkStatus();
  }

  // Returns the world ranks whose counter for work `number` is below `number`.
  std::vector<int> RanksBelow(Counter counter, uint64_t number) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < size(); ++rank) {
      if ((SlotOf(rank, number).*counter).load(std::memory_order_acquire) < number) {
        ranks.push_back(group_->world_ranks[rank]);
      }
    }
    return ranks;
  }

  absl::Status TimedOut(const TeamOffer& offer, uint64_t number, const char* what,
                        const std::vector<int>& missing) const {
    return WithRank(
        missing[0], offer,
        absl::DeadlineExceededError(absl::StrCat(
            offer.work->ToString(), ", collective ", number, ": rank ", group_->world_ranks[rank_],
            " timed out after ", absl::FormatDuration(group_->waiter.timeout()), "; expected ",
            size(), " ranks, but the collective was not ", what, " by rank ",
            absl::StrJoin(missing, ", "))));
  }

  // Adds world rank `rank` to the error, as the rank at fault in a piece of work.
  static absl::Status WithRank(int rank, const TeamOffer& offer, absl::Status status) {
    return WithFailure(std::move(status),
                       {.rank = rank, .sequence = offer.sequence, .name = std::string(offer.name)});
  }

  // Adds the work to an error, unless the error already names a collective: such an error is an
  // abort from outside the team.
  absl::Status WithWork(const absl::Status& status, const TeamOffer& offer) const {
    const std::optional<Failure> where = FailureOf(status);
    if (where.has_value() && !where->name.empty()) return status;
    const int self = group_->world_ranks[rank_];
    return WithRank(where.has_value() && where->rank >= 0 ? where->rank : self, offer,
                    Annotate(status, offer.work->ToString()));
  }

  // Calls `access` while this rank is marked as inside. Returns the first failure if `access` or
  // another rank has failed.
  absl::Status Inside(absl::FunctionRef<absl::Status()> access) {
    // Sequentially consistent, as in LetOthersOut: either this rank sees the failure, or the rank
    // that returns it sees that this one is inside and waits.
    self_.inside.fetch_add(1, std::memory_order_seq_cst);
    const bool failed = group_->waiter.ended() || !access().ok();
    self_.inside.fetch_sub(1, std::memory_order_release);
    return failed ? FirstFailure() : absl::OkStatus();
  }

  // Blocks until all ranks have started, calls `work`, and blocks until it has returned on all
  // ranks, as counted by `counter`.
  absl::Status WorkTogether(const TeamOffer& offer, uint64_t number, Work work, Counter counter,
                            const char* what) {
    if (number == 0) [[unlikely]]
      return Fail(NotStarted(offer));
    Waiter::Deadline deadline;
    MF_RETURN_IF_ERROR(WaitForAll(&Slot::number, number, offer, "started", &deadline));
    MF_RETURN_IF_ERROR(WorkInside(offer, number, work, counter));
    return WaitForAll(counter, number, offer, what, &deadline);
  }

  // Calls `work`, then publishes `counter` unless it is null. REQUIRES: all ranks have started.
  absl::Status WorkInside(const TeamOffer& offer, uint64_t number, Work work, Counter counter) {
    return Inside([&]() -> absl::Status {
      absl::Status status = CheckAgreement(offer, number);
      if (status.ok()) {
        LocateMemory(number, offer.out.size());
        status = work(ranks_);
      }
      if (!status.ok()) {
        group_->Abort(WithWork(status, offer));
      } else if (counter != nullptr) {
        group_->waiter.Publish(&(self_.slots[number % kMaxInFlight].*counter), number);
      }
      return status;
    });
  }

  // Sets ranks_ to the memory that the ranks have offered for work `number`.
  void LocateMemory(uint64_t number, size_t num_outs) {
    const AddressSpace& space = group_->space();
    for (int rank = 0; rank < size(); ++rank) {
      const Slot& slot = SlotOf(rank, number);
      for (size_t i = 0; i < num_outs; ++i) outs_[rank][i] = space.AddressOf(slot.out[i]);
      ranks_[rank] = {space.AddressOf(slot.in), space.AddressOf(slot.right),
                      absl::MakeConstSpan(outs_[rank].data(), num_outs)};
    }
  }

  // Returns an error unless all ranks run the same work as rank 0.
  absl::Status CheckAgreement(const TeamOffer& offer, uint64_t number) {
    for (int rank = 0; rank < size(); ++rank) {
      if (SlotOf(rank, number).fingerprint != SlotOf(0, number).fingerprint) [[unlikely]]
        return Difference(rank, offer, number);
    }
    return absl::OkStatus();
  }

  // Returns an error that describes the work of `rank` and rank 0. All ranks call it, because all
  // see the difference, but a rank of another process may call it late if it is still computing.
  absl::Status Difference(int rank, const TeamOffer& offer, uint64_t number) {
    const std::string own = offer.work->ToString();
    own.copy(self_.description, sizeof(self_.description) - 1);
    group_->waiter.Publish(&self_.described, number);
    Waiter::Deadline deadline = Waiter::Clock::now() + kDescriptionTimeout;
    const auto work_of = [&](int other) -> std::string {
      const std::vector<int>& processes = group_->team.processes;
      if (processes[other] == processes[rank_]) return SlotOf(other, number).work->ToString();
      const Member& member = group_->state.members[other];
      const auto outcome = group_->waiter.Wait(member.described, number, &deadline);
      if (outcome != Waiter::Outcome::kReached) return "another collective";
      return std::string(member.description,
                         strnlen(member.description, sizeof(member.description)));
    };
    const std::string text = absl::StrCat("collective ", number, " differs between ranks: rank ",
                                          group_->world_ranks[rank], " runs ", work_of(rank),
                                          ", rank ", group_->world_ranks[0], " runs ", work_of(0));
    return WithRank(group_->world_ranks[rank], offer, absl::InvalidArgumentError(text));
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
  Member& self_;
  Staging staging_;
  uint64_t started_ = 0;
  uint64_t finished_ = 0;                          // all work up to this one is finished
  std::array<bool, kMaxInFlight> in_flight_ = {};  // by slot
  // The memory of each rank, for the current work. Members, so that their capacity is reused.
  std::vector<TeamMemory> ranks_;
  std::vector<std::array<std::byte*, kMaxOuts>> outs_;
};

}  // namespace

size_t TeamStateBytes(int size, int num_processes) {
  return sizeof(Header) + size * sizeof(Member) + num_processes * sizeof(FirstFailure::Text);
}

absl::StatusOr<LocalTeams> CreateThreadTeam(int size, const TeamOptions& options) {
  if (size < 1 || size > kMaxRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("thread team: expected 1 to ", kMaxRanks, " ranks, got ", size));
  }
  ProcessTeam team = {.space = AddressSpace::OfThisProcess(),
                      .processes = std::vector<int>(size, 0)};
  MF_ASSIGN_OR_RETURN(team.state, team.space->Allocate(TeamStateBytes(size, 1)));
  return CreateProcessTeam(team, options);
}

absl::StatusOr<LocalTeams> CreateProcessTeam(const ProcessTeam& team, const TeamOptions& options) {
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat("team: expected a timeout above 0, got ",
                                                   absl::FormatDuration(options.timeout)));
  }
  const auto group = std::make_shared<Group>(team, options);
  LocalTeams members;
  for (int rank = 0; rank < group->size(); ++rank) {
    if (team.processes[rank] != team.space->process()) continue;
    members.push_back(std::make_unique<Team>(group, rank));
  }
  return members;
}

}  // namespace mirrorflow
