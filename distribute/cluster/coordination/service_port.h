// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_PORT_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_PORT_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distribute/cluster/connections/callers.h"
#include "distribute/cluster/connections/connection_listener.h"
#include "distribute/cluster/connections/handshake.h"
#include "distribute/cluster/connections/relay.h"
#include "distribute/cluster/connections/stranger_log.h"
#include "distribute/cluster/connections/tls_files.h"
#include "distribute/cluster/connections/tls_stream.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

// Where the coordination service listens: one address, and no other. gRPC gets a connection only
// once its other end has proven itself (Handshake), and there are few others at a time.
class ServicePort {
 public:
  struct Options {
    std::string address;  // HOST:PORT
    int num_workers = 1;
    Handshake::Cluster cluster;
    TlsFiles tls;
    // Both are called by one thread. A process has proven itself: calls may come, signed with
    // Handshake::SessionKey. Returns the name of an earlier connection, which is closed, or "".
    std::function<std::string(const Handshake& handshake)> on_connected;
    // A connection with this Handshake::connection has ended, which had this round-trip time.
    std::function<void(const std::string& connection, absl::Duration round_trip)> on_disconnected;
    std::function<void(absl::string_view line)> log;  // may be null
  };
  // Unavailable, with the system's reason, if the address cannot be used; ResourceExhausted if the
  // process cannot open a connection for each worker.
  static absl::StatusOr<std::unique_ptr<ServicePort>> Open(Options options, grpc::Service* service);
  // Waits a moment for calls in progress to end, and for their answers to leave.
  ~ServicePort();

  int port() const { return listener_->port(); }

 private:
  ServicePort(Options options, TlsContext tls);
  void Serve();
  absl::Status Admit() const;
  absl::Status Connect(Callers::Proven proven);

  const Options options_;
  StrangerLog strangers_;
  Callers callers_;
  std::map<std::string, std::unique_ptr<Relay>> relays_;  // by connection; of the serving thread
  std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mu_;
  MonotonicTime stop_ = MonotonicTime::InfiniteFuture();  // at the latest; guarded by mu_
  std::thread thread_;
  std::unique_ptr<ConnectionListener> listener_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_PORT_H_
