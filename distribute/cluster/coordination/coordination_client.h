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
    bool external = false;    // a process of its own serves it, not worker 0
    std::string name = {};    // of the service in its certificate; empty: the host
    std::string secret;
    std::string job;
    TlsFiles tls = {};
    coordination::Member member;  // this worker
    // The service considers this worker lost if it is silent for this long, and this worker the
    // service if it does not answer. Infinite: neither does.
    absl::Duration heartbeat_timeout = absl::Seconds(10);
    // This worker hangs if it is inside a step for this long without progress. Workers may use
    // different values. Infinite: never.
    absl::Duration progress_timeout = absl::InfiniteDuration();
    // How long the others wait for this worker while it is between steps.
    absl::Duration prepare_timeout = absl::InfiniteDuration();
  };
  // Registers this worker, and waits until all workers have. Tries again until `deadline` if the
  // service cannot be reached. Returns DeadlineExceeded, naming the missing workers or the address;
  // InvalidArgument, with both values, if workers differ; AlreadyExists if another process is this
  // worker and still lives after 20 s; PermissionDenied if the service does not know the secret,
  // this worker does not, or TLS refuses the certificate of one of them.
  static absl::StatusOr<std::unique_ptr<CoordinationClient>> Connect(const Options& options,
                                                                     MonotonicTime deadline);
  ~CoordinationClient();

  // Asks the service which worker is where, without being one: of `options`, only `coordinator` and
  // how to prove oneself count. Same errors as Connect, except that none is about other workers.
  static absl::StatusOr<coordination::ClusterStatus> GetStatus(const Options& options,
                                                               MonotonicTime deadline);

  // By worker.
  const std::vector<coordination::Member>& members() const { return members_; }

  // Returns the next group. The n-th call has the same group on all workers.
  std::unique_ptr<WorkerGroup> NewGroup();

  // How many of the groups still exist.
  int64_t num_live_groups() const { return connection_.use_count() - 1; }

  // Whether WorkerGroup::SetStopped has been called on a group.
  bool is_stopped() const;

  // Tells the service that this worker ends, so that this does not look like a failure. Worker 0
  // waits until all workers have left, because it may serve the service; after a failure, which
  // they have received, only for a moment.
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
