// SPDX-License-Identifier: Apache-2.0
//
// Callers: processes that have connected to a port of this process but have not completed the
// handshake. Their number, the memory of each, and the time each may take (5 s) are bounded, no
// matter what they send. During a flood, callers are accepted and served in batches, which also
// bounds the CPU time: most of a refused caller's cost is in waking threads up for it.
//
// Callers from addresses that this process expects wait for their turn. All others are strangers,
// of which each newcomer may replace another one.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CALLERS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CALLERS_H_

#include <poll.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
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
  // There are places for `limit` strangers. When all are taken, a new one replaces one from the
  // network (NetworkOf) with the most strangers, so no network can lock out the others: one that
  // has not sent a valid hello, if there is one, and a random one of these. Were it the oldest, a
  // crowd could replace each honest caller just before it finishes; were it the newest, callers
  // that wait on purpose would hold all places. `handshake` creates the accepting end for a caller
  // on `fd`, on either thread. `tls` is null for plain connections. `log`, which may be
  // null, logs refused callers.
  Callers(size_t limit, TlsContext tls, std::function<Handshake(int fd)> handshake,
          RejectedPeerLog* log)
      : limit_(limit), tls_(std::move(tls)), handshake_(std::move(handshake)), log_(log) {}
  // Must succeed before other calls.
  absl::Status Start();

  // How many callers are expected from an address (SourceOf), by address. That many from each, less
  // those that have completed their handshakes, wait as bare descriptors, which no newcomer
  // replaces and which have no deadline, until they have sent something and one of `places`
  // handshakes is free. So callers and their connections take one descriptor for each caller that
  // is expected, and at most one more for each of `places`, if strangers of that address hold them.
  // A place goes to the address that has the fewest, so callers of one address delay
  // those of the others by one timeout at most. Further callers from an address are strangers. Call
  // before the first Add.
  void Expect(const std::map<std::string, size_t>& callers, size_t places);

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
    absl::Duration duration;  // of the handshake
  };
  // Advances all handshakes without blocking. Calls `on_proven`, which must not call this object,
  // for each caller that has completed its handshake, and stops at the first error it returns.
  absl::Status Advance(const std::function<absl::Status(Proven)>& on_proven);
  // Whether there are no callers.
  bool empty() const;
  // Adds the events to poll() for before the next Advance. Use a timeout as well: callers have
  // deadlines, and their sockets are not polled during a flood.
  void AddPolled(std::vector<pollfd>* polled) const;
  // Interrupts that poll().
  void Wake();

 private:
  // A caller without a place.
  struct Waiting {
    std::string peer;
    OwnedSocket socket;
  };
  // An address from which callers are expected.
  struct Source {
    size_t expected = 0;  // that have not completed their handshakes
    std::deque<Waiting> silent = {};
    std::deque<Waiting> ready = {};  // that have sent something
    size_t served = 0;               // its callers that have a place
    uint64_t turn = 0;               // when one of them last got it

    size_t present() const { return silent.size() + ready.size() + served; }
  };
  struct Caller {
    std::string peer;
    Source* source;       // of its address; null if none are expected from there
    bool is_stranger;     // false: it has one of the places for callers from sources_
    MonotonicTime begin;  // of the handshake
    Conversation conversation;
  };

  // Gives the caller a place.
  void Serve(Waiting caller, Source* source, bool is_stranger) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FindReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives free places to callers that wait. Returns whether there were any.
  bool ServeWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Drops a stranger.
  void DropOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Expects one caller less, and drops one that waits if there are now too many.
  void ExpectOneLess(Source& source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Logs and counts the refusal. Does not remove the caller.
  void Refuse(const std::string& peer, absl::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  double RecentRefusals() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether more callers were refused recently than there are places for strangers.
  bool IsFlooded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return RecentRefusals() > static_cast<double>(limit_);
  }

  const size_t limit_;
  const TlsContext tls_;
  const std::function<Handshake(int fd)> handshake_;
  RejectedPeerLog* const log_;
  OwnedSocket wake_;  // an eventfd that does not block
  mutable Mutex mu_;
  std::map<std::string, Source> sources_ ABSL_GUARDED_BY(mu_);  // by address
  size_t places_ ABSL_GUARDED_BY(mu_) = 0;                      // for callers from sources_
  size_t num_served_ ABSL_GUARDED_BY(mu_) = 0, num_waiting_ ABSL_GUARDED_BY(mu_) = 0;  // of these
  uint64_t turns_ ABSL_GUARDED_BY(mu_) = 0;
  std::list<Caller> callers_ ABSL_GUARDED_BY(mu_);  // that have a place
  double refusals_ ABSL_GUARDED_BY(mu_) = 0;        // RecentRefusals() at last_refusal_
  MonotonicTime last_refusal_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CALLERS_H_
