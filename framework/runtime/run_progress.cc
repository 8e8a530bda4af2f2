// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/run_progress.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace mirrorflow {

CollectiveLog::Wait::Wait(CollectiveLog& log)
    : log_(log),
      is_timed_(!log.works_ahead_ && log.times_waits_.load(std::memory_order_relaxed)),
      began_(is_timed_ ? MonotonicTime::Now() : MonotonicTime()) {
  log.waiting_.store(true, std::memory_order_relaxed);
}

CollectiveLog::Wait::~Wait() {
  log_.waiting_.store(false, std::memory_order_relaxed);
  if (!is_timed_) return;
  const int64_t ns = absl::ToInt64Nanoseconds(MonotonicTime::Now() - began_);
  log_.waited_ns_.store(log_.waited_ns_.load(std::memory_order_relaxed) + ns,
                        std::memory_order_relaxed);
}

void CollectiveLog::Start(int sequence, absl::string_view name) {
  const uint64_t number = started_.load(std::memory_order_relaxed) + 1;
  Record& record = records_[number % kSize];
  record.step.store(step_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  record.sequence.store(sequence, std::memory_order_relaxed);
  uint64_t words[std::tuple_size_v<decltype(record.name)>] = {};
  std::memcpy(words, name.data(), std::min(name.size(), sizeof(words) - 1));
  for (size_t i = 0; i < std::size(words); ++i) {
    record.name[i].store(words[i], std::memory_order_relaxed);
  }
  started_.store(number, std::memory_order_release);
}

std::vector<CollectiveLog::Entry> CollectiveLog::Latest() const {
  const uint64_t last = started();
  std::vector<Entry> entries;
  for (uint64_t n = last < kSize ? 1 : last - kSize + 1; n <= last; ++n) {
    const Record& record = records_[n % kSize];
    char name[sizeof(record.name) + 1] = {};
    for (size_t i = 0; i < record.name.size(); ++i) {
      const uint64_t word = record.name[i].load(std::memory_order_relaxed);
      std::memcpy(name + i * sizeof(word), &word, sizeof(word));
    }
    entries.push_back({.number = n,
                       .step = record.step.load(std::memory_order_relaxed),
                       .sequence = record.sequence.load(std::memory_order_relaxed),
                       .name = name,
                       .finished = n <= finished()});
  }
  return entries;
}

RunProgress::RunProgress(int num_replicas) {
  for (int r = 0; r < num_replicas; ++r) logs_.push_back(std::make_shared<CollectiveLog>());
}

RunProgress::Run::Run(RunProgress& progress, uint64_t step)
    : progress_(progress),
      is_timed_(progress.times_runs_.load(std::memory_order_relaxed)),
      began_(is_timed_ ? MonotonicTime::Now() : MonotonicTime()) {
  progress.step_.store(step, std::memory_order_relaxed);
  progress.runs_.store(progress.runs_.load(std::memory_order_relaxed) + 1,
                       std::memory_order_relaxed);
  progress.running_.store(true, std::memory_order_release);
}

RunProgress::Run::~Run() {
  if (is_timed_) {
    const int64_t ns = absl::ToInt64Nanoseconds(MonotonicTime::Now() - began_);
    progress_.in_runs_ns_.store(progress_.in_runs_ns_.load(std::memory_order_relaxed) + ns,
                                std::memory_order_relaxed);
  }
  progress_.running_.store(false, std::memory_order_release);
}

const CollectiveLog& RunProgress::slowest_log() const {
  return **absl::c_min_element(
      logs_, [](const auto& a, const auto& b) { return a->started() < b->started(); });
}

bool RunProgress::slowest_may_wait() const {
  const auto slowest = absl::c_min_element(logs_, [](const auto& a, const auto& b) {
    return std::tuple(a->started(), a->finished(), a->may_wait()) <
           std::tuple(b->started(), b->finished(), b->may_wait());
  });
  return (*slowest)->may_wait();
}

void RunProgress::TimeRunsAndWaits() {
  times_runs_.store(true, std::memory_order_relaxed);
  for (const auto& log : logs_) log->TimeWaits();
}

absl::Duration RunProgress::waited() const {
  absl::Duration total;
  for (const auto& log : logs_) total += log->waited();
  return total / static_cast<int64_t>(logs_.size());
}

std::string RunProgress::Position::ToString() const {
  const std::string where = step == 0 ? std::string("before the first step")
                                      : absl::StrCat(running ? "in step " : "after step ", step);
  return running && !collective.empty() ? absl::StrCat(where, ", collective ", collective) : where;
}

RunProgress::Position RunProgress::position() const {
  const CollectiveLog& log = slowest_log();
  const std::vector<CollectiveLog::Entry> latest = log.Latest();
  return {.running = running_.load(std::memory_order_acquire),
          .runs = runs_.load(std::memory_order_relaxed),
          .collectives = latest.empty() ? 0 : latest.back().number,
          .finished = log.finished(),
          .step = step_.load(std::memory_order_relaxed),
          .collective = latest.empty() ? "" : latest.back().name};
}

}  // namespace mirrorflow
