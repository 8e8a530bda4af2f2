// SPDX-License-Identifier: Apache-2.0
//
// Callers: processes that have connected to a port of this process but have not completed the
// handshake. The number of callers, the memory of each, and the time that each handshake can take
// (5 s) are bounded, no matter what callers send. During a flood, callers are accepted and served
// in batches. This also bounds the CPU time, because most of a refused caller's cost is in waking
// up threads.
//
// Callers from addresses that this process expects wait for their turn. All others are strangers; a
// new stranger can replace an earlier one.
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
#include "distribute/collective/tcp/stream.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/owned_socket.h"

namespace mirrorflow {

class Callers {
 public:
  // Serves up to `limit` strangers at a time. Beyond that, a new stranger replaces one from the
  // network (NetworkOf) with the most strangers, so no network can lock out the others. The victim
  // is chosen at random among the strangers of that network that have not yet sent a valid hello
  // or, if all of them have, among all strangers of that network. Evicting the oldest stranger
  // would let a crowd displace each honest caller just before it finishes; evicting the newest
  // would let callers that stall on purpose hold all slots. `handshake` creates the accepting end
  // for a caller on `fd`, on either thread. `tls` is null for plain connections. `log`, which can
  // be null, logs refused callers.
  Callers(size_t limit, TlsContext tls, std::function<Handshake(int fd)> handshake,
          RejectedPeerLog* log)
      : limit_(limit), tls_(std::move(tls)), handshake_(std::move(handshake)), log_(log) {}
  // Must have succeeded before any other function is called.
  absl::Status Start();

  // Sets how many callers to expect from each address (SourceOf). That many callers from each
  // address, less those that have completed their handshakes, wait as bare descriptors: they have
  // no deadline, and no newcomer replaces them. A waiting caller's handshake begins when the caller
  // has sent something and fewer than `max_handshakes` are in progress. Callers and their
  // connections therefore take one descriptor for each expected caller, plus at most
  // `max_handshakes` for strangers at those addresses. A free slot goes to the address with the
  // fewest handshakes in progress, so callers from one address delay those from other addresses by
  // at most one timeout. Further callers from an address are strangers. Must be called before the
  // first Add.
  void Expect(const std::map<std::string, size_t>& callers, size_t max_handshakes);

  // ---- called by the listener's thread ----------------------------------------------------------

  // Adds a caller, and takes ownership of `fd`. Returns how long to wait before accepting more
  // callers: zero except during a flood.
  absl::Duration Add(int fd, const std::string& peer);
  // Records that connections cannot be accepted.
  void Fail(const absl::Status& why);

  // ---- called by the serving thread -------------------------------------------------------------

  // Returns the error that Fail recorded, or OK if there is none.
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
  // Whether no caller is waiting or being served.
  bool empty() const;
  // Appends the events to poll() for before the next Advance. That poll() must have a timeout,
  // because callers have deadlines, and their sockets are not polled during a flood.
  void AddPolled(std::vector<pollfd>* polled) const;
  // Interrupts the poll() that AddPolled describes.
  void Wake();

 private:
  // A caller whose handshake has not begun.
  struct Waiting {
    std::string peer;
    OwnedSocket socket;
  };
  // An address that callers are expected from.
  struct Source {
    size_t expected = 0;  // callers that have not completed their handshakes
    std::deque<Waiting> silent = {};
    std::deque<Waiting> ready = {};  // callers that have sent something
    size_t served = 0;               // handshakes in progress
    uint64_t turn = 0;               // turns_ when its last handshake began

    size_t present() const { return silent.size() + ready.size() + served; }
  };
  struct Caller {
    std::string peer;
    Source* source;       // null if no callers are expected from its address
    bool is_stranger;     // if false, it counts towards num_served_
    MonotonicTime begin;  // when the handshake began
    Conversation conversation;
  };

  // Begins the caller's handshake.
  void Serve(Waiting caller, Source* source, bool is_stranger) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void MoveReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Begins the handshakes of waiting callers while slots are free. Returns whether any began.
  bool ServeWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Evicts a stranger. At least one stranger must be present.
  void EvictStranger() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Expects one caller fewer from `source`, and drops a waiting caller if too many are waiting now.
  void ExpectOneFewerCaller(Source& source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Logs and counts the refusal. Does not remove the caller.
  void Refuse(const std::string& peer, absl::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns a count of refusals that decays with time.
  double RecentRefusals() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns whether RecentRefusals() exceeds the number of strangers that can be served at a time.
  bool IsFlooded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return RecentRefusals() > static_cast<double>(limit_);
  }

  const size_t limit_;
  const TlsContext tls_;
  const std::function<Handshake(int fd)> handshake_;
  RejectedPeerLog* const log_;
  OwnedSocket wake_;  // a non-blocking eventfd
  mutable Mutex mu_;
  std::map<std::string, Source> sources_ ABSL_GUARDED_BY(mu_);  // by address
  size_t max_concurrent_handshakes_ ABSL_GUARDED_BY(mu_) = 0;   // for sources_, without strangers
  // Sums over sources_.
  size_t num_served_ ABSL_GUARDED_BY(mu_) = 0, num_waiting_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t turns_ ABSL_GUARDED_BY(mu_) = 0;
  std::list<Caller> callers_ ABSL_GUARDED_BY(mu_);  // handshakes in progress
  double refusals_ ABSL_GUARDED_BY(mu_) = 0;        // RecentRefusals() at last_refusal_
  MonotonicTime last_refusal_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CALLERS_H_
