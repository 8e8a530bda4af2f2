// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/cluster_resolver.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "distribute/cluster/cluster_sources.h"
#include "distribute/cluster/connections/host_port.h"
#include "framework/core/names.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr char kChoice[] = "MIRRORFLOW_CLUSTER";
constexpr char kRejoinTimeout[] = "MIRRORFLOW_REJOIN_TIMEOUT";

absl::StatusOr<Cluster> FromOptions(const ClusterResolver::Options& options) {
  if (options.cluster_spec.empty()) {
    return absl::InvalidArgumentError(
        "--task_index: given without --cluster_spec; expected both or neither");
  }
  const int num_workers = static_cast<int>(options.cluster_spec.size());
  if (!options.task_index.has_value()) {
    return absl::InvalidArgumentError(
        "--cluster_spec: given without --task_index; expected both or neither");
  }
  if (*options.task_index < 0 || *options.task_index >= num_workers) {
    return absl::InvalidArgumentError(absl::StrCat("--task_index: out of range; expected 0 to ",
                                                   num_workers - 1, ", got ", *options.task_index));
  }
  MF_ASSIGN_OR_RETURN(Cluster cluster, ClusterOfAddresses(options.cluster_spec, *options.task_index,
                                                          "--cluster_spec"));
  cluster.source = "--cluster_spec";
  return cluster;
}

// A variable that suggests that this process is one of several workers, but does not describe a
// complete cluster.
struct Hint {
  const char* launcher;
  const char* variable;
  int least;  // smallest value that is a hint
  const char* advice;
  // The launcher's variable for the number of workers if `variable` is a rank; null if the launcher
  // has no such variable.
  const char* size = nullptr;
};
constexpr char kSrun[] = "start the program with srun for one worker per task";
constexpr char kTorchrun[] = "start the program with torchrun";
constexpr char kOwn[] = "set MIRRORFLOW_NUM_WORKERS, _WORKER_INDEX and _COORDINATOR";
constexpr Hint kHints[] = {
    // The script of a job with several tasks started this program only once.
    {"SLURM", "SLURM_NTASKS", 2, kSrun},
    // torchrun reads these variables; it does not set them.
    {"torchrun", "PET_NNODES", 2, kTorchrun},
    {"torchrun", "PET_NPROC_PER_NODE", 2, kTorchrun},
    // Launchers whose variables do not name a coordinator.
    {"Horovod", "HOROVOD_SIZE", 2, kOwn},
    {"Horovod", "HOROVOD_RANK", 0, kOwn, "HOROVOD_SIZE"},
    {"Flux", "FLUX_JOB_SIZE", 2, kOwn},
    {"Flux", "FLUX_TASK_RANK", 0, kOwn, "FLUX_JOB_SIZE"},
    {"JSM", "JSM_NAMESPACE_SIZE", 2, kOwn},
    {"JSM", "JSM_NAMESPACE_RANK", 0, kOwn, "JSM_NAMESPACE_SIZE"},
    // Launchers whose own variables contain a rank but no size.
    {"PALS", "PALS_RANKID", 0, kOwn},
    {"PMIx", "PMIX_RANK", 0, kOwn},
};

// Returns whether the hint suggests other workers, although this process is about to run alone. A
// value that is not a number is also a hint, because it may mean several workers. `launched_alone`:
// whether MPI or SLURM started only this process, which explains a rank of 0.
bool TellsOfOthers(const Hint& hint, const Environment& environment, bool launched_alone) {
  const std::string* const value = FindVariable(environment, hint.variable);
  if (value == nullptr) return false;
  // PET_NNODES can be a range such as `1:4`, whose end counts. PET_NPROC_PER_NODE can be `gpu` or
  // `auto`, for one worker per device.
  int number = 0;
  if (!absl::SimpleAtoi(value->substr(value->rfind(':') + 1), &number)) return true;
  if (number < hint.least) return false;
  if (hint.least > 0 || number > 0) return true;
  const bool sized = hint.size != nullptr && FindVariable(environment, hint.size) != nullptr;
  return !sized && !launched_alone;
}

// Appends warnings about hints, one per launcher, for a process that is about to run as the only
// worker.
void WarnOfHints(const Environment& environment, Cluster* cluster) {
  bool launched_alone = false;
  for (const ClusterSource& source : ClusterSources()) {
    if (source.name != "mpi" && source.name != "slurm") continue;
    const absl::StatusOr<std::optional<Cluster>> found = source.read(environment);
    launched_alone |= found.ok() && found->has_value() && (*found)->num_workers == 1;
  }
  absl::string_view told;
  for (const Hint& hint : kHints) {
    // Ignore torchrun's inputs in a worker that torchrun has started.
    const bool used = hint.advice == kTorchrun && cluster->source == "torchrun";
    if (used || told == hint.launcher) continue;
    if (!TellsOfOthers(hint, environment, launched_alone)) continue;
    told = hint.launcher;
    cluster->warnings.push_back(
        absl::StrCat(hint.variable, " is ", Printable(environment.find(hint.variable)->second),
                     ", but this process runs as the only worker; ", hint.advice));
  }
}

