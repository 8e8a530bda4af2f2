// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_LINK_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_LINK_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/cluster/connections/conversation.h"
#include "distribute/cluster/connections/handshake.h"
#include "distribute/cluster/connections/relay.h"
#include "distribute/cluster/connections/tcp_socket.h"
#include "distribute/cluster/connections/tls_files.h"
#include "distribute/cluster/connections/tls_stream.h"
#include "distribute/cluster/coordination/coordination.grpc.pb.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/owned_socket.h"

namespace mirrorflow {

// A worker's connection to the coordination service. Connects, completes the handshake, and
// reconnects when the connection breaks. Thread-safe.
class ServiceLink {
 public:
  struct Options {
    std::string address;  // HOST:PORT
    std::string name;     // the name in the service's certificate; if empty, the host's name
    Handshake::Cluster cluster;
    int worker = 0;
    TlsFiles tls;
  };
  struct Connection {
    uint64_t number = 0;    // this link's connections are numbered from 1
    std::string name, key;  // Handshake::connection and SessionKey
    std::unique_ptr<coordination::Coordination::Stub> stub;
  };

  // Creates a link, which starts to connect in the background. Returns the errors of
  // CreateTlsContext, and ResourceExhausted if the process is out of descriptors or threads.
  static absl::StatusOr<std::unique_ptr<ServiceLink>> Create(Options options);
  ~ServiceLink();

  // Blocks until the link is connected, and returns the connection. `broken` is the number of a
  // connection that has failed, or 0; if it is still the current one, closes it first. Returns
  // DeadlineExceeded, with the last error, at the deadline; Cancelled if `is_cancelled` was set
  // before Wake(); and PermissionDenied if one end does not know the secret, the jobs or protocol
  // versions differ, or TLS rejects a certificate. Until the link has connected once, a service
  // with another secret or job is an error only after 20 s, because another job may still hold the
  // port.
  absl::StatusOr<std::shared_ptr<const Connection>> Get(uint64_t broken, MonotonicTime deadline,
                                                        const std::atomic<bool>& is_cancelled);
  // Makes all pending calls of Get check their `is_cancelled`.
  void Wake();

  // Begins to detect the loss of the service. From now on, Get returns Unavailable if the link does
  // not reconnect within the heartbeat timeout, or if the service's host still refuses connections
  // after TimeToReturn, which means that the service's process has ended.
  void Keep(absl::Duration heartbeat_timeout);
  // Closes the link for good. From now on, Get returns the first `why`.
  void End(const absl::Status& why);
  // Returns why the link is closed for good; OK if it is not.
  absl::Status end() const;

 private:
  ServiceLink(Options options, TlsContext tls, OwnedSocket wake)
      : options_(std::move(options)), tls_(std::move(tls)), wake_(std::move(wake)) {}
  void Run();
  absl::StatusOr<std::unique_ptr<Relay>> Connect();
  absl::StatusOr<std::unique_ptr<Relay>> ConnectTo(const addrinfo& address, MonotonicTime deadline);
  // Blocks until `event` occurs on `fd`; may also return earlier. Returns Unavailable after the
  // deadline.
  absl::Status WaitFor(int fd, int16_t event, MonotonicTime deadline) const;
  absl::StatusOr<std::unique_ptr<Relay>> Publish(Conversation& conversation);
  void ClearWake() const;
  // Forwards bytes until the connection ends or is abandoned.
  void Pass(Relay& relay) const;
  void NoteEnd();
  // Returns whether retrying is pointless.
  bool IsFinal(const absl::Status& why, MonotonicTime now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Records and logs a failed attempt. Returns the error to give up with, or OK to retry.
  absl::Status NoteFailure(const absl::Status& why, MonotonicTime* next_report);

  const Options options_;
  const TlsContext tls_;
  const OwnedSocket wake_;  // a non-blocking eventfd
  // Used only by the thread. `addresses_`: the resolved addresses, kept after the first connection
  // so that reconnecting does not need the name service. `was_refused_`: whether the other process
  // refused the last attempt. `port_is_closed_`: whether the other host refused it.
  Addresses addresses_;
  absl::Duration handshake_;  // how long the last successful attempt took
  bool was_refused_ = false, port_is_closed_ = false;
  MonotonicTime refused_since_ = MonotonicTime::InfiniteFuture();
  mutable Mutex mu_;
  CondVar changed_;
  std::shared_ptr<const Connection> connection_ ABSL_GUARDED_BY(mu_);  // null if there is none
  uint64_t num_connections_ ABSL_GUARDED_BY(mu_) = 0;
  // When the last connection ended or the link was created, how many attempts have been made since,
  // and the last attempt's error.
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
