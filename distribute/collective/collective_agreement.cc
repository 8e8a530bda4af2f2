// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/collective_agreement.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "distribute/collective/check_collective.h"
#include "framework/core/hash.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

std::string Describe(const Collective& c, absl::string_view how) {
  return absl::StrCat(
      CollectiveToString(c), how.empty() ? "" : ", ", how,
      c.sequence >= 0 ? absl::StrCat(", collective ", c.sequence, " of its step") : "");
}

// A text and the ranks that have it: `rank 0 has X; ranks 1, 2 have Y`.
class Positions {
 public:
  void Add(int rank, const std::string& text) {
    const auto same = std::find_if(ranks_.begin(), ranks_.end(),
                                   [&](const auto& entry) { return entry.first == text; });
    if (same != ranks_.end()) return same->second.push_back(rank);
    ranks_.push_back({text, {rank}});
  }
  bool all_equal() const { return ranks_.size() == 1; }
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

// `odd`: a rank that differs from the first one. `c` is that of this rank.
absl::Status Differ(uint64_t number, const Positions& positions, int odd, const Collective& c) {
  const std::string what =
      positions.all_equal()
          ? absl::StrCat("ranks differ before collective ", number, " since they connected, where ")
          : absl::StrCat("ranks differ at collective ", number, " since they connected: ");
  return WithFailure(absl::InvalidArgumentError(absl::StrCat(what, positions.ToString())),
                     {.rank = odd, .sequence = c.sequence, .name = std::string(c.name)});
}

}  // namespace

CollectiveAgreement::CollectiveAgreement(const Topology& topology,
                                         absl::Span<const int> local_ranks, WorkerGroup* workers)
    : topology_(topology),
      local_ranks_(local_ranks.begin(), local_ranks.end()),
      workers_(workers),
      positions_(local_ranks.size()),
      firsts_(local_ranks.size() > 1 ? kRemembered : 0) {}

absl::Status CollectiveAgreement::Check(int r, const Collective& collective, absl::string_view how,
                                        MonotonicTime deadline) {
  Position& at = positions_[r];
  ++at.number;
  at.hash = StableHasher()
                .Add(static_cast<int64_t>(at.hash))
                .Add(static_cast<int64_t>(Fingerprint(collective)))
                .Add(int64_t{collective.sequence})
                .Add(how)
                .hash();
  const bool one_by_one = at.number <= kOneByOne;
  const bool between_workers =
      r == 0 && topology_.num_workers() > 1 && (one_by_one || at.number % kInterval == 0);
  // Steps of a program that has run for a while build no strings.
  std::string text;
  if (one_by_one || between_workers) text = Describe(collective, how);
  if (local_ranks_.size() > 1) {
    MF_RETURN_IF_ERROR(CompareRanks(local_ranks_[r], at, collective, text));
  }
  return between_workers ? CompareWorkers(at, collective, text, deadline) : absl::OkStatus();
}

absl::Status CollectiveAgreement::CompareRanks(int rank, const Position& at, const Collective& c,
                                               const std::string& text) {
  MutexLock lock(&mu_);
  First& first = firsts_[at.number % kRemembered];
  if (first.position.number < at.number) {
    first.position = at;
    first.rank = rank;
    first.text = text;
    if (text.empty()) absl::StrAppend(&first.text, "'", c.name, "'");
    return absl::OkStatus();
  }
  if (first.position.number > at.number || first.position.hash == at.hash) return absl::OkStatus();
  const std::string own = text.empty() ? absl::StrCat("'", c.name, "'") : text;
  Positions positions;
  positions.Add(std::min(first.rank, rank), first.rank < rank ? first.text : own);
  positions.Add(std::max(first.rank, rank), first.rank < rank ? own : first.text);
  return Differ(at.number, positions, std::max(first.rank, rank), c);
}

// Names the missing worker and the collective, unless another worker has reported a failure, which
// names its place.
absl::Status CollectiveAgreement::WhyNotCompared(const absl::Status& why, const Position& at,
                                                 const Collective& c,
                                                 const std::string& text) const {
  const std::optional<Failure> failure = FailureOf(why);
  if (!absl::IsDeadlineExceeded(why) || !failure || failure->worker < 0 || !failure->name.empty()) {
    return why;
  }
  const int late = FirstRank(failure->worker);
  return WithFailure(absl::DeadlineExceededError(absl::StrCat(
                         "rank ", late, " has not come to collective ", at.number,
                         " since they connected, where ", "rank ", FirstRank(workers_->worker()),
                         " has ", text, "; the last one known of rank ", late, ": ", last_text_)),
                     {.rank = late,
                      .worker = failure->worker,
                      .sequence = c.sequence,
                      .name = std::string(c.name)});
}

absl::Status CollectiveAgreement::CompareWorkers(const Position& at, const Collective& c,
                                                 const std::string& text, MonotonicTime deadline) {
  const auto values = workers_->AllGather(absl::StrCat("collective ", at.number),
                                          absl::StrCat(at.hash, " ", text), deadline);
  if (!values.ok()) return WhyNotCompared(values.status(), at, c, text);
  Positions positions;
  uint64_t hash_of_first = 0;
  int odd = -1;
  for (int worker = 0; worker < workers_->num_workers(); ++worker) {
    uint64_t hash;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit((*values)[worker], absl::MaxSplits(' ', 1));
    if (!absl::SimpleAtoi(parts.first, &hash)) {
      return absl::InternalError(absl::StrCat("collective of worker ", worker,
                                              ": expected a number, got '", parts.first, "'"));
    }
    if (worker == 0) hash_of_first = hash;
    if (hash != hash_of_first && odd < 0) odd = worker;
    positions.Add(FirstRank(worker), std::string(parts.second));
  }
  if (odd >= 0) return Differ(at.number, positions, FirstRank(odd), c);
  last_text_ = text;
  return absl::OkStatus();
}

}  // namespace mirrorflow
