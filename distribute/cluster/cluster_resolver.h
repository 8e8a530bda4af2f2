// SPDX-License-Identifier: Apache-2.0
//
// ClusterResolver determines which worker of which cluster this process is, from the environment
// variables that launchers and cluster managers set (cluster_sources.h).
//
//   MF_ASSIGN_OR_RETURN(const Cluster cluster,
//                       ClusterResolver::FromEnvironment(ProcessEnvironment()));
//   if (cluster.num_workers > 1) …
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CLUSTER_RESOLVER_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CLUSTER_RESOLVER_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mirrorflow {

// Environment variables by name.
using Environment = std::map<std::string, std::string, std::less<>>;
// Returns the environment of this process.
Environment ProcessEnvironment();

// A cluster, from the point of view of one of its workers.
struct Cluster {
  int num_workers = 1;
  int task_index = 0;  // this worker
  // The HOST:PORT where worker 0 serves the coordination service; empty with one worker.
  std::string coordinator;
  std::vector<std::string> addresses;  // by worker; empty unless the source lists all workers
  std::optional<int> local_rank;       // this worker's index on its host; unset if unknown
  int local_size = 1;                  // number of workers on its host; 1 if unknown
  std::string secret_file;             // MIRRORFLOW_SECRET_FILE; empty if unset
  // Identifies the job; the same on all workers. MIRRORFLOW_JOB, or the source and its job id, such
  // as `SLURM step 4242.0`; empty if neither is known.
  std::string job;
  // MIRRORFLOW_REJOIN_TIMEOUT, which `mirrorflow launch --rejoin_timeout` sets.
  absl::Duration rejoin_timeout = absl::ZeroDuration();
  std::string source;                 // where it was described, such as `SLURM step 4242.0`
  std::vector<std::string> warnings;  // MultiWorkerMirroredStrategy logs them

  // Formats the cluster as
  // `cluster from SLURM step 4242.0: 8 workers, this is worker 3, coordinator n001:62213`.
  std::string ToString() const;
};

class ClusterResolver {
 public:
  struct Options {
    // An explicit cluster, which takes precedence over the environment: the HOST:PORT of each
    // worker, and the index of this process.
    std::vector<std::string> cluster_spec = {};
    std::optional<int> task_index = std::nullopt;
    // If true, it is an error if the source of a cluster with several workers does not name the
    // coordinator.
    bool requires_coordinator = true;
  };
  // Reads the cluster from the first of these sources: the options; MIRRORFLOW_NUM_WORKERS,
  // MIRRORFLOW_WORKER_INDEX and MIRRORFLOW_COORDINATOR; TF_CONFIG; RANK, WORLD_SIZE, MASTER_ADDR
  // and MASTER_PORT (torchrun, PyTorchJob, Ray); MPI; a SLURM step. Without any source, this
  // process is the only worker. MIRRORFLOW_CLUSTER=tf_config, torchrun, mpi or slurm selects one of
  // the last four; MIRRORFLOW_CLUSTER=none ignores them.
  //
  // Has no side effects. Returns InvalidArgument, naming the variable, if the source is incomplete
  // or invalid, or if two sources in the environment disagree and neither was selected. No process
  // silently runs alone: variables that hint at other workers cause an error or a warning
  // (Cluster::warnings). A one-worker cluster has one warning for each launcher whose variables
  // suggest several workers, unless MIRRORFLOW_NUM_WORKERS=1 or MIRRORFLOW_CLUSTER=none is set.
  static absl::StatusOr<Cluster> FromEnvironment(const Environment& environment,
                                                 const Options& options);
  static absl::StatusOr<Cluster> FromEnvironment(const Environment& environment) {
    return FromEnvironment(environment, Options());
  }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CLUSTER_RESOLVER_H_
