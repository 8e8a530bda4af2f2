// SPDX-License-Identifier: Apache-2.0
//
// MultiWorkerMirroredStrategy runs the same program in several processes, called workers, on one or
// more hosts. Together they compute what one process with all their replicas would.
//
//   MF_ASSIGN_OR_RETURN(const Cluster cluster,
//                       ClusterResolver::FromEnvironment(ProcessEnvironment()));
//   MF_ASSIGN_OR_RETURN(auto strategy, MultiWorkerMirroredStrategy::Create({.cluster = cluster}));
//
// The rest of the program is the same as with MirroredStrategy. Every worker creates the same
// sessions in the same order, and prepares and runs the same steps on the same global batches.
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
    // The workers, and which of them this process is. With one worker, the strategy works like
    // MirroredStrategy.
    Cluster cluster;
    // This worker's replicas: their devices, and limits and timeouts as for MirroredStrategy.
    MirroredStrategy::Options replicas;
    // How this worker joins the cluster: secret, certificates, addresses and timeouts.
    JoinOptions join = {};
    // If true, ends the process, with exit code 4, if it hangs and does not react when the cluster
    // fails: after JoinOptions::heartbeat_timeout if it is inside a step, and after
    // JoinOptions::progress_timeout otherwise.
    bool end_hanging_process = true;
  };
  // Blocks until all workers have joined. Returns InvalidArgument if an option is invalid, or if
  // settings differ between workers. Returns DeadlineExceeded, naming the missing workers, if one
  // does not join, or if worker 0 cannot listen on its address.
  static absl::StatusOr<std::unique_ptr<MultiWorkerMirroredStrategy>> Create(
      const Options& options);
  // Leaves the cluster. Worker 0 first waits for the other workers to leave, for at most
  // JoinOptions::heartbeat_timeout.
  ~MultiWorkerMirroredStrategy() override;

  const Topology& topology() const override { return topology_; }
  int worker() const override { return options_.cluster.task_index; }
  absl::Status AwaitOtherWorkers() const override;
  absl::Status Rejoin(const absl::Status& why) override;

 private:
  MultiWorkerMirroredStrategy(const Options& options, Topology topology, WorkerReplicas replicas);
  bool rejoins() const;
  // Returns FailedPrecondition after Rejoin has failed.
  absl::Status CheckJoined() const;
  // Joins the cluster. If a worker is lost meanwhile, retries until `deadline` if the options allow
  // rejoining.
  absl::Status Join(MonotonicTime deadline);
  absl::Status JoinOnce(const JoinOptions& join);
  absl::StatusOr<SessionBackend> MakeBackend() const override;
  absl::StatusOr<SessionBackend> MakeCpuBackend(absl::Span<const std::string> devices) const;
  absl::StatusOr<std::unique_ptr<InputAgreement>> AgreeOnInput() const override;

  const Options options_;  // with defaults filled in
  Topology topology_;
  const std::unique_ptr<const WorkerReplicas> replicas_;
  std::unique_ptr<const JoinedCluster> joined_;  // null with one worker, and after a failed Rejoin
  mutable std::atomic<int> num_inputs_{0};       // inputs created since the last join
  const uint64_t process_;              // random; distinguishes a process from its successor
  std::vector<std::string> processes_;  // by worker, as of the last join
  int num_unchanged_rejoins_ = 0;       // consecutive rejoins without a new process
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_MULTI_WORKER_MIRRORED_STRATEGY_H_
