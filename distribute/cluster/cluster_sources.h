// SPDX-License-Identifier: Apache-2.0
//
// The sources of ClusterResolver: what each launcher and cluster manager sets.
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
// PMIX_RANK is not a source: no variable has the size that belongs to it, and most launchers that
// set it also set variables of this table. Nor are the variables of horovodrun, Flux and others,
// which do not tell where the workers meet. If nothing else names several workers, they give a
// warning (cluster_resolver.cc).
//
// In TF_CONFIG, worker 0 is the chief or, as in TensorFlow 1, the master. Tasks of other types are
// an error, and a cluster that has some is a warning.
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
  absl::string_view main_variable;  // without it, the environment has nothing of this source
  // Returns nothing if the environment has nothing of this source. InvalidArgument, naming the
  // variable, if it is incomplete or invalid. The coordinator is empty if the source names none.
  absl::StatusOr<std::optional<Cluster>> (*read)(const Environment& environment);
};

// In order of precedence.
absl::Span<const ClusterSource> ClusterSources();

// Checks the sizes and addresses of a cluster whose workers `addresses` names. The coordination
// service is at the first. `what` is the flag or variable, for errors.
absl::StatusOr<Cluster> ClusterOfAddresses(std::vector<std::string> addresses, int task_index,
                                           absl::string_view what);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CLUSTER_SOURCES_H_
