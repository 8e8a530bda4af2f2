// SPDX-License-Identifier: Apache-2.0
//
// CoordinationClient is a worker's client of the coordination service. It registers the worker, and
// creates a WorkerGroup for each session.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_CLIENT_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
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
    bool external = false;    // whether a separate process, not worker 0, runs the service
    std::string name = {};    // the name in the service's certificate; if empty, the host's name
    std::string secret;
    std::string job;
    TlsFiles tls = {};
    coordination::Member member;  // this worker
    // The service considers this worker lost if it is silent for this long, and this worker
    // considers the service lost if it does not answer for this long. Infinite disables both.
    absl::Duration heartbeat_timeout = absl::Seconds(10);
    // This worker is considered hung if it is inside a step for this long without progress.
    // Infinite disables this. Workers may use different values.
    absl::Duration progress_timeout = absl::InfiniteDuration();
    // How long the other workers wait for this worker while it is between steps.
    absl::Duration prepare_timeout = absl::InfiniteDuration();
  };
  // Registers this worker, and blocks until all workers have registered. Retries while the service
  // cannot be reached. At `deadline`, returns DeadlineExceeded, naming the missing workers or the
  // service's address. Returns InvalidArgument, with both values, if a setting differs between
  // workers; AlreadyExists if another process is registered as this worker and is still alive after
  // 20 s; and PermissionDenied if the service or this worker does not know the secret, or if TLS
  // rejects either certificate.
  static absl::StatusOr<std::unique_ptr<CoordinationClient>> Connect(const Options& options,
                                                                     MonotonicTime deadline);

  // Returns the state of each worker. The calling process need not be a worker. Uses only
  // `coordinator` and the credentials in `options`. Returns the errors of Connect, except those
  // about other workers.
  static absl::StatusOr<coordination::ClusterStatus> GetStatus(const Options& options,
                                                               MonotonicTime deadline);

  // The members of the cluster, by worker.
  const std::vector<coordination::Member>& members() const { return members_; }

  // Creates this worker's end of a new group. The n-th calls of all workers create the same group.
  std::unique_ptr<WorkerGroup> NewGroup();

  // Returns how many groups of this client still exist.
  int64_t num_live_groups() const { return connection_.use_count() - 1; }

  // Whether WorkerGroup::SetStopped has been called on a group.
  bool is_stopped() const;

  // Announces that this worker is leaving, so the service does not treat the end of its connection
  // as a failure. Worker 0 blocks until all workers have left, because it may run the service.
  // After a failure, which all workers have received, it waits only briefly.
  absl::Status Leave(MonotonicTime deadline);

 private:
  class Group;
  class Connection;

  explicit CoordinationClient(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)) {}

  const std::shared_ptr<Connection> connection_;
  std::vector<coordination::Member> members_;
  std::atomic<int> num_groups_{0};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_CLIENT_H_
