// SPDX-License-Identifier: Apache-2.0
//
// Callers: the processes that have connected to a port of this process and have not proven
// themselves yet. Whatever they do, there are few of them, each takes a few hundred bytes, and none
// stays for longer than five seconds.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CALLERS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CALLERS_H_

#include <poll.h>

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "distribute/cluster/connections/conversation.h"
#include "distribute/cluster/connections/handshake.h"
#include "distribute/cluster/connections/stranger_log.h"
#include "distribute/cluster/connections/tls_stream.h"
#include "distribute/collective/tcp/owned_socket.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

class Callers {
 public:
  // At most `limit` callers wait. Honest ones prove themselves at once, so one that comes later
  // takes the place of the oldest of the host that has the most: no host keeps the others out.
  // `handshake` makes the accepting end for a caller on `fd`. `tls`: null for plain connections.
  // `strangers`: of refused callers; may be null.
  Callers(size_t limit, TlsContext tls, std::function<Handshake(int fd)> handshake,
          StrangerLog* strangers)
      : limit_(limit),
        tls_(std::move(tls)),
        handshake_(std::move(handshake)),
        strangers_(strangers) {}
  // Must succeed before other calls.
  absl::Status Start();

  // ---- called by a ConnectionListener, from its thread
  // -------------------------------------------

  void Add(int fd, const std::string& peer);
  // No connection can be accepted.
  void Fail(const absl::Status& why);

  // ---- called by the thread that serves them
  // -----------------------------------------------------

  // Why no connection can be accepted; OK if it can.
  absl::Status failure();
  struct Proven {
    std::string peer;  // as in ConnectionListener::OnConnection
    Handshake handshake;
    std::unique_ptr<Stream> stream;
  };
  // Moves bytes without waiting. Calls `on_proven` for each caller that has proven itself, and
  // returns its first error.
  absl::Status Advance(const std::function<absl::Status(Proven)>& on_proven);
  // Whether none waits.
  bool empty() const { return callers_.empty(); }
  // Adds what poll() must wait for until the next Advance, besides the time.
  void AddPolled(std::vector<pollfd>* polled) const;
  // Wakes the thread out of that poll().
  void Wake();

 private:
  struct Arrival {
    OwnedSocket socket;
    std::string peer;
  };
  struct Caller {
    std::string peer;
    MonotonicTime deadline;
    Conversation conversation;
  };

  std::list<Arrival> TakeArrivals();
  void Accept(Arrival arrival);
  void LogRefused(const Caller& caller, absl::string_view why) const;

  const size_t limit_;
  const TlsContext tls_;
  const std::function<Handshake(int fd)> handshake_;
  StrangerLog* const strangers_;
  OwnedSocket wake_;           // an eventfd that does not block
  std::list<Caller> callers_;  // oldest first
  std::mutex mu_;
  // Guarded by mu_:
  std::list<Arrival> arrived_;  // oldest first
  absl::Status failure_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CALLERS_H_
