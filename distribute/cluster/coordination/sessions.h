// SPDX-License-Identifier: Apache-2.0
//
// Sessions: the processes that have proven themselves to the coordination service, and their calls.
// A session outlives the connections of its process: one that has broken is replaced by another, on
// which the process repeats the calls whose answers it lacks. Each call is performed once.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SESSIONS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SESSIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/cluster/coordination/coordination.pb.h"
#include "distribute/cluster/coordination/worker_process.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

// Thread-safe.
class Sessions {
 public:
  // Takes the answer of a call, signed; null if another connection gets it. Called once.
  using OnAnswer = std::function<void(const coordination::Signed*)>;
  struct Call {
    WorkerProcess process;
    uint64_t sequence = 0;
    coordination::Request request;
  };

  // The process calls on a new connection, with this key, and no longer on an earlier one. Returns
  // the name of that; empty if there is none.
  std::string Connect(const WorkerProcess& process, const std::string& connection,
                      const std::string& key);
  // A connection has ended. The process may come back for so long.
  void Disconnect(const std::string& connection,
                  const std::function<absl::Duration(const WorkerProcess&)>& patience);
  // Forgets the processes that have not come back in time, and returns them.
  std::vector<WorkerProcess> TakeLost(MonotonicTime now);
  // As TakeLost, for the processes without a connection that were the same worker as this one:
  // it has taken their place.
  std::vector<WorkerProcess> TakeReplaced(const WorkerProcess& by);

  // Takes a request. Returns the call to perform, to which Answer must be called; nothing for a
  // call that has come before, whose answer it gets. Unauthenticated, with no answer, for a message
  // that its process has not sent on its present connection, or a call that is over.
  absl::StatusOr<std::optional<Call>> Receive(const coordination::Signed& request,
                                              OnAnswer on_answer);
  // Answers a call that Receive has returned, from any thread.
  void Answer(const WorkerProcess& process, uint64_t sequence, const coordination::Reply& reply);

 private:
  struct Answered {
    std::optional<std::string> reply;  // serialized, once there is one
    OnAnswer on_answer;                // null if nobody waits on the present connection
  };
  struct Session {
    std::string connection;                                // the present one; empty if it has ended
    std::string key;                                       // of the last connection
    MonotonicTime lost = MonotonicTime::InfiniteFuture();  // when the process is
    std::map<uint64_t, Answered> calls;  // without an answer, or whose answer may be lost
    std::set<uint64_t> sequences;        // the latest
  };

  // All require mu_.
  static std::vector<OnAnswer> TakeWaiting(Session* session);
  Session* SessionOf(const std::string& connection);
  template <typename Condition>
  std::vector<WorkerProcess> TakeIf(const Condition& condition);

  std::mutex mu_;
  // Guarded by mu_:
  std::map<WorkerProcess, Session> sessions_;
  std::map<std::string, WorkerProcess> processes_;  // by present connection
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SESSIONS_H_
