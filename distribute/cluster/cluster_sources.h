// SPDX-License-Identifier: Apache-2.0
//
// The environment variables that describe a cluster to ClusterResolver. Each family of launchers
// and cluster managers is one source.
//
//   | launcher            | rank, size                        | address                          |
//   |---------------------|-----------------------------------|----------------------------------|
//   | mirrorflow launch   | MIRRORFLOW_WORKER_INDEX,          | MIRRORFLOW_COORDINATOR           |
//   |                     | MIRRORFLOW_NUM_WORKERS            |                                  |
//   | Kubeflow TFJob, Ray | TF_CONFIG                         | TF_CONFIG                        |
//   | torchrun, Ray,      | RANK, WORLD_SIZE                  | MASTER_ADDR, MASTER_PORT         |
//   | Kubeflow PyTorchJob |                                   |                                  |
//   | Open MPI            | OMPI_COMM_WORLD_RANK, _SIZE       | OMPI_MCA_orte_hnp_uri            |
//   | MPICH, Intel MPI    | PMI_RANK, PMI_SIZE                | MIRRORFLOW_COORDINATOR           |
//   | MVAPICH2            | MV2_COMM_WORLD_RANK, _SIZE        | MIRRORFLOW_COORDINATOR           |
//   | SLURM (srun)        | SLURM_PROCID, SLURM_NTASKS or     | SLURM_STEP_NODELIST or           |
//   |                     | SLURM_STEP_NUM_TASKS              | SLURM_JOB_NODELIST               |
//
// Cluster::job comes from MIRRORFLOW_JOB, which mirrorflow launch sets, from TORCHELASTIC_RUN_ID
// (torchrun), from OMPI_MCA_ess_base_jobid, PMI_JOBID or PMIX_NAMESPACE (MPI), or from SLURM_JOB_ID
// and SLURM_STEP_ID.
//
// PMIX_RANK is not a source: no variable holds the matching size, and most launchers that set it
// also set variables in this table. The variables of horovodrun, Flux and others are not sources
// either, because they do not name a coordinator. If no source names several workers, these
// variables cause a warning (cluster_resolver.cc).
//
// In TF_CONFIG, worker 0 is the chief, which TensorFlow 1 calls the master. If this process's own
// task is not a chief, master or worker, reading TF_CONFIG fails. Other jobs in the cluster, such
// as `ps`, are ignored with a warning.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CLUSTER_SOURCES_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CLUSTER_SOURCES_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "distribute/cluster/cluster_resolver.h"

namespace mirrorflow {

struct ClusterSource {
  absl::string_view name;  // a value of MIRRORFLOW_CLUSTER; empty for Mirrorflow's own variables
  absl::string_view main_variable;  // the variable that errors name if this source is absent
  // Returns nullopt if the environment does not contain this source. Returns InvalidArgument,
  // naming the variable, if the source is incomplete or invalid. The coordinator is empty if the
  // source does not name one.
  absl::StatusOr<std::optional<Cluster>> (*read)(const Environment& environment);
};

// Returns the variable's value; null if it is unset or empty.
const std::string* FindVariable(const Environment& environment, absl::string_view name);

// Returns InvalidArgument, ending with `advice`, unless two sources agree on the number of workers
// and on this worker's index.
absl::Status CheckAgreement(const Cluster& a, const Cluster& b, absl::string_view advice);

// Returns all sources, in order of precedence.
absl::Span<const ClusterSource> ClusterSources();

// Returns the cluster whose workers have these `addresses`; the first one is the coordinator's.
// Returns InvalidArgument if an address is malformed or appears twice. `what` names the flag or
// variable in errors.
absl::StatusOr<Cluster> ClusterOfAddresses(std::vector<std::string> addresses, int task_index,
                                           absl::string_view what);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CLUSTER_SOURCES_H_
