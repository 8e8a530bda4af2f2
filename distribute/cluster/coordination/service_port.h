// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_PORT_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_PORT_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "distribute/cluster/connections/callers.h"
#include "distribute/cluster/connections/connection_listener.h"
#include "distribute/cluster/connections/handshake.h"
#include "distribute/cluster/connections/rejected_peer_log.h"
#include "distribute/cluster/connections/tls_files.h"
#include "distribute/cluster/connections/tls_stream.h"
#include "distribute/cluster/coordination/service_links.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

// The coordination service's port. Listens on one address only. Passes each connection to gRPC
// after its handshake, and limits the number of connections both before and after the handshake.
class ServicePort {
 public:
  struct Options {
    std::string address;  // HOST:PORT
    int num_workers = 1;
    Handshake::Cluster cluster;
    TlsFiles tls;
    // Called after a handshake and before the connection's first call. Calls are signed with
    // Handshake::SessionKey. Returns the name of a connection to close, or "". Runs on the same
    // thread as `on_disconnected`.
    std::function<std::string(const Handshake& handshake)> on_connected;
    // Called when a connection has ended; the name is its Handshake::connection.
    ServiceLinks::OnEnd on_disconnected;
  };
  // Returns Unavailable, with the system's reason, if the address cannot be used, and
  // ResourceExhausted if the process cannot open a connection for each worker.
  static absl::StatusOr<std::unique_ptr<ServicePort>> Open(Options options, grpc::Service* service);
  // Waits up to 2 s for calls in progress to end and for their answers to be sent.
  ~ServicePort();

  int port() const { return listener_->port(); }

 private:
  ServicePort(Options options, TlsContext tls);
  void Serve();
  absl::Status Admit(int worker) const;
  absl::Status Connect(Callers::Proven proven);

  const Options options_;
  RejectedPeerLog strangers_;
  Callers callers_;
  ServiceLinks links_;  // named by Handshake::connection; used only by the serving thread
  std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  Mutex mu_;
  // When the serving thread must stop at the latest.
  MonotonicTime stop_ ABSL_GUARDED_BY(mu_) = MonotonicTime::InfiniteFuture();
  std::thread thread_;
  std::unique_ptr<ConnectionListener> listener_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_PORT_H_
