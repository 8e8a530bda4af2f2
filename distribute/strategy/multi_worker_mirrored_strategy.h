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

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/cluster/cluster_resolver.h"
#include "distribute/cluster/collective_kind.h"
#include "distribute/cluster/connections/tls_files.h"
#include "distribute/collective/exchange_options.h"
#include "distribute/strategy/strategy.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

struct ConnectOptions;
struct TransportRequest;

namespace coordination {
class Member;
}  // namespace coordination

class MultiWorkerMirroredStrategy final : public Strategy {
 public:
  struct Options {
    Cluster cluster;
    MirroredStrategy::Options replicas;  // of this worker
    // The secret that all workers of the cluster share; default: the one in the cluster's
    // secret_file. Without it, every process that can reach the coordination service is trusted.
    std::string secret = "";
    // Required to run without a secret, unless the service is on the loopback device.
    bool insecure = false;
    // Distinguishes jobs that share a secret, or have none. Default: the cluster's job, or empty
    // with an external coordinator, which cannot know it.
    std::string job = "";
    // Certificates of this worker. The coordination service, and data over TCP, are encrypted.
    TlsFiles tls = {};
    // ADDRESS or ADDRESS:PORT of this host at which worker 0 serves the coordination service.
    // Default: the coordinator's address in the cluster.
    std::string bind = "";
    // ADDRESS of this host that the other workers use for data. Default: that of the network device
    // on the way to the coordinator, or `bind`.
    std::string advertise = "";
    // A process of its own serves the coordination service, instead of worker 0.
    bool external_coordinator = false;
    CollectiveKind collective = CollectiveKind::kAuto;
    ExchangeOptions exchange = {};  // between CPUs of different hosts
    // Limit for finding the coordination service and all other workers.
    absl::Duration connect_timeout = absl::Minutes(5);
    // How long the others wait for a worker that is alive but late, before the first step or
    // between two, because it loads data, compiles or runs a callback. A warning names it each
    // minute.
    absl::Duration prepare_timeout = absl::Minutes(30);
    // A worker that sends no heartbeat for this long is considered lost, and every worker's current
    // step fails. Workers may use different values.
    absl::Duration heartbeat_timeout = absl::Seconds(10);
    // A worker that is inside a step for this long without starting a collective is considered
    // hung, and every worker's current step fails. Compilation and waiting for a late worker do not
    // count. Workers may use different values.
    absl::Duration progress_timeout = absl::Minutes(5);
    // End the process, with exit code 4, if it takes no notice of a failure of the cluster, because
    // it hangs: `heartbeat_timeout` after the failure if it is inside a step, `progress_timeout`
    // after it otherwise.
    bool end_hanging_process = true;
  };
  // Blocks until all workers have joined. InvalidArgument for options that cannot work, and if
  // workers differ; DeadlineExceeded, naming the missing workers, if one does not join, or if
  // worker 0 cannot listen on its address.
  static absl::StatusOr<std::unique_ptr<MultiWorkerMirroredStrategy>> Create(
      const Options& options);
  // Worker 0 waits for the others to end as well, at most for Options::heartbeat_timeout.
  ~MultiWorkerMirroredStrategy() override;

  const Topology& topology() const override { return topology_; }
  int worker() const override { return options_.cluster.task_index; }

 private:
  struct Coordination;  // the service, this worker's client and the groups of its sessions

  MultiWorkerMirroredStrategy(const Options& options, std::vector<std::string> devices,
                              bool on_gpus);
  absl::Status Join();
  std::string ProtectionOfData() const;  // for people
  // Returns the description of this worker that the others get when it joins.
  absl::StatusOr<coordination::Member> Describe() const;
  // The memory domain of each worker, if the replicas are on CPUs.
  absl::StatusOr<std::vector<int>> FormDomains(MonotonicTime deadline);
  TransportRequest TransportWanted() const;
  absl::Status ChooseTransport(MonotonicTime deadline);
  absl::Status FindCostsOfLink(MonotonicTime deadline);
  absl::Status CheckGpusDiffer() const;
  absl::Status UseCommonInstructionSet() const;
  ConnectOptions ConnectionOfCpus() const;
  absl::StatusOr<SessionBackend> CreateCpuBackend() const;
  absl::StatusOr<SessionBackend> MakeBackend() const override;
  absl::StatusOr<std::unique_ptr<InputAgreement>> AgreeOnInput() const override;

  Options options_;
  const std::vector<std::string> devices_;  // of this worker
  const bool on_gpus_;
  const std::unique_ptr<Coordination> coordination_;
  Topology topology_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_MULTI_WORKER_MIRRORED_STRATEGY_H_
