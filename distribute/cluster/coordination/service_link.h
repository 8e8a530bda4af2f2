// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_LINK_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_LINK_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

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

namespace mirrorflow {

// A worker's connection to the coordination service. Makes it, proves itself and that the service
// knows the secret, and makes another one when it breaks. Thread-safe.
class ServiceLink {
 public:
  struct Options {
    std::string address;  // HOST:PORT
    std::string name;     // of the service in its certificate; empty: the host
    Handshake::Cluster cluster;
    int worker = 0;
    TlsFiles tls;
    // Receives a line every few seconds while there is no connection before Keep. May be null.
    std::function<void(absl::string_view)> log;
  };
  struct Connection {
    uint64_t number = 0;  // of the connections of this link, from 1
    std::string name, key;
    std::unique_ptr<coordination::Coordination::Stub> stub;
  };

  // ResourceExhausted, or an error of CreateTlsContext.
  static absl::StatusOr<std::unique_ptr<ServiceLink>> Create(Options options);
  ~ServiceLink();

  // Waits for a connection. `broken`: the number of the one that the caller has found to be broken,
  // which is given up; 0: none. DeadlineExceeded, with the last error; PermissionDenied if the
  // service does not know the secret, this worker does not, its job is another one, or TLS refuses
  // the certificate of one of them.
  absl::StatusOr<std::shared_ptr<const Connection>> Get(uint64_t broken, MonotonicTime deadline);

  // From now on, the service is considered gone when the connection has ended and there is no other
  // one soon, at the latest after the heartbeat timeout: Get is Unavailable.
  void Keep(absl::Duration heartbeat_timeout);
  // The service is considered gone: Get returns `why`, unless there was a reason before.
  void End(const absl::Status& why);
  // Why there will be no connection any more. OK if there may be.
  absl::Status end() const;

 private:
  ServiceLink(Options options, TlsContext tls, OwnedSocket wake);
  void Run();
  absl::StatusOr<std::unique_ptr<Relay>> Connect();
  absl::StatusOr<std::unique_ptr<Relay>> ConnectTo(const SocketAddress& address,
                                                   MonotonicTime deadline);
  // OK if it may be the event; Unavailable after the deadline.
  absl::Status WaitFor(int fd, int16_t event, MonotonicTime deadline) const;
  absl::StatusOr<std::unique_ptr<Relay>> Publish(Conversation& conversation);
  void ClearWake() const;
  // Returns when the connection has ended, or is wanted no more.
  void Pass(Relay& relay) const;
  void NoteEnd();
  // Returns why the service is gone; OK if it may come back.
  absl::Status NoteFailure(const absl::Status& why, MonotonicTime* next_report);

  const Options options_;
  const TlsContext tls_;
  const OwnedSocket wake_;  // an eventfd that does not block
  mutable std::mutex mu_;
  std::condition_variable changed_;
  // Guarded by mu_:
  std::shared_ptr<const Connection> connection_;  // null: none
  uint64_t num_connections_ = 0;
  // When the last connection has ended, or this object begun; how often it has tried since then,
  // and why the last try has failed.
  MonotonicTime since_ = MonotonicTime::Now();
  int tries_ = 0;
  absl::Status last_ = absl::UnavailableError("no answer yet");
  absl::Status end_;
  absl::Duration patience_ = absl::InfiniteDuration();  // the heartbeat timeout
  bool is_kept_ = false;
  std::thread thread_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_LINK_H_