// Returns the cluster, or an error if it must have a coordinator but names none.
absl::StatusOr<Cluster> WithCoordinator(Cluster cluster, const ClusterResolver::Options& options) {
  if (cluster.num_workers == 1) return cluster;
  if (!cluster.coordinator.empty()) {
    // If the coordinator has a loopback address, all workers are on this host.
    const absl::StatusOr<HostPort> coordinator = ParseHostPort(cluster.coordinator);
    if (coordinator.ok() && IsLoopback(coordinator->host)) {
      cluster.local_size = cluster.num_workers;
      cluster.local_rank = cluster.local_rank.value_or(cluster.task_index);
    }
    return cluster;
  }
  if (!options.requires_coordinator) return cluster;
  return absl::InvalidArgumentError(
      absl::StrCat("MIRRORFLOW_COORDINATOR: not set; set it to rank 0's HOST:PORT, which ",
                   cluster.source, " does not provide"));
}

absl::StatusOr<Cluster> FromChosen(const Environment& environment, absl::string_view choice,
                                   const ClusterResolver::Options& options) {
  if (choice == "none") return Cluster{.source = absl::StrCat(kChoice, "=none")};
  std::vector<absl::string_view> known = {"none"};
  for (const ClusterSource& source : ClusterSources()) {
    if (source.name.empty()) continue;
    known.push_back(source.name);
    if (source.name != choice) continue;
    MF_ASSIGN_OR_RETURN(std::optional<Cluster> found, source.read(environment));
    if (found.has_value()) {
      if (found->num_workers == 1) WarnOfHints(environment, &*found);
      return WithCoordinator(*std::move(found), options);
    }
    return absl::InvalidArgumentError(absl::StrCat(kChoice, ": ", choice,
                                                   " is chosen, but its variables are not set; ",
                                                   "expected ", source.main_variable));
  }
  return absl::InvalidArgumentError(absl::StrCat(kChoice, ": unknown; expected one of ",
                                                 absl::StrJoin(known, ", "), ", got '",
                                                 Printable(choice), "'"));
}

// Returns whether `outer` is a SLURM step whose tasks run the launcher (mpirun or torchrun) that
// started `inner`. In this case, the worker counts can differ, because the launcher starts several
// workers per task. If there are fewer workers than tasks, the launcher ran outside the step, or
// each task has its own job.
bool StartsInside(const Cluster& inner, const Cluster& outer) {
  return absl::StartsWith(outer.source, "SLURM step") && inner.source != "TF_CONFIG" &&
         inner.source != "RANK and WORLD_SIZE" && inner.num_workers >= outer.num_workers;
}

}  // namespace

Environment ProcessEnvironment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == absl::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::string Cluster::ToString() const {
  if (num_workers == 1) return absl::StrCat("cluster from ", source, ": 1 worker");
  return absl::StrCat("cluster from ", source, ": ", num_workers, " workers, this is worker ",
                      task_index, ", coordinator ", coordinator);
}

namespace {

absl::StatusOr<Cluster> FindCluster(const Environment& environment,
                                    const ClusterResolver::Options& options) {
  if (!options.cluster_spec.empty() || options.task_index.has_value()) return FromOptions(options);
  const auto choice = environment.find(kChoice);
  if (choice != environment.end()) return FromChosen(environment, choice->second, options);

  std::optional<Cluster> chosen;
  bool is_explicit = false;
  for (const ClusterSource& source : ClusterSources()) {
    absl::StatusOr<std::optional<Cluster>> found = source.read(environment);
    const bool alone = !chosen.has_value() || chosen->num_workers == 1;
    if (!found.ok() && alone) return found.status();
    if (!found.ok() || !found->has_value()) continue;
    if (!chosen.has_value()) {
      chosen = **std::move(found);
      is_explicit = source.name.empty();
      if (is_explicit) break;  // takes precedence over all other sources
    } else if (!StartsInside(*chosen, **found)) {
      MF_RETURN_IF_ERROR(
          CheckAgreement(*chosen, **found,
                         absl::StrCat("to choose a source, set ", kChoice,
                                      " to tf_config, torchrun, mpi, slurm or none")));
    }
  }
  if (!chosen.has_value()) chosen = Cluster{.source = "no cluster in the environment"};
  if (chosen->num_workers == 1 && !is_explicit) WarnOfHints(environment, &*chosen);
  return WithCoordinator(*std::move(chosen), options);
}

}  // namespace

absl::StatusOr<Cluster> ClusterResolver::FromEnvironment(const Environment& environment,
                                                         const Options& options) {
  MF_ASSIGN_OR_RETURN(Cluster cluster, FindCluster(environment, options));
  const std::string* const secret_file = FindVariable(environment, "MIRRORFLOW_SECRET_FILE");
  if (secret_file != nullptr) cluster.secret_file = *secret_file;
  if (const auto* job = FindVariable(environment, "MIRRORFLOW_JOB")) cluster.job = *job;
  if (const auto* timeout = FindVariable(environment, kRejoinTimeout)) {
    absl::Duration& own = cluster.rejoin_timeout;
    if (!absl::ParseDuration(*timeout, &own) || own < absl::ZeroDuration()) {
      return absl::InvalidArgumentError(
          absl::StrCat(kRejoinTimeout, ": expected a duration of at least 0, such as 60s; got '",
                       Printable(*timeout), "'"));
    }
  }
  return cluster;
}

}  // namespace mirrorflow
