// SPDX-License-Identifier: Apache-2.0
//
// CoordinationClient is a worker's end of the coordination service: its registration, and a
// WorkerGroup for each session.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_CLIENT_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/cluster/connections/tls_files.h"
#include "distribute/cluster/coordination/coordination.pb.h"
#include "framework/core/monotonic_time.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

class CoordinationClient {
 public:
  struct Options {
    std::string coordinator;  // HOST:PORT
    bool external = false;    // a separate process serves it, not worker 0
    std::string name = {};    // the service's name in its certificate; empty: the host
    std::string secret;
    std::string job;
    TlsFiles tls = {};
    coordination::Member member;  // this worker
    // The service considers this worker lost if it is silent for this long, and this worker
    // considers the service lost if it does not answer for this long. Infinite disables both.
    absl::Duration heartbeat_timeout = absl::Seconds(10);
    // This worker is considered hung if it is inside a step for this long without progress. Workers
    // may use different values. Infinite: never.
    absl::Duration progress_timeout = absl::InfiniteDuration();
    // How long the others wait for this worker while it is between steps.
    absl::Duration prepare_timeout = absl::InfiniteDuration();
  };
  // Registers this worker, and blocks until all workers have registered. Retries until `deadline`
  // if the service cannot be reached. Returns DeadlineExceeded, naming the missing workers or the
  // address; InvalidArgument, with both values, if workers differ; AlreadyExists if another process
  // is registered as this worker and is still alive after 20 s; PermissionDenied if the service or
  // this worker does not know the secret, or TLS rejects the certificate of either.
  static absl::StatusOr<std::unique_ptr<CoordinationClient>> Connect(const Options& options,
                                                                     MonotonicTime deadline);
  ~CoordinationClient();

  // Asks the service for the state of each worker, without being a worker. Uses only `coordinator`
  // and the credentials in `options`. Returns the errors of Connect, except those about other
  // workers.
  static absl::StatusOr<coordination::ClusterStatus> GetStatus(const Options& options,
                                                               MonotonicTime deadline);

  // Indexed by worker.
  const std::vector<coordination::Member>& members() const { return members_; }

  // Returns the next group. The n-th call returns the same group on all workers.
  std::unique_ptr<WorkerGroup> NewGroup();

  // How many of the groups still exist.
  int64_t num_live_groups() const { return connection_.use_count() - 1; }

  // Whether WorkerGroup::SetStopped has been called on a group.
  bool is_stopped() const;

  // Tells the service that this worker is leaving, so its end is not taken for a failure. Worker 0
  // blocks until all workers have left, because it may run the service. After a failure, which all
  // of them have received, it waits only briefly.
  absl::Status Leave(MonotonicTime deadline);

 private:
  class Group;
  class Connection;

  explicit CoordinationClient(std::shared_ptr<Connection> connection);

  const std::shared_ptr<Connection> connection_;
  std::vector<coordination::Member> members_;
  std::atomic<int> num_groups_{0};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_CLIENT_H_
