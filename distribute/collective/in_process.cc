// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/in_process.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "distribute/collective/check_collective.h"
#include "distribute/collective/waiter.h"
#include "framework/core/status.h"
#include "framework/runtime/reduce_in_rank_order.h"

namespace mirrorflow {
namespace {

constexpr int64_t kLineBytes = 64;
constexpr int64_t kPieceBytes = 16 << 10;  // of an update: a part of a small L1
constexpr int kMaxRanks = 1024;            // each is a thread

// What one rank says to the others about one collective. The number comes first, in the line that
// the others poll, and with it the fields that they need next.
struct alignas(kLineBytes) Slot {
  std::atomic<uint64_t> number{0};  // of the collective that this slot describes, counted from 1
  Collective collective;            // written before `number`, read after it
};

// Written by one rank, read by all.
struct Member {
  Slot slots[Communicator::kMaxInFlight];
  alignas(kLineBytes) std::atomic<uint64_t> done{0};  // collectives of which its share is done
  // While set, this rank may touch the memory of the others. Not polled but after a failure.
  alignas(kLineBytes) std::atomic<bool> inside{false};
};

// What the ranks share.
struct Group {
  Group(int world_size, absl::Duration timeout)
      : members(world_size), splits(world_size), waiter(world_size, timeout) {}

  std::vector<Member> members;
  // The group that a Split has made on that rank, for the others to take.
  std::vector<std::shared_ptr<Group>> splits;
  Waiter waiter;
};

// Where the elements of `rank` begin in what is gathered or scattered.
int64_t FirstOf(int rank, absl::Span<const int64_t> counts) {
  int64_t first = 0;
  for (const int64_t count : counts.first(rank)) first += count;
  return first;
}

void Copy(const void* from, void* to, int64_t bytes) {
  if (bytes > 0 && from != to) std::memcpy(to, from, bytes);
}

const void* Skip(const void* memory, int64_t bytes) {
  return static_cast<const std::byte*>(memory) + bytes;
}
void* Skip(void* memory, int64_t bytes) { return static_cast<std::byte*>(memory) + bytes; }

class InProcessCommunicator final : public Communicator {
 public:
  InProcessCommunicator(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)),
        rank_(rank),
        self_(group_->members[rank]),
        ins_(group_->members.size()),
        parts_(group_->members.size()),
        outs_(group_->members.size()) {}

  ~InProcessCommunicator() override {
    // The others cannot go on without this rank, and must let go of what it has started.
    Fail(absl::AbortedError(absl::StrCat("rank ", rank_, " has left its communicator")))
        .IgnoreError();
  }

  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(group_->members.size()); }

  absl::Status Start(const Collective& collective, Lane*) override {
    if (group_->waiter.aborted()) [[unlikely]]
      return Failure();
    absl::Status status = CheckCollective(collective, rank_, world_size());
    if (!status.ok()) [[unlikely]]
      return Fail(std::move(status));
    if (started_ - finished_ == kMaxInFlight) [[unlikely]] {
      return Fail(absl::ResourceExhaustedError(absl::StrCat(CollectiveToString(collective),
                                                            ": too many in flight on rank ", rank_,
                                                            "; expected at most ", kMaxInFlight)));
    }
    // The slot is free: all ranks were done with what it described before that was finished.
    Slot& slot = OwnSlot(started_);
    slot.collective = collective;
    group_->waiter.Publish(&slot.number, ++started_);
    return absl::OkStatus();
  }

