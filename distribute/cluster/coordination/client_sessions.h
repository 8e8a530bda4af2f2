// SPDX-License-Identifier: Apache-2.0
//
// ClientSessions tracks the coordination service's client processes and their calls. A session
// survives broken connections: the process reconnects and repeats its unanswered calls. Each call
// is performed once.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_CLIENT_SESSIONS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_CLIENT_SESSIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/cluster/coordination/coordination.pb.h"
#include "distribute/cluster/coordination/messages.h"
#include "distribute/cluster/coordination/replay_window.h"
#include "distribute/cluster/coordination/worker_process.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

// Thread-safe.
class ClientSessions {
 public:
  struct SignedAnswer {
    uint64_t sequence = 0;
    std::shared_ptr<const Body> body;  // shared by calls with the same answer
    std::string mac;
  };
  // Receives a call's answer, or null if the call's connection has ended. Called once.
  using OnAnswer = std::function<void(const SignedAnswer*)>;
  struct Call {
    WorkerProcess process;
    uint64_t sequence = 0;
    coordination::Request request;
  };

  // Makes `connection` the only connection on which the process's calls are accepted. Returns the
  // name of the connection that it replaces, or an empty string.
  std::string Connect(const WorkerProcess& process, const std::string& connection,
                      const std::string& key);
  // Records that a connection has ended. The process is lost unless it reconnects within
  // `patience`.
  void Disconnect(const std::string& connection,
                  const std::function<absl::Duration(const WorkerProcess&)>& patience);
  // Forgets and returns the processes that have not reconnected in time. Each has more time if the
  // connections of others have also ended: when a network device restarts, all of them reconnect at
  // once.
  std::vector<WorkerProcess> TakeLost(MonotonicTime now);
  // Forgets and returns the other processes of the same worker that have no connection.
  std::vector<WorkerProcess> TakeReplaced(const WorkerProcess& by);

  // Authenticates a request. Returns the call to perform and to Answer, or nullopt for a repeated
  // call, which gets the first one's answer. Returns Unauthenticated if the request is malformed,
  // its signature is wrong, or the connection is not the process's current one; and
  // FailedPrecondition if the call is a replay: in progress on this connection, or answered and
  // acknowledged. After an error, does not call `on_answer`.
  absl::StatusOr<std::optional<Call>> Receive(const coordination::Signed& request,
                                              OnAnswer on_answer);
  // Answers a call that Receive has returned, from any thread.
  void Answer(const WorkerProcess& process, uint64_t sequence, std::shared_ptr<const Body> reply);

 private:
  struct Made {
    std::shared_ptr<const Body> reply;  // null while in progress
    OnAnswer on_answer;                 // null if the current connection has not made this call
  };
  struct Session {
    std::string connection;                                // the current one; empty if it has ended
    std::string key;                                       // the last connection's
    MonotonicTime lost = MonotonicTime::InfiniteFuture();  // the deadline to reconnect
    std::map<uint64_t, Made> calls;                        // in progress, or not yet acknowledged
    ReplayWindow sequences;
  };

  static std::vector<OnAnswer> TakeWaiting(Session* session);
  Session* SessionOf(const std::string& connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  std::map<WorkerProcess, Session> sessions_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, WorkerProcess> processes_ ABSL_GUARDED_BY(mu_);  // by current connection
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_CLIENT_SESSIONS_H_
