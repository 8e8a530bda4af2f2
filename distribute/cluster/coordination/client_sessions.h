// SPDX-License-Identifier: Apache-2.0
//
// ClientSessions tracks the coordination service's client processes and their calls. A session
// survives broken connections: the process reconnects and repeats its unanswered calls. Each call
// is performed only once.
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

  // Accepts the process's calls only on `connection` from now on. Returns the name of the
  // connection that `connection` replaces, or an empty string. `key` signs the messages on
  // `connection`.
  std::string Connect(const WorkerProcess& process, const std::string& connection,
                      const std::string& key);
  // Records that a connection has ended. Its process is lost unless it reconnects within the time
  // that `patience` returns.
  void Disconnect(const std::string& connection,
                  const std::function<absl::Duration(const WorkerProcess&)>& patience);
  // Forgets and returns the processes that have not reconnected in time. Each process has more time
  // if the connections of other processes have also ended, because all of them reconnect at once
  // when a network device restarts.
  std::vector<WorkerProcess> TakeLost(MonotonicTime now);
  // Forgets and returns the other processes of the same worker that have no connection.
  std::vector<WorkerProcess> TakeReplaced(const WorkerProcess& by);

  // Authenticates a request. Returns the call, which the caller must perform and then Answer.
  // Returns nullopt for a repeated call, which receives the answer to the first one. Returns
  // Unauthenticated if the request is malformed, its signature is wrong, or its connection is not
  // the process's current one. Returns FailedPrecondition if the call is a replay: it is already in
  // progress on this connection, or was answered and acknowledged. After an error, does not call
  // `on_answer`.
  absl::StatusOr<std::optional<Call>> Receive(const coordination::Signed& request,
                                              OnAnswer on_answer);
  // Answers a call that Receive has returned, from any thread.
  void Answer(const WorkerProcess& process, uint64_t sequence, std::shared_ptr<const Body> reply);

 private:
  struct Made {
    std::shared_ptr<const Body> reply;  // null while in progress
    OnAnswer on_answer;                 // null if the call was not made on the current connection
  };
  struct Session {
    std::string connection;                                // current connection; empty if none
    std::string key;                                       // of the last connection
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
