// SPDX-License-Identifier: Apache-2.0
//
// CoordinationServer runs the coordination service of one cluster, in worker 0 or in a separate
// process. Only workers 0 to num_workers - 1 can use it, each with one process at a time, and only
// if they know the secret. It listens on one address. Its memory is bounded, whatever strangers
// send.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_SERVER_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "distribute/cluster/connections/tls_files.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

class CoordinationServer {
 public:
  struct Options {
    std::string address;  // HOST:PORT to listen on; port 0 selects a free port
    int num_workers = 1;
    // The expected HOST:PORT of each worker, for log and error messages; empty if unknown.
    std::vector<std::string> worker_addresses = {};
    std::string secret;  // if empty, every caller that can connect is trusted
    std::string job;     // distinguishes jobs with the same secret
    TlsFiles tls = {};
  };
  // Starts the service. While the address cannot be used, retries until `deadline`, because another
  // process may still hold the port, or the host may not have the address yet. At the deadline,
  // returns DeadlineExceeded. Without a deadline, returns Unavailable immediately. Returns
  // InvalidArgument immediately for an address that this process can never use.
  static absl::StatusOr<std::unique_ptr<CoordinationServer>> Start(
      const Options& options, MonotonicTime deadline = MonotonicTime::InfinitePast());

  // Ends all calls in progress.
  virtual ~CoordinationServer() = default;

  virtual int port() const = 0;

  // Requests that all workers stop (WorkerGroup::OnStopRequest). `signal` is the number of the
  // signal that caused the request.
  virtual void RequestStop(int signal) = 0;

  // Blocks until all workers have registered, and each of them has then left or was lost. Returns
  // DeadlineExceeded, naming the missing workers, if not all have registered by `start_deadline`;
  // Cancelled if RequestStop was called before all had registered; and Unavailable, with the first
  // reason, if a worker failed, was lost or was stopped.
  virtual absl::Status WaitUntilOver(MonotonicTime start_deadline) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_SERVER_H_
