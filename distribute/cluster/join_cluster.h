// SPDX-License-Identifier: Apache-2.0
//
// JoinCluster makes this process a worker of its cluster: the workers connect to the coordination
// service, compare their settings, and agree on a topology and on how they exchange data.
//
//   MF_ASSIGN_OR_RETURN(const auto joined, JoinCluster(cluster, {.devices = {"CPU:0"}}, options));
//   backend.topology = joined->topology();
//   backend.workers = joined->NewGroup();
//   backend.connect = joined->Connect();
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_JOIN_CLUSTER_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_JOIN_CLUSTER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/cluster/cluster_resolver.h"
#include "distribute/cluster/connect_workers.h"
#include "distribute/cluster/coordination/coordination_client.h"
#include "distribute/cluster/coordination/coordination_server.h"
#include "distribute/cluster/join_options.h"
#include "framework/core/log_line.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/replica_team.h"
#include "framework/runtime/topology.h"
#include "framework/workers/connection.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

// Describes this worker's replicas and their settings.
struct WorkerReplicas {
  std::vector<std::string> devices = {};
  std::vector<std::string> gpu_uuids = {};  // by device; empty for CPUs
  // Further settings, as {name, value}, that must be equal on all workers.
  std::vector<std::pair<std::string, std::string>> settings = {};
  absl::Duration collective_timeout = absl::Minutes(5);
  // Whether to measure the link between hosts instead of assuming its costs.
  bool measures_link = false;

  bool on_gpus() const { return !gpu_uuids.empty(); }
};

// This process's membership in a cluster of several workers. It ends when the object is destroyed.
class JoinedCluster {
 public:
  // Leaves the cluster. Worker 0 first waits for the other workers to leave, for at most
  // JoinOptions::heartbeat_timeout.
  ~JoinedCluster();

  const Topology& topology() const { return topology_; }
  // The replicas of all workers that use the same cores as this one.
  const CoreSharers& core_sharers() const { return core_sharers_; }
  // The costs of a message between memory domains.
  const LinkCosts& link() const { return link_; }
  // The network device that sends packets to the other workers, such as `eth0`.
  const std::string& network_device() const { return connect_.device; }
  // Null if this worker does not share memory with others.
  const std::shared_ptr<HostMemory>& host_memory() const { return connect_.host_memory; }
  // The worker group for agreements outside any session.
  const std::shared_ptr<WorkerGroup>& group() const { return group_; }

  // Whether a group that NewGroup() returned still exists, or a caller still holds group().
  bool is_in_use() const { return group_.use_count() > 1 || client_->num_live_groups() > 1; }

  // Whether this worker has announced that it is stopping (WorkerGroup::SetStopped).
  bool is_stopped() const { return client_->is_stopped(); }

  // Returns a group for a new session. All workers must create the same sessions in the same order.
  std::unique_ptr<WorkerGroup> NewGroup() const { return client_->NewGroup(); }
  // Returns the function that connects a session's CPU replicas. It can outlive this object.
  ConnectFn Connect() const;
  // Connects this worker's CPU replicas without a session, for measuring the link and for
  // benchmarks. All workers must call this once.
  absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectReplicas(
      MonotonicTime deadline) const;

 private:
  friend class ClusterJoiner;
  JoinedCluster() = default;

  std::optional<LogIdentity> log_identity_;  // destroyed last, because leaving the cluster logs
  int worker_ = 0;
  absl::Duration heartbeat_timeout_;
  std::unique_ptr<CoordinationServer> server_;  // in worker 0
  std::unique_ptr<CoordinationClient> client_;
  std::shared_ptr<WorkerGroup> group_;
  ConnectOptions connect_;
  Topology topology_;  // empty until the workers have agreed on it
  CoreSharers core_sharers_;
  LinkCosts link_;
};

// Blocks until all workers have joined. `cluster` must have several workers. Returns
// InvalidArgument for invalid options, and for settings or builds that differ between workers.
// Returns DeadlineExceeded, naming the missing workers, if one does not join, or if worker 0 cannot
// listen on its address.
absl::StatusOr<std::unique_ptr<JoinedCluster>> JoinCluster(const Cluster& cluster,
                                                           const WorkerReplicas& replicas,
                                                           const JoinOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_JOIN_CLUSTER_H_
