// SPDX-License-Identifier: Apache-2.0
//
// ClusterResolver finds out which worker of which cluster this process is. Launchers and cluster
// managers say so in environment variables (cluster_sources.h).
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

// Variables by name.
using Environment = std::map<std::string, std::string, std::less<>>;
Environment ProcessEnvironment();

// A cluster, from the point of view of one of its workers.
struct Cluster {
  int num_workers = 1;
  int task_index = 0;  // of this worker
  // HOST:PORT at which worker 0 serves the coordination service; empty with one worker.
  std::string coordinator;
  std::vector<std::string> addresses;  // by worker; empty unless the source names all workers
  std::optional<int> local_rank;       // of this worker on its host, if the source says so
  int local_size = 1;                  // workers on its host, as far as the source says
  std::string secret_file;             // MIRRORFLOW_SECRET_FILE; empty without it
  // Identifies the job; the same for all workers. MIRRORFLOW_JOB, or the source and its job id,
  // such as `SLURM step 4242.0`; empty if neither is known.
  std::string job;
  // MIRRORFLOW_REJOIN_TIMEOUT, which `mirrorflow launch --rejoin_timeout` sets.
  absl::Duration rejoin_timeout = absl::ZeroDuration();
  std::string source;                 // where this comes from: `SLURM step 4242.0`
  std::vector<std::string> warnings;  // to print

  // `cluster from SLURM step 4242.0: 8 workers, this is worker 3, coordinator n001:62213`
  std::string ToString() const;
};

class ClusterResolver {
 public:
  struct Options {
    // An explicit cluster, which has precedence over the environment: the address of each worker,
    // HOST:PORT, and which of them this process is.
    std::vector<std::string> cluster_spec = {};
    std::optional<int> task_index = std::nullopt;
    // Whether a cluster of several workers must say where they meet.
    bool requires_coordinator = true;
  };
  // Uses the first source of these: the options; MIRRORFLOW_NUM_WORKERS, MIRRORFLOW_WORKER_INDEX
  // and MIRRORFLOW_COORDINATOR; TF_CONFIG; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (torchrun,
  // PyTorchJob, Ray); MPI; a SLURM step. Without any, this process is the only worker.
  // MIRRORFLOW_CLUSTER=tf_config, torchrun, mpi, slurm or none chooses one of the last four, or
  // none.
  //
  // A pure function. InvalidArgument, naming the variable, if the source is incomplete or invalid,
  // or if two sources of the environment disagree and neither was chosen. What the environment says
  // and the cluster leaves out is an error or one of Cluster::warnings, so no process silently runs
  // alone: a cluster of one worker has a warning for each launcher whose variables hint at more,
  // unless MIRRORFLOW_NUM_WORKERS or MIRRORFLOW_CLUSTER=none asks for one.
  static absl::StatusOr<Cluster> FromEnvironment(const Environment& environment,
                                                 const Options& options);
  static absl::StatusOr<Cluster> FromEnvironment(const Environment& environment) {
    return FromEnvironment(environment, Options());
  }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CLUSTER_RESOLVER_H_
