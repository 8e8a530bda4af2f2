// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_LINK_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_LINK_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distribute/cluster/connections/conversation.h"
#include "distribute/cluster/connections/handshake.h"
#include "distribute/cluster/connections/relay.h"
#include "distribute/cluster/connections/tcp_socket.h"
#include "distribute/cluster/connections/tls_files.h"
#include "distribute/cluster/connections/tls_stream.h"
#include "distribute/cluster/coordination/coordination.grpc.pb.h"
#include "distribute/collective/tcp/owned_socket.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

// A worker's connection to the coordination service. Connects, completes the handshake, and
// reconnects when the connection breaks. Thread-safe.
class ServiceLink {
 public:
  struct Options {
    std::string address;  // HOST:PORT
    std::string name;     // the name in the service's certificate; empty: the host
    Handshake::Cluster cluster;
    int worker = 0;
    TlsFiles tls;
  };
  struct Connection {
    uint64_t number = 0;    // counts the connections of this link from 1
    std::string name, key;  // Handshake::connection and SessionKey
    std::unique_ptr<coordination::Coordination::Stub> stub;
  };

  // Returns ResourceExhausted, or an error of CreateTlsContext.
  static absl::StatusOr<std::unique_ptr<ServiceLink>> Create(Options options);
  ~ServiceLink();

  // Blocks until there is a connection. `broken` is the number of a connection that failed, which
  // is closed if it still exists; 0 means none. Returns DeadlineExceeded, with the last error, at
  // the deadline; Cancelled if `is_cancelled` was set before Wake(); and PermissionDenied if one
  // end does not know the secret, the jobs or protocol versions differ, or TLS rejects a
  // certificate. A service with another secret or job is an error only after 20 s: it may belong
  // to another job that still holds the port.
  absl::StatusOr<std::shared_ptr<const Connection>> Get(uint64_t broken, MonotonicTime deadline,
                                                        const std::atomic<bool>& is_cancelled);
  // Makes all calls of Get look at their `is_cancelled`.
  void Wake();

  // Begins to detect the loss of the service. From this call on, Get returns Unavailable if the
  // link has not reconnected within the heartbeat timeout, or if the service's host still refuses
  // connections after TimeToReturn, which means that its process has ended.
  void Keep(absl::Duration heartbeat_timeout);
  // Closes the link for good. Get returns the first `why`.
  void End(const absl::Status& why);
  // Returns why the link is closed for good; OK if it is not.
  absl::Status end() const;

 private:
  ServiceLink(Options options, TlsContext tls, OwnedSocket wake);
  void Run();
  absl::StatusOr<std::unique_ptr<Relay>> Connect();
  absl::StatusOr<std::unique_ptr<Relay>> ConnectTo(const SocketAddress& address,
                                                   MonotonicTime deadline);
  // Blocks until the event, possibly spuriously. Returns Unavailable after the deadline.
  absl::Status WaitFor(int fd, int16_t event, MonotonicTime deadline) const;
  absl::StatusOr<std::unique_ptr<Relay>> Publish(Conversation& conversation);
  void ClearWake() const;
  // Forwards bytes until the connection ends or is abandoned.
  void Pass(Relay& relay) const;
  void NoteEnd();
  // Returns whether retrying is pointless.
  bool IsFinal(const absl::Status& why, MonotonicTime now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns why to give up on the service; OK to try again.
  absl::Status NoteFailure(const absl::Status& why, MonotonicTime* next_report);

  const Options options_;
  const TlsContext tls_;
  const OwnedSocket wake_;  // a non-blocking eventfd
  // Used only by the thread. `addresses_` are those that led to the first connection, so
  // reconnecting does not need the name service. `was_refused_`: the other process refused the
  // last attempt; `port_is_closed_`: its host did.
  std::vector<SocketAddress> addresses_;
  absl::Duration handshake_;  // how long the last successful attempt took
  bool was_refused_ = false, port_is_closed_ = false;
  MonotonicTime refused_since_ = MonotonicTime::InfiniteFuture();
  mutable Mutex mu_;
  CondVar changed_;
  std::shared_ptr<const Connection> connection_ ABSL_GUARDED_BY(mu_);  // null: none
  uint64_t num_connections_ ABSL_GUARDED_BY(mu_) = 0;
  // The time when the last connection ended or the link was created, the number of attempts since,
  // and the error of the last one.
  MonotonicTime since_ ABSL_GUARDED_BY(mu_) = MonotonicTime::Now();
  int tries_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status last_ ABSL_GUARDED_BY(mu_) = absl::UnavailableError("no answer yet");
  absl::Status end_ ABSL_GUARDED_BY(mu_);
  absl::Duration patience_ ABSL_GUARDED_BY(mu_) =
      absl::InfiniteDuration();  // the heartbeat timeout
  bool is_kept_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_LINK_H_
