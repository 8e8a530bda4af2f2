// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/monitoring/run_monitor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/state_report.h"
#include "framework/core/terminal.h"
#include "train/trainer/monitoring/prometheus_text.h"

namespace mirrorflow {
namespace {

// The maximum length of a failure message, which could otherwise fill a page.
constexpr size_t kMaxFailureBytes = 500;
constexpr char kWaiting[] = "waiting: ";
// How long StateText() is cached.
constexpr absl::Duration kStateInterval = absl::Seconds(1);

// Returns the process's resident memory in bytes, or 0 if it cannot be read.
double ResidentBytes() {
  long pages = 0;
  FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
  std::fclose(file);
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

PrometheusText::Labels LabelsOf(const RunMonitor::Options& options) {
  PrometheusText::Labels labels;
  if (!options.job.empty()) labels.emplace_back("job", options.job);
  labels.emplace_back("worker", absl::StrCat(options.worker));
  return labels;
}

HttpReply YesUnless(const std::string& why) {
  if (why.empty()) return {.body = "ok\n"};
  return {.code = 503, .body = absl::StrCat(why, "\n")};
}

bool IsSame(const RunProgress::Position& a, const RunProgress::Position& b) {
  return std::tie(a.running, a.runs, a.collectives, a.finished) ==
         std::tie(b.running, b.runs, b.collectives, b.finished);
}

}  // namespace

RunMonitor::RunMonitor(const Options& options) : options_(options) {}

void RunMonitor::SetWaiting(std::string what) {
  Set(has_stepped_, false);
  MutexLock lock(&mutex_);
  waiting_ = std::move(what);
  failure_ = absl::OkStatus();
  loss_is_known_ = progress_ != nullptr && progress_->is_broken();
}

void RunMonitor::Watch(const std::shared_ptr<RunProgress>& progress) {
  if (progress.get() == last_watched_) return;
  progress->TimeRunsAndWaits();
  MutexLock lock(&mutex_);
  if (progress_ != nullptr) waited_before_ += progress_->waited();
  progress_ = progress;
  loss_is_known_ = false;
  seen_ = {};
  last_watched_ = progress.get();
}

void RunMonitor::SetReplicas(int local, int all) {
  Set(local_replicas_, local);
  Set(all_replicas_, all);
}

void RunMonitor::EndStep(const StepReport& report) {
  const double seconds = absl::ToDoubleSeconds(MonotonicTime::Now() - began_);
  const auto bucket = std::lower_bound(std::begin(kBounds), std::end(kBounds), seconds);
  Add<uint64_t>(durations_[bucket - std::begin(kBounds)], 1);
  Add(total_seconds_, seconds);
  Set(step_, report.step);
  Add(examples_, report.examples);
  Set(loss_, report.loss);
  Set(reserved_bytes_, report.reserved_bytes);
  Set(checkpoint_time_, report.checkpoint_time.value_or(MonotonicTime()));
  Set(has_stepped_, true);
}

void RunMonitor::Fail(const absl::Status& why) {
  MutexLock lock(&mutex_);
  failure_ = why;
}

HttpReply RunMonitor::Answer(absl::string_view path) {
  if (path == "/healthz") return YesUnless(WhyUnhealthy());
  if (path == "/readyz") {
    const std::string why = WhyNotReady();
    return YesUnless(absl::StartsWith(why, kWaiting) ? absl::StrCat(why, StateText()) : why);
  }
  if (path != "/metrics") return HttpReply::NotFound();
  return {.content_type = PrometheusText::kContentType, .body = Metrics()};
}

std::string RunMonitor::Failure() {
  MutexLock lock(&mutex_);
  if (failure_.ok()) return "";
  const std::string text =
      ForTerminal(failure_.ToString(absl::StatusToStringMode::kWithNoExtraData));
  return absl::StrCat("failed: ", absl::string_view(text).substr(0, kMaxFailureBytes));
}

std::string RunMonitor::WhyUnhealthy() {
  if (std::string failure = Failure(); !failure.empty()) return failure;
  MutexLock lock(&mutex_);
  if (progress_ == nullptr) return "";
  const RunProgress::Position at = progress_->position();
  const MonotonicTime now = MonotonicTime::Now();
  const bool may_wait = !at.running || progress_->slowest_may_wait();
  if (may_wait || !IsSame(at, seen_)) {
    seen_ = at;
    seen_since_ = now;
    return "";
  }
  const absl::Duration since = now - seen_since_;
  if (since < options_.progress_timeout) return "";
  return ForTerminal(
      absl::StrCat("hangs: step ", at.step, " has made no progress for ",
                   absl::FormatDuration(absl::Trunc(since, absl::Seconds(1))),
                   at.collective.empty() ? "" : absl::StrCat("; it last started ", at.collective)));
}

std::string RunMonitor::WhyNotReady() {
  if (std::string failure = Failure(); !failure.empty()) return failure;
  MutexLock lock(&mutex_);
  if (progress_ != nullptr && progress_->is_broken() && !loss_is_known_) {
    return "a worker is lost or has failed";
  }
  if (has_stepped_.load(std::memory_order_relaxed)) return "";
  return ForTerminal(absl::StrCat(kWaiting, waiting_));
}

// Caches the text: clients can request it at any rate, and in the process that runs the
// coordination service, a report visits the state of every worker.
std::string RunMonitor::StateText() {
  MutexLock lock(&state_mutex_);
  const MonotonicTime now = MonotonicTime::Now();
  if (now < state_until_) return state_;
  state_until_ = now + kStateInterval;
  state_.clear();
  for (const std::string& line : StateReport::Summary()) {
    absl::StrAppend(&state_, "\n", ForTerminal(line));
  }
  return state_;
}

absl::Duration RunMonitor::Waited() {
  MutexLock lock(&mutex_);
  return waited_before_ + (progress_ == nullptr ? absl::ZeroDuration() : progress_->waited());
}

std::string RunMonitor::Metrics() {
  const auto get = [](const auto& value) {
    return static_cast<double>(value.load(std::memory_order_relaxed));
  };
  PrometheusText text(LabelsOf(options_));
  text.AddGauge("mirrorflow_ready", "1 if /readyz answers 200, otherwise 0.",
                WhyNotReady().empty());
  text.AddGauge("mirrorflow_workers", "Number of workers in the job.", options_.num_workers);
  text.AddCounter("mirrorflow_restarts_total",
                  "Restarts of the job before this process, as counted by its launcher.",
                  static_cast<double>(options_.restarts));
  if (all_replicas_ > 0) {
    text.AddGauge("mirrorflow_replicas", "Number of replicas on all workers.", get(all_replicas_));
    text.AddGauge("mirrorflow_local_replicas", "Number of replicas on this worker.",
                  get(local_replicas_));
    text.AddGauge("mirrorflow_variable_bytes", "Memory that this worker's variables use.",
                  get(variable_bytes_));
  }
  if (has_stepped_) {
    text.AddGauge("mirrorflow_step", "Last completed step; a resumed run continues the count.",
                  get(step_));
    text.AddGauge("mirrorflow_loss", "Loss of the last step.", get(loss_));
    text.AddGauge("mirrorflow_value_bytes",
                  "Memory that this worker's steps use in addition to variables.",
                  get(reserved_bytes_));
  }
  text.AddCounter("mirrorflow_examples_total",
                  "Examples that all workers have processed in this process's steps.",
                  get(examples_));
  std::vector<uint64_t> counts;
  for (const auto& count : durations_) counts.push_back(count.load(std::memory_order_relaxed));
  text.AddHistogram("mirrorflow_step_duration_seconds",
                    "Step duration, excluding input and callbacks.", kBounds, counts,
                    get(total_seconds_));
  text.AddCounter(
      "mirrorflow_exposed_communication_seconds_total",
      "Time that steps spent on communication alone, including waits for other replicas; mean over "
      "this worker's CPU replicas.",
      absl::ToDoubleSeconds(Waited()));
  if (const MonotonicTime saved = checkpoint_time_; saved != MonotonicTime()) {
    text.AddGauge("mirrorflow_checkpoint_age_seconds",
                  "Time since the newest checkpoint was written or restored.",
                  absl::ToDoubleSeconds(MonotonicTime::Now() - saved));
  }
  text.AddGauge("process_resident_memory_bytes", "Resident memory of the process.",
                ResidentBytes());
  text.AddCounter("process_cpu_seconds_total", "CPU time that the process has used.", CpuSeconds());
  return text.Take();
}

}  // namespace mirrorflow