  absl::Status Finish(const Collective& collective, Lane*) override {
    if (!IsNext(collective)) [[unlikely]] {
      return Fail(absl::FailedPreconditionError(
          absl::StrCat(CollectiveToString(collective), ": rank ", rank_,
                       " finishes it; expected the first that it has started and not finished")));
    }
    const uint64_t number = finished_ + 1;
    const auto started = [&](int rank) -> const std::atomic<uint64_t>& {
      return SlotOf(rank, finished_).number;
    };
    const auto done = [&](int rank) -> const std::atomic<uint64_t>& {
      return group_->members[rank].done;
    };
    Waiter::Deadline deadline;
    MF_RETURN_IF_ERROR(WaitForAll(started, number, "started", &deadline));
    MF_RETURN_IF_ERROR(WorkInside());
    MF_RETURN_IF_ERROR(WaitForAll(done, number, "finished", &deadline));
    finished_ = number;
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    if (started_ != finished_) {
      return Fail(absl::FailedPreconditionError(
          absl::StrCat("split: rank ", rank_, " has ", started_ - finished_,
                       " collectives in flight; expected none")));
    }
    const int64_t own[] = {color, key};
    const std::vector<int64_t> counts(world_size(), 2);
    std::vector<int64_t> choices(2 * world_size());
    Collective exchange{.kind = CollectiveKind::kAllGather, .dtype = DT_INT64, .name = "split"};
    exchange.in = own;
    exchange.out = choices.data();
    exchange.counts = counts;
    MF_RETURN_IF_ERROR(Run(exchange));

    std::vector<std::pair<int64_t, int>> chosen;  // (key, rank)
    for (int rank = 0; rank < world_size(); ++rank) {
      if (choices[2 * rank] == color) chosen.emplace_back(choices[2 * rank + 1], rank);
    }
    std::sort(chosen.begin(), chosen.end());
    const int maker = chosen[0].second;
    // Nobody reads what an earlier Split left here: all ranks have come to this one's exchange.
    if (rank_ == maker) {
      group_->splits[maker] = std::make_shared<Group>(chosen.size(), group_->waiter.timeout());
    }
    MF_RETURN_IF_ERROR(Run({.kind = CollectiveKind::kBarrier, .name = "split"}));
    const auto place = std::find(chosen.begin(), chosen.end(), std::make_pair(int64_t{key}, rank_));
    return std::make_unique<InProcessCommunicator>(group_->splits[maker],
                                                   static_cast<int>(place - chosen.begin()));
  }

  void Abort(absl::Status why) override { group_->waiter.Abort(std::move(why)); }

 private:
  const Slot& SlotOf(int rank, uint64_t index) const {
    return group_->members[rank].slots[index % kMaxInFlight];
  }
  Slot& OwnSlot(uint64_t index) { return self_.slots[index % kMaxInFlight]; }

  // Returns when no other rank is inside. None waits in there, so this needs no deadline.
  // REQUIRES: aborted, so that none enters any more.
  void LetOthersOut() const {
    for (const Member& member : group_->members) {
      if (&member == &self_) continue;
      while (member.inside.load(std::memory_order_seq_cst)) sched_yield();
    }
  }

  // What the group was aborted with, when nobody touches this rank's memory any more.
  absl::Status Failure() const {
    LetOthersOut();
    return group_->waiter.failure();
  }

  absl::Status Fail(absl::Status why) {
    Abort(std::move(why));
    return Failure();
  }

  bool IsNext(const Collective& collective) const {
    if (finished_ == started_) return false;
    const Collective& next = SlotOf(rank_, finished_).collective;
    return collective.kind == next.kind && collective.in == next.in && collective.out == next.out &&
           collective.name == next.name;
  }

  // Waits until the counter of every rank is `number`. `what` is what a rank has done then.
  template <typename CounterOf>
  absl::Status WaitForAll(CounterOf counter_of, uint64_t number, const char* what,
                          Waiter::Deadline* deadline) {
    for (int rank = 0; rank < world_size(); ++rank) {
      const Waiter::Outcome outcome = group_->waiter.Wait(counter_of(rank), number, deadline);
      if (outcome == Waiter::Outcome::kReached) [[likely]]
        continue;
      if (outcome == Waiter::Outcome::kTimedOut) {
        const std::vector<int> missing = RanksBelow(counter_of, number);
        if (missing.empty()) break;  // they came at the last moment
        Abort(TimedOut(what, missing));
      }
      // Who was inside has meanwhile done its share. If it was the last one, others may have
      // returned OK, and so must this rank: a collective succeeds on all ranks or on none.
      LetOthersOut();
      return RanksBelow(counter_of, number).empty() ? absl::OkStatus() : Failure();
    }
    return absl::OkStatus();
  }

