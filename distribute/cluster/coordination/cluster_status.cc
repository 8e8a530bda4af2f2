// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/cluster_status.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "distribute/cluster/coordination/messages.h"
#include "framework/runtime/run_progress.h"

namespace mirrorflow {
namespace {

using coordination::ClusterStatus;

// Every healthy worker makes progress and sends a heartbeat within this time.
constexpr int64_t kLongMs = 5'000;

std::string Seconds(int64_t milliseconds) {
  return absl::StrFormat("%.1f s", 1e-3 * static_cast<double>(milliseconds));
}

std::string WhereOf(const ClusterStatus::Worker& worker) {
  const coordination::Heartbeat& at = worker.heartbeat();
  const std::string position =
      RunProgress::Position{
          .running = at.running(), .step = at.step(), .collective = at.collective()}
          .ToString();
  switch (worker.state()) {
    case ClusterStatus::MISSING:
      return absl::StrCat("missing", worker.detail().empty() ? "" : "; expected at ",
                          worker.detail());
    case ClusterStatus::WAITING:
      return absl::StrCat(position, ", waits for other workers: ", worker.detail());
    case ClusterStatus::LEFT:
      return worker.detail();
    default:
      return position;
  }
}

}  // namespace

std::string SummaryOf(const ClusterStatus& status) {
  static constexpr struct {
    ClusterStatus::State state;
    const char* text;
  } kStates[] = {{ClusterStatus::IN_STEP, "in a step"},
                 {ClusterStatus::WAITING, "waiting for others"},
                 {ClusterStatus::BETWEEN_STEPS, "between steps"},
                 {ClusterStatus::MISSING, "missing"},
                 {ClusterStatus::LEFT, "left or lost"}};
  std::vector<std::string> parts;
  for (const auto& [state, text] : kStates) {
    std::vector<int> workers;
    for (int w = 0; w < status.workers_size(); ++w) {
      if (status.workers(w).state() == state) workers.push_back(w);
    }
    if (workers.empty()) continue;
    parts.push_back(absl::StrCat(workers.size(), " ", text, " (", FirstOf(workers), ")"));
  }
  return absl::StrCat(status.workers_size(), " workers: ", absl::StrJoin(parts, ", "));
}

std::vector<std::string> LinesOf(const ClusterStatus& status) {
  std::vector<std::string> lines;
  for (int w = 0; w < status.workers_size(); ++w) {
    const ClusterStatus::Worker& worker = status.workers(w);
    const bool is_alive =
        worker.state() != ClusterStatus::MISSING && worker.state() != ClusterStatus::LEFT;
    if (worker.state() == ClusterStatus::LEFT && absl::StartsWith(worker.detail(), "worker ")) {
      lines.push_back(worker.detail());  // this error already names the worker
      continue;
    }
    std::string line = absl::StrCat("worker ", w);
    if (is_alive) absl::StrAppend(&line, " (process ", worker.pid(), " on ", worker.host(), ")");
    absl::StrAppend(&line, ": ", WhereOf(worker));
    if (is_alive && worker.since_progress_ms() > kLongMs) {
      absl::StrAppend(&line, "; no progress for ", Seconds(worker.since_progress_ms()));
    }
    if (is_alive && worker.heartbeat_age_ms() > kLongMs) {
      absl::StrAppend(&line, "; no heartbeat for ", Seconds(worker.heartbeat_age_ms()));
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace mirrorflow
