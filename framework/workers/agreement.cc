// SPDX-License-Identifier: Apache-2.0
#include "framework/workers/agreement.h"

#include <openssl/sha.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

constexpr size_t kHashBytes = SHA256_DIGEST_LENGTH;

std::string Sha256(absl::string_view bytes) {
  std::string hash(kHashBytes, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

// Returns the index of the first line whose prefix hashes differ.
size_t FirstDifference(absl::string_view a, absl::string_view b) {
  const size_t lines = std::min(a.size(), b.size()) / kHashBytes;
  size_t low = 0, high = lines;
  // Invariant: the prefixes before `low` are equal, and those at or after `high` differ.
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (a.substr(middle * kHashBytes, kHashBytes) == b.substr(middle * kHashBytes, kHashBytes)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::string WorkerAndRanks(const Topology& topology, int worker) {
  const std::vector<int> ranks = topology.RanksOfWorker(worker);
  const std::string numbers = ranks.size() == 1
                                  ? absl::StrCat("rank ", ranks[0])
                                  : absl::StrCat("ranks ", ranks.front(), " to ", ranks.back());
  return absl::StrCat("worker ", worker, " (", numbers, ")");
}

// Returns each worker's last hash. If the wait times out, the error names the missing worker.
absl::StatusOr<std::vector<std::string>> GatherHashes(std::string own, absl::string_view name,
                                                      WorkerGroup& workers,
                                                      MonotonicTime deadline) {
  auto all = workers.AllGather(absl::StrCat("agreement/", name), std::move(own), deadline);
  const std::optional<Failure> failure = FailureOf(all.status());
  if (!absl::IsDeadlineExceeded(all.status()) || !failure.has_value() || failure->worker < 0) {
    return all;
  }
  return WithFailure(
      absl::DeadlineExceededError(absl::StrCat(
          name, ": worker ", failure->worker, " did not arrive, and worker ", workers.worker(),
          " timed out waiting for it; expected all workers to prepare and run the same steps")),
      {.worker = failure->worker, .name = std::string(name)});
}

}  // namespace

void Agreement::Add(absl::string_view what, absl::string_view value) {
  lines_.push_back(absl::StrCat(what, " = ", value));
}

void Agreement::AddText(absl::string_view text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    lines_.emplace_back(line);
  }
}

std::string Agreement::PrefixHashes() const {
  std::string hashes, last;
  hashes.reserve(lines_.size() * kHashBytes);
  for (const std::string& line : lines_) {
    last = Sha256(absl::StrCat(last, line));
    hashes += last;
  }
  return hashes;
}

absl::Status Agree(const Agreement& own, absl::string_view name, const Topology& topology,
                   WorkerGroup& workers, MonotonicTime deadline) {
  const std::string hashes = own.PrefixHashes();
  const std::string last = hashes.substr(hashes.size() - std::min(hashes.size(), kHashBytes));
  const int self = workers.worker();
  MF_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                      GatherHashes(last, name, workers, deadline));
  // Worker 0 is the reference. All workers find the same deviating worker and return the same
  // error.
  const auto differs =
      std::ranges::find_if(all, [&](const std::string& hash) { return hash != all.front(); });
  if (differs == all.end()) return absl::OkStatus();
  const int odd = static_cast<int>(differs - all.begin());

  const auto key = [&](absl::string_view what, int worker) {
    return absl::StrCat("agreement/", name, "/", what, "/", worker);
  };
  const auto get = [&](absl::string_view what, int worker) {
    return workers.Get(key(what, worker), deadline);
  };
  if (self == 0 || self == odd) {
    MF_RETURN_IF_ERROR(workers.Put(key("hashes", self), hashes, deadline));
  }
  MF_ASSIGN_OR_RETURN(const std::string of_first, get("hashes", 0));
  MF_ASSIGN_OR_RETURN(const std::string of_odd, get("hashes", odd));
  const size_t line = FirstDifference(of_first, of_odd);
  if (self == 0 || self == odd) {
    const std::string text = line < own.lines().size() ? own.lines()[line] : "nothing more";
    MF_RETURN_IF_ERROR(workers.Put(key("line", self), text, deadline));
  }
  MF_ASSIGN_OR_RETURN(const std::string line_of_first, get("line", 0));
  MF_ASSIGN_OR_RETURN(const std::string line_of_odd, get("line", odd));
  return WithFailure(
      absl::InvalidArgumentError(absl::StrCat(
          name, ": workers differ; ", WorkerAndRanks(topology, 0), " has `", line_of_first, "`, ",
          WorkerAndRanks(topology, odd), " has `", line_of_odd, "`")),
      {.rank = topology.RanksOfWorker(odd)[0], .worker = odd, .name = std::string(name)});
}

}  // namespace mirrorflow
