// SPDX-License-Identifier: Apache-2.0
//
// Callers: processes that have connected to a port of this process but have not completed the
// handshake. Their number, the memory of each, and the time each may take (5 s) are bounded, no
// matter what they send. During a flood, callers are accepted and served in batches, which also
// bounds the CPU time: most of a refused caller's cost is in waking threads up for it.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CALLERS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CALLERS_H_

#include <poll.h>

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "distribute/cluster/connections/conversation.h"
#include "distribute/cluster/connections/handshake.h"
#include "distribute/cluster/connections/rejected_peer_log.h"
#include "distribute/cluster/connections/tls_stream.h"
#include "distribute/collective/tcp/owned_socket.h"
#include "distribute/collective/tcp/stream.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

class Callers {
 public:
  // At most `limit` callers wait. When the limit is reached, a new caller replaces one from the
  // network (NetworkOf) with the most callers, so no network can lock out the others: one that has
  // not sent a valid hello, if there is one, and a random one of these. Were it the oldest, a crowd
  // could replace each honest caller just before it finishes; were it the newest, callers that wait
  // on purpose would hold all places. `handshake` creates the accepting end for a caller on `fd`,
  // on the listener's thread. `tls` is null for plain connections. `strangers` logs refused callers
  // and may be null.
  Callers(size_t limit, TlsContext tls, std::function<Handshake(int fd)> handshake,
          RejectedPeerLog* strangers)
      : limit_(limit),
        tls_(std::move(tls)),
        handshake_(std::move(handshake)),
        strangers_(strangers) {}
  // Must succeed before other calls.
  absl::Status Start();

  // ---- called by the listener's thread ----------------------------------------------------------

  // Returns how long to wait before accepting more callers: zero except during a flood.
  absl::Duration Add(int fd, const std::string& peer);
  // Records that connections cannot be accepted.
  void Fail(const absl::Status& why);

  // ---- called by the serving thread -------------------------------------------------------------

  // Returns why connections cannot be accepted; OK if they can.
  absl::Status failure();
  struct Proven {
    std::string peer;  // as in ConnectionListener::OnConnection
    Handshake handshake;
    std::unique_ptr<Stream> stream;
    absl::Duration duration;  // from the arrival to the end of the handshake
  };
  // Advances all handshakes without blocking. Calls `on_proven`, which must not call this object,
  // for each caller that has completed its handshake, and stops at the first error it returns.
  absl::Status Advance(const std::function<absl::Status(Proven)>& on_proven);
  // Whether no caller is waiting.
  bool empty() const;
  // Adds the events to poll() for before the next Advance. Use a timeout as well: callers have
  // deadlines, and their sockets are not polled during a flood.
  void AddPolled(std::vector<pollfd>* polled) const;
  // Interrupts that poll().
  void Wake();

 private:
  struct Caller {
    std::string peer;
    MonotonicTime arrival;
    Conversation conversation;
  };

  void DropOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Logs and counts the refusal. Does not remove the caller.
  void Refuse(const Caller& caller, absl::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  double RecentRefusals() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether more callers were refused recently than may wait at a time.
  bool IsFlooded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return RecentRefusals() > static_cast<double>(limit_);
  }

  const size_t limit_;
  const TlsContext tls_;
  const std::function<Handshake(int fd)> handshake_;
  RejectedPeerLog* const strangers_;
  OwnedSocket wake_;  // an eventfd that does not block
  mutable Mutex mu_;
  std::list<Caller> callers_ ABSL_GUARDED_BY(mu_);
  double refusals_ ABSL_GUARDED_BY(mu_) = 0;  // RecentRefusals() at last_refusal_
  MonotonicTime last_refusal_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CALLERS_H_
