// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/cluster_resolver.h"

#include <unistd.h>

#include <utility>

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

absl::StatusOr<Cluster> FromOptions(const ClusterResolver::Options& options) {
  if (options.cluster_spec.empty()) {
    return absl::InvalidArgumentError(
        "--task_index: given without --cluster_spec; expected both or none");
  }
  const int num_workers = static_cast<int>(options.cluster_spec.size());
  if (!options.task_index.has_value()) {
    return absl::InvalidArgumentError(
        "--cluster_spec: given without --task_index; expected both or none");
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

// A job of several tasks whose script starts this program only once.
void WarnAboutMissingSrun(const Environment& environment, Cluster* cluster) {
  const auto tasks = environment.find("SLURM_NTASKS");
  int num_tasks = 0;
  if (tasks == environment.end() || environment.contains("SLURM_STEP_ID")) return;
  if (!absl::SimpleAtoi(tasks->second, &num_tasks) || num_tasks <= 1) return;
  cluster->warnings.push_back(
      absl::StrCat("SLURM_NTASKS is ", num_tasks,
                   ", but this process is not in a step: it runs as the only worker; start the "
                   "program with srun for one worker per task"));
}

Cluster OneWorker(const Environment& environment) {
  Cluster cluster{.source = "no cluster in the environment"};
  WarnAboutMissingSrun(environment, &cluster);
  return cluster;
}

// Returns the cluster, which must say where its workers meet.
absl::StatusOr<Cluster> WithCoordinator(Cluster cluster) {
  if (cluster.num_workers == 1) return cluster;
  if (!cluster.coordinator.empty()) {
    // All workers reach the coordinator of a loopback address, so they are on one host.
    const absl::StatusOr<HostPort> coordinator = ParseHostPort(cluster.coordinator);
    const bool one_host = coordinator.ok() && IsLoopback(coordinator->host);
    if (one_host) {
      cluster.local_size = cluster.num_workers;
      cluster.local_rank = cluster.local_rank.value_or(cluster.task_index);
    }
    return cluster;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("MIRRORFLOW_COORDINATOR: not set; expected HOST:PORT of rank 0, which ",
                   cluster.source, " does not tell"));
}

absl::StatusOr<Cluster> FromChosen(const Environment& environment, absl::string_view choice) {
  if (choice == "none") {
    Cluster cluster{.source = absl::StrCat(kChoice, "=none")};
    return cluster;
  }
  std::vector<absl::string_view> known = {"none"};
  for (const ClusterSource& source : ClusterSources()) {
    if (source.name.empty()) continue;
    known.push_back(source.name);
    if (source.name != choice) continue;
    MF_ASSIGN_OR_RETURN(std::optional<Cluster> found, source.read(environment));
    if (found.has_value()) return WithCoordinator(*std::move(found));
    return absl::InvalidArgumentError(
        absl::StrCat(kChoice, ": ", choice, " is chosen, but the environment has nothing of it; ",
                     "expected ", source.main_variable));
  }
  return absl::InvalidArgumentError(absl::StrCat(kChoice, ": unknown; expected one of ",
                                                 absl::StrJoin(known, ", "), ", got '",
                                                 Printable(choice), "'"));
}

// Launchers that are often started by another one: mpirun or torchrun in a step of SLURM.
bool StartsInside(const Cluster& inner, absl::string_view outer) {
  return outer == "slurm" && inner.source != "TF_CONFIG" && inner.source != "RANK and WORLD_SIZE";
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
  if (choice != environment.end()) return FromChosen(environment, choice->second);

  std::optional<Cluster> chosen;
  for (const ClusterSource& source : ClusterSources()) {
    if (chosen.has_value() && StartsInside(*chosen, source.name)) continue;
    absl::StatusOr<std::optional<Cluster>> found = source.read(environment);
    if (!found.ok() && !chosen.has_value()) return found.status();
    if (!found.ok() || !found->has_value()) continue;
    if (!chosen.has_value()) {
      chosen = **std::move(found);
      if (source.name.empty()) break;  // explicit, so nothing can contradict it
    } else if ((*found)->num_workers != chosen->num_workers ||
               (*found)->task_index != chosen->task_index) {
      return absl::InvalidArgumentError(
          absl::StrCat(chosen->source, " and ", (*found)->source, " disagree: worker ",
                       chosen->task_index, " of ", chosen->num_workers, ", and worker ",
                       (*found)->task_index, " of ", (*found)->num_workers, "; expected ", kChoice,
                       "=tf_config, torchrun, mpi, slurm or none to choose one"));
    }
  }
  return chosen.has_value() ? WithCoordinator(*std::move(chosen)) : OneWorker(environment);
}

}  // namespace

absl::StatusOr<Cluster> ClusterResolver::FromEnvironment(const Environment& environment,
                                                         const Options& options) {
  MF_ASSIGN_OR_RETURN(Cluster cluster, FindCluster(environment, options));
  const auto secret_file = environment.find("MIRRORFLOW_SECRET_FILE");
  if (secret_file != environment.end()) cluster.secret_file = secret_file->second;
  return cluster;
}

}  // namespace mirrorflow
