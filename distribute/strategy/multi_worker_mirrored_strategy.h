// SPDX-License-Identifier: Apache-2.0
//
// MultiWorkerMirroredStrategy runs the same program as several processes, its workers, on one host
// or several. Together they compute what one process with all their replicas would.
//
//   MF_ASSIGN_OR_RETURN(const Cluster cluster,
//                       ClusterResolver::FromEnvironment(ProcessEnvironment()));
//   MF_ASSIGN_OR_RETURN(auto strategy, MultiWorkerMirroredStrategy::Create({.cluster = cluster}));
//
// From here on the program is that of MirroredStrategy. Every worker creates the same sessions in
// the same order, and prepares and runs the same steps on the same global batches.
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_MULTI_WORKER_MIRRORED_STRATEGY_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_MULTI_WORKER_MIRRORED_STRATEGY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "distribute/cluster/cluster_resolver.h"
#include "distribute/cluster/join_options.h"
#include "distribute/strategy/strategy.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

class JoinedCluster;    // distribute/cluster/join_cluster.h
struct WorkerReplicas;  // distribute/cluster/join_cluster.h

class MultiWorkerMirroredStrategy final : public Strategy {
 public:
  struct Options {
    Cluster cluster;
    MirroredStrategy::Options replicas;  // of this worker
    JoinOptions join = {};
    // End the process, with exit code 4, if it takes no notice of a failure of the cluster, because
    // it hangs: JoinOptions::heartbeat_timeout after the failure if it is inside a step,
    // `progress_timeout` after it otherwise.
    bool end_hanging_process = true;
  };
  // Blocks until all workers have joined. InvalidArgument for options that cannot work, and if
  // workers differ; DeadlineExceeded, naming the missing workers, if one does not join, or if
  // worker 0 cannot listen on its address.
  static absl::StatusOr<std::unique_ptr<MultiWorkerMirroredStrategy>> Create(
      const Options& options);
  // Worker 0 waits for the others to end as well, at most for JoinOptions::heartbeat_timeout.
  ~MultiWorkerMirroredStrategy() override;

  const Topology& topology() const override { return topology_; }
  int worker() const override { return options_.cluster.task_index; }
  absl::Status AwaitOtherWorkers() const override;
  absl::Status Rejoin(const absl::Status& why) override;

 private:
  MultiWorkerMirroredStrategy(const Options& options, Topology topology, WorkerReplicas replicas);
  bool rejoins() const;
  // FailedPrecondition after Rejoin has failed.
  absl::Status CheckJoined() const;
  // Joins the cluster; after the loss of a worker meanwhile, again if the options ask for that.
  absl::Status Join(MonotonicTime deadline);
  absl::Status JoinOnce(const JoinOptions& join);
  absl::StatusOr<SessionBackend> MakeBackend() const override;
  absl::StatusOr<SessionBackend> MakeCpuBackend(absl::Span<const std::string> devices) const;
  absl::StatusOr<std::unique_ptr<InputAgreement>> AgreeOnInput() const override;

  const Options options_;  // complete
  Topology topology_;
  const std::unique_ptr<const WorkerReplicas> replicas_;
  std::unique_ptr<const JoinedCluster> joined_;  // null with one worker, and after a failed Rejoin
  mutable std::atomic<int> num_inputs_{0};       // since joining
  const uint64_t process_;                       // random; tells this process from its replacement
  std::vector<std::string> processes_;           // by worker, when they last joined
  int num_vain_ = 0;  // how often in a row they have joined again without a new process
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_MULTI_WORKER_MIRRORED_STRATEGY_H_
