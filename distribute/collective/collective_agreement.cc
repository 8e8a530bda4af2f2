// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/collective_agreement.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distribute/collective/check_collective.h"
#include "framework/core/hash.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"
#include "framework/workers/agreement.h"

namespace mirrorflow {
namespace {

std::string Describe(const Collective& c, absl::string_view how) {
  return absl::StrCat(
      CollectiveToString(c), how.empty() ? "" : ", ", how,
      c.sequence >= 0 ? absl::StrCat(", collective ", c.sequence, " of its step") : "");
}

// Groups ranks by what they have: `rank 0 has X; ranks 1, 2 have Y`.
class Positions {
 public:
  void Add(int rank, const std::string& text) {
    const auto same =
        std::ranges::find(ranks_, text, &std::pair<std::string, std::vector<int>>::first);
    if (same != ranks_.end()) return same->second.push_back(rank);
    ranks_.push_back({text, {rank}});
  }
  std::string ToString() const {
    return absl::StrJoin(ranks_, "; ", [](std::string* out, const auto& entry) {
      const bool one = entry.second.size() == 1;
      absl::StrAppend(out, one ? "rank " : "ranks ", absl::StrJoin(entry.second, ", "),
                      one ? " has " : " have ", entry.first);
    });
  }

 private:
  std::vector<std::pair<std::string, std::vector<int>>> ranks_;  // in the order of Add
};

// `odd` is a rank that differs from the first one; `c` is this rank's collective.
absl::Status Differ(uint64_t number, const Positions& positions, int odd, const Collective& c) {
  return WithFailure(
      absl::InvalidArgumentError(absl::StrCat("ranks differ at collective ", number,
                                              " since they connected: ", positions.ToString())),
      {.rank = odd, .sequence = c.sequence, .name = std::string(c.name)});
}

uint64_t HashOf(const Collective& c, absl::string_view how) {
  return StableHasher()
      .Add(static_cast<int64_t>(Fingerprint(c)))
      .Add(int64_t{c.sequence})
      .Add(how)
      .hash();
}

uint64_t Combine(uint64_t a, uint64_t b) {
  return StableHasher().Add(static_cast<int64_t>(a)).Add(static_cast<int64_t>(b)).hash();
}

}  // namespace

CollectiveAgreement::CollectiveAgreement(const Topology& topology,
                                         absl::Span<const int> local_ranks, WorkerGroup* workers)
    : topology_(topology),
      local_ranks_(local_ranks.begin(), local_ranks.end()),
      workers_(workers),
      positions_(local_ranks.size()),
      firsts_(local_ranks.size() > 1 ? kRemembered : 0) {}

void CollectiveAgreement::BeginStep(int r) {
  if (r != 0) return;
  // A replayed step starts none of the announced collectives, and they may no longer exist.
  if (!announced_.empty() && positions_[0].number > begin_ && left_out_.ok()) {
    size_t left = 0;
    for (const Announced& list : announced_) left += list.collectives.size() - list.next;
    const int rank = FirstRank(workers_->worker());
    left_out_ = WithFailure(
        absl::InvalidArgumentError(absl::StrCat(
            "ranks differ at collective ", positions_[0].number + 1, " since they connected: rank ",
            rank, " has ended its step without starting ", left, " announced collectives")),
        {.rank = rank});
  }
  announced_.clear();
  begin_ = positions_[0].number;
}

void CollectiveAgreement::Announce(int r, absl::Span<const Collective* const> collectives) {
  if (r == 0 && topology_.num_workers() > 1 && !collectives.empty()) {
    announced_.push_back({.collectives = collectives});
  }
}

absl::Status CollectiveAgreement::Check(int r, const Collective& collective, absl::string_view how,
                                        MonotonicTime deadline) {
  Position& at = positions_[r];
  const Position before = at;
  ++at.number;
  at.hash = Combine(at.hash, HashOf(collective, how));
  if (local_ranks_.size() > 1) {
    MF_RETURN_IF_ERROR(CompareRanks(local_ranks_[r], at, collective, how));
  }
  if (r != 0 || topology_.num_workers() == 1) return absl::OkStatus();
  MF_RETURN_IF_ERROR(left_out_);
  const bool is_announced = !announced_.empty();
  MF_RETURN_IF_ERROR(CheckAnnounced(before, collective, how, deadline));
  const bool is_due = !is_announced || (at.number < kInterval ? std::has_single_bit(at.number)
                                                              : at.number % kInterval == 0);
  const Collective* const next[] = {&collective};
  return is_due ? CompareWorkers(before, next, how, deadline) : absl::OkStatus();
}

absl::Status CollectiveAgreement::CompareRanks(int rank, const Position& at, const Collective& c,
                                               absl::string_view how) {
  const auto text = [&] {
    return at.number <= kDescribed ? Describe(c, how) : absl::StrCat("'", c.name, "'");
  };
  MutexLock lock(&mu_);
  First& first = firsts_[at.number % kRemembered];
  if (first.position.number < at.number) {
    first.position = at;
    first.rank = rank;
    first.text = text();
    return absl::OkStatus();
  }
  if (first.position.number > at.number || first.position.hash == at.hash) return absl::OkStatus();
  Positions positions;
  positions.Add(std::min(first.rank, rank), first.rank < rank ? first.text : text());
  positions.Add(std::max(first.rank, rank), first.rank < rank ? text() : first.text);
  return Differ(at.number, positions, std::max(first.rank, rank), c);
}

absl::Status CollectiveAgreement::CheckAnnounced(const Position& before, const Collective& c,
                                                 absl::string_view how, MonotonicTime deadline) {
  if (announced_.empty()) return absl::OkStatus();
  Announced& list = announced_.back();
  if (list.next == 0) {
    list.how = std::string(how);
    uint64_t hash = 0;
    for (const Collective* announced : list.collectives) {
      hash = Combine(hash, HashOf(*announced, how));
    }
    if (!agreed_.contains(hash)) {
      MF_RETURN_IF_ERROR(CompareWorkers(before, list.collectives, how, deadline));
      agreed_.insert(hash);
    }
  }
  const Collective& expected = *list.collectives[list.next];
  if (HashOf(c, how) != HashOf(expected, list.how)) {
    return DiffersFromAnnounced(before.number + 1, expected, list.how, Describe(c, how));
  }
  if (++list.next == list.collectives.size()) announced_.pop_back();
  return absl::OkStatus();
}

absl::Status CollectiveAgreement::DiffersFromAnnounced(uint64_t number, const Collective& expected,
                                                       absl::string_view how,
                                                       const std::string& own) const {
  Positions positions;
  for (int worker = 0; worker < workers_->num_workers(); ++worker) {
    const bool is_own = worker == workers_->worker();
    positions.Add(FirstRank(worker), is_own ? own : Describe(expected, how));
  }
  return Differ(number, positions, FirstRank(workers_->worker()), expected);
}

absl::Status CollectiveAgreement::CompareWorkers(const Position& before,
                                                 absl::Span<const Collective* const> next,
                                                 absl::string_view how, MonotonicTime deadline) {
  Agreement own;
  uint64_t number = before.number;
  for (const Collective* c : next) {
    own.Add(absl::StrCat("collective ", ++number, " since they connected"), Describe(*c, how));
  }
  own.Add(absl::StrCat("hash of the ", before.number, " earlier collectives"),
          absl::StrCat(absl::Hex(before.hash)));
  return Agree(own, absl::StrCat("comparison ", comparisons_++, " of collectives"), topology_,
               *workers_, deadline);
}

}  // namespace mirrorflow
