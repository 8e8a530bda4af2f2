// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/ignored_workers.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/log.h"

namespace mirrorflow {
namespace {

constexpr char kExpected[] =
    "; use MultiWorkerMirroredStrategy with the cluster from ClusterResolver::FromEnvironment, or "
    "set MIRRORFLOW_CLUSTER=none to train separate models";

// Set once the warning has been printed or is known to be unnecessary.
std::atomic<bool> is_decided{false};

}  // namespace

std::string WarningOfIgnoredWorkers(const Environment& environment, absl::string_view strategy) {
  const absl::StatusOr<Cluster> cluster =
      ClusterResolver::FromEnvironment(environment, {.requires_coordinator = false});
  // This worker's index is unknown, so every worker warns.
  if (!cluster.ok()) {
    return absl::StrCat(strategy, ": ignores all other workers; cannot read the cluster: ",
                        cluster.status().message(), kExpected);
  }
  if (cluster->num_workers == 1 && !cluster->warnings.empty()) {
    return absl::StrCat(strategy, ": ", absl::StrJoin(cluster->warnings, "; "), kExpected);
  }
  if (cluster->num_workers == 1 || cluster->task_index != 0) return "";
  return absl::StrCat(strategy, ": each of the ", cluster->num_workers, " workers that ",
                      cluster->source, " names trains its own model", kExpected);
}

void WarnOfIgnoredWorkers(absl::string_view strategy) {
  if (is_decided.exchange(true)) return;
  const std::string warning = WarningOfIgnoredWorkers(ProcessEnvironment(), strategy);
  if (!warning.empty()) LogWarning(warning);
}

void PrintWarnings(const Cluster& cluster) {
  for (const std::string& warning : cluster.warnings) {
    LogWarning(warning);
  }
  if (cluster.num_workers == 1 && !cluster.warnings.empty()) is_decided = true;
}

void JoinWorkersOfEnvironment() { is_decided = true; }

}  // namespace mirrorflow