  template <typename CounterOf>
  std::vector<int> RanksBelow(CounterOf counter_of, uint64_t number) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < world_size(); ++rank) {
      if (counter_of(rank).load(std::memory_order_acquire) < number) ranks.push_back(rank);
    }
    return ranks;
  }

  absl::Status TimedOut(const char* what, const std::vector<int>& missing) const {
    return absl::DeadlineExceededError(
        absl::StrCat(CollectiveToString(SlotOf(rank_, finished_).collective), ", collective ",
                     finished_ + 1, ": rank ", rank_, " timed out after ",
                     absl::FormatDuration(group_->waiter.timeout()), "; expected ", world_size(),
                     " ranks, not ", what, " by rank ", absl::StrJoin(missing, ", ")));
  }

  // This rank's share of the collective that all ranks have started.
  absl::Status WorkInside() {
    // Sequentially consistent, as in LetOthersOut: either this rank sees the failure, or who
    // returns it sees that this rank is inside and waits.
    self_.inside.store(true, std::memory_order_seq_cst);
    bool failed = group_->waiter.aborted();
    if (!failed) {
      const int odd_one = FindDisagreement();
      failed = odd_one >= 0;
      if (failed) {
        group_->waiter.Abort(Disagreement(odd_one));
      } else {
        Compute();
        group_->waiter.Publish(&self_.done, finished_ + 1);
      }
    }
    self_.inside.store(false, std::memory_order_release);
    return failed ? Failure() : absl::OkStatus();
  }

  // The first rank whose collective is another than rank 0's, or -1.
  int FindDisagreement() const {
    const Collective& first = SlotOf(0, finished_).collective;
    for (int rank = 1; rank < world_size(); ++rank) {
      if (!SameCollective(first, SlotOf(rank, finished_).collective)) return rank;
    }
    return -1;
  }

  absl::Status Disagreement(int rank) const {
    return absl::InvalidArgumentError(
        absl::StrCat("collective ", finished_ + 1, " differs between ranks: rank ", rank, " runs ",
                     CollectiveToString(SlotOf(rank, finished_).collective), ", rank 0 ",
                     CollectiveToString(SlotOf(0, finished_).collective)));
  }

  void Compute() {
    const Collective& own = SlotOf(rank_, finished_).collective;
    const int64_t element = static_cast<int64_t>(DataTypeSize(own.dtype));
    switch (own.kind) {
      case CollectiveKind::kAllReduce: {
        const auto [first, count] = ShareOf(own.count, element);
        for (int rank = 0; rank < world_size(); ++rank) {
          const Collective& other = SlotOf(rank, finished_).collective;
          ins_[rank] = Skip(other.in, first * element);
          outs_[rank] = Skip(other.out, first * element);
        }
        return ReduceInRankOrder(own.reduction, own.dtype, ins_, absl::MakeSpan(outs_), count);
      }
      case CollectiveKind::kUpdate:
        return Update(own, element);
      case CollectiveKind::kUpdateByProduct:
        return UpdateByProduct(own);
      case CollectiveKind::kReduceScatter: {
        const int64_t first = FirstOf(rank_, own.counts);
        for (int rank = 0; rank < world_size(); ++rank) {
          ins_[rank] = Skip(SlotOf(rank, finished_).collective.in, first * element);
        }
        return ReduceInRankOrder(own.reduction, own.dtype, ins_, {&own.out, 1}, own.counts[rank_]);
      }
      case CollectiveKind::kAllGather: {
        int64_t first = 0;
        for (int rank = 0; rank < world_size(); ++rank) {
          Copy(SlotOf(rank, finished_).collective.in, Skip(own.out, first * element),
               own.counts[rank] * element);
          first += own.counts[rank];
        }
        return;
      }
      case CollectiveKind::kBroadcast:
        return Copy(SlotOf(own.root, finished_).collective.in, own.out, own.count * element);
      case CollectiveKind::kBarrier:
        return;
    }
  }

  // Piece by piece, so that what is reduced and what is updated is in the cache when it is used.
  void Update(const Collective& own, int64_t element) {
    alignas(kLineBytes) std::byte reduced[kPieceBytes];
    void* const out = reduced;
    const int64_t per_piece = kPieceBytes / element;
    const auto [first, count] = ShareOf(own.count, element);
    for (int64_t at = first; at < first + count; at += per_piece) {
      const int64_t n = std::min(per_piece, first + count - at);
      for (int rank = 0; rank < world_size() && !own.is_whole; ++rank) {
        ins_[rank] = Skip(SlotOf(rank, finished_).collective.in, at * element);
      }
      if (!own.is_whole) ReduceInRankOrder(own.reduction, own.dtype, ins_, {&out, 1}, n);
      own.update->Run(at, own.is_whole ? Skip(own.in, at * element) : out, n);
      CopyToOthers(own, at * element, n * element);
    }
  }

  void UpdateByProduct(const Collective& own) {
    for (int rank = 0; rank < world_size(); ++rank) {
      const Collective& other = SlotOf(rank, finished_).collective;
      parts_[rank] = {other.in, other.right, own.counts[rank]};
    }
    constexpr int64_t kTogether = 4;  // rows; products like to work on more than one
    const auto first_of = [&](int rank) {
      return rank == world_size() ? own.rows
                                  : own.rows * rank / world_size() / kTogether * kTogether;
    };
    const int64_t first = first_of(rank_), last = first_of(rank_ + 1);
    own.product_update->Run(parts_, first, last);
    CopyToOthers(own, first * own.row_bytes, (last - first) * own.row_bytes);
  }

  // What this rank has written to its variables, unless they are those of the others.
  void CopyToOthers(const Collective& own, int64_t first, int64_t bytes) const {
    for (int rank = 0; rank < world_size(); ++rank) {
      const Collective& other = SlotOf(rank, finished_).collective;
      for (size_t v = 0; v < own.variables.size(); ++v) {
        Copy(own.variables[v] + first, other.variables[v] + first, bytes);
      }
    }
  }

  // The elements of a reduction that this rank works off: whole lines, as even as they go.
  std::pair<int64_t, int64_t> ShareOf(int64_t count, int64_t element) const {
    const int64_t per_line = kLineBytes / element;
    const int64_t lines = (count + per_line - 1) / per_line;
    const int64_t first = lines * rank_ / world_size() * per_line;
    const int64_t end = std::min(count, lines * (rank_ + 1) / world_size() * per_line);
    return {first, end - first};
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
  Member& self_;
  uint64_t started_ = 0;
  uint64_t finished_ = 0;
  // The memory of each rank in the collective at hand; here because its size is not known.
  std::vector<const void*> ins_;
  std::vector<ProductRows> parts_;
  std::vector<void*> outs_;
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> CreateInProcessCommunicators(
    int world_size, const InProcessOptions& options) {
  if (world_size < 1 || world_size > kMaxRanks) {
    return absl::InvalidArgumentError(absl::StrCat("in-process communicators: expected 1 to ",
                                                   kMaxRanks, " ranks, got ", world_size));
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("in-process communicators: expected a timeout above 0, got ",
                     absl::FormatDuration(options.timeout)));
  }
  const auto group = std::make_shared<Group>(world_size, options.timeout);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < world_size; ++rank) {
    communicators.push_back(std::make_unique<InProcessCommunicator>(group, rank));
  }
  return communicators;
}

}  // namespace mirrorflow
