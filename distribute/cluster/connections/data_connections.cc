// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/data_connections.h"

#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distribute/cluster/connections/back_off.h"
#include "distribute/cluster/connections/callers.h"
#include "distribute/cluster/connections/connection_listener.h"
#include "distribute/cluster/connections/conversation.h"
#include "distribute/cluster/connections/host_port.h"
#include "distribute/cluster/connections/tcp_socket.h"
#include "distribute/cluster/connections/tls_stream.h"
#include "distribute/collective/domain_partners.h"
#include "distribute/collective/tcp/stream.h"
#include "framework/core/descriptors.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/owned_socket.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

constexpr size_t kMaxStrangers = 16;  // served at a time
// Limits the calls in progress to each worker. No worker has to answer all calls at once, and a
// worker that does not answer does not delay calls to others.
constexpr int kMaxCalls = 32;
constexpr absl::Duration kFirstPause = absl::Milliseconds(50), kLongestPause = absl::Seconds(2);
constexpr size_t kMaxNamed = 10;  // ranks that an error names

// Another worker whose ranks are peers of this worker's ranks.
struct Worker {
  std::string address;  // HOST:PORT
  std::string host;     // numeric
  // Connections that this process has yet to make. If a call ends early, it is made again, because
  // strangers may have taken all slots at the other end.
  std::deque<Handshake::Ranks> waiting = {};
  int num_calls = 0;  // in progress
  BackOff pause = BackOff(kFirstPause, kLongestPause);
  MonotonicTime next = MonotonicTime::InfinitePast();  // when to call again
  absl::Status last = absl::OkStatus();                // why the last call ended
};

struct Call {
  Worker& worker;
  Handshake::Ranks ranks;
  Conversation conversation;
};

class Connector {
 public:
  Connector(const Topology& topology, absl::Span<const int> local_ranks, WorkerGroup& workers,
            MonotonicTime deadline, const DataConnectionOptions& options)
      : topology_(topology),
        local_ranks_(local_ranks.begin(), local_ranks.end()),
        workers_(workers),
        deadline_(deadline),
        options_(options),
        partners_(topology),
        connections_(local_ranks.size()) {
    for (const int rank : local_ranks_) peers_.push_back(partners_.PeersOf(rank));
    ForEachMissing([this](int, int) { ++num_missing_; });
  }

  absl::StatusOr<std::vector<std::map<int, std::unique_ptr<Stream>>>> Connect() {
    MF_ASSIGN_OR_RETURN(tls_, CreateTlsContext(options_.tls));
    // The listener and its eventfd, the callers' eventfd, and one caller that was just accepted.
    constexpr int64_t kListening = 4;
    const int64_t callers_at_once =
        kMaxStrangers + std::min(num_missing_, static_cast<int64_t>(options_.max_handshakes));
    MF_RETURN_IF_ERROR(
        EnsureDescriptors("connections for data", num_missing_ + callers_at_once + kListening));
    Callers callers(
        kMaxStrangers, tls_,
        [this](int fd) {
          return Handshake::Accepting(options_.cluster, [this, fd](const Handshake::Ranks& ranks) {
            return Admit(ranks, fd);
          });
        },
        options_.strangers.get());
    MF_RETURN_IF_ERROR(callers.Start());
    const HostPort any_port = {.host = options_.address, .port = 0};
    MF_ASSIGN_OR_RETURN(const auto listener, ConnectionListener::Listen(any_port.ToString()));
    const HostPort own = {.host = options_.address, .port = listener->port()};
    MF_ASSIGN_OR_RETURN(const std::vector<std::string> addresses,
                        workers_.AllGather("data addresses", own.ToString(), deadline_));
    MF_RETURN_IF_ERROR(FindWorkers(addresses));
    callers.Expect(FindCalls(), options_.max_handshakes);
    // Accept callers only after their addresses are known. Earlier callers wait in the kernel's
    // queue.
    MF_RETURN_IF_ERROR(
        listener->Start([&](int fd, const std::string& peer) { return callers.Add(fd, peer); },
                        [&](const absl::Status& why) { callers.Fail(why); }));
    for (;;) {
      MF_RETURN_IF_ERROR(AdvanceCalls());
      MF_RETURN_IF_ERROR(callers.Advance([this](Callers::Proven proven) {
        const Handshake::Ranks& ranks = proven.handshake.ranks();
        return Keep(ranks.accepting, ranks.connecting, std::move(proven.stream));
      }));
      if (num_missing_ == 0) break;
      MF_RETURN_IF_ERROR(Annotate(callers.failure(), own.ToString()));
      if (MonotonicTime::Now() >= deadline_) return TimedOut();
      Wait(callers);
    }
    return std::move(connections_);
  }

 private:
  absl::Status WithRank(const absl::Status& status, int rank) const {
    return WithFailure(status, {.rank = rank, .worker = topology_.replicas[rank].worker});
  }
  std::map<int, std::unique_ptr<Stream>>* ConnectionsOf(int local_rank) {
    const auto it = std::find(local_ranks_.begin(), local_ranks_.end(), local_rank);
    return it == local_ranks_.end() ? nullptr : &connections_[it - local_ranks_.begin()];
  }

  // Calls `call(local, peer)` for each local rank and each of its peers that is not connected yet.
  void ForEachMissing(absl::FunctionRef<void(int local, int peer)> call) const {
    for (size_t i = 0; i < local_ranks_.size(); ++i) {
      for (const int peer : peers_[i]) {
        if (!connections_[i].contains(peer)) call(local_ranks_[i], peer);
      }
    }
  }

  // Returns the peers of all local ranks.
  std::set<int> AllPeers() const {
    std::set<int> all;
    for (const std::vector<int>& peers : peers_) all.insert(peers.begin(), peers.end());
    return all;
  }

  Worker& WorkerOf(int rank) { return others_.at(topology_.replicas[rank].worker); }

  absl::Status FindWorkers(absl::Span<const std::string> addresses) {
    for (const int rank : AllPeers()) {
      const int worker = topology_.replicas[rank].worker;
      if (others_.contains(worker)) continue;
      absl::StatusOr<HostPort> parsed = ParseHostPort(addresses[worker]);
      if (!parsed.ok()) return WithRank(parsed.status(), rank);
      absl::StatusOr<std::string> host = NumericHost(parsed->host);
      if (!host.ok()) return WithRank(host.status(), rank);
      others_.emplace(worker, Worker{.address = addresses[worker], .host = *std::move(host)});
    }
    return absl::OkStatus();
  }

  // Divides the connections into those that this process makes and those that it accepts. Returns
  // how many calls it expects from each address.
  std::map<std::string, size_t> FindCalls() {
    std::map<std::string, size_t> expected;
    ForEachMissing([&](int local, int peer) {
      Worker& worker = WorkerOf(peer);
      if (peer < local) {
        worker.waiting.push_back({.connecting = local, .accepting = peer});
      } else {
        ++expected[worker.host];
      }
    });
    return expected;
  }

  // Checks the rank that an authenticated caller on `fd` claims to be: it must be expected to
  // connect to the accepting rank, must not be connected yet, and must call from its worker's
  // address.
  absl::Status Admit(const Handshake::Ranks& ranks, int fd) {
    const auto* connections = ConnectionsOf(ranks.accepting);
    const bool exists = ranks.connecting >= 0 && ranks.connecting < topology_.world_size();
    if (connections == nullptr || !exists || ranks.connecting <= ranks.accepting ||
        !partners_.ArePeers(ranks.connecting, ranks.accepting)) {
      return absl::PermissionDeniedError(
          absl::StrCat("rank ", ranks.connecting, " does not connect to rank ", ranks.accepting));
    }
    MF_ASSIGN_OR_RETURN(const std::string source, SourceOf(fd));
    if (const auto first = connections->find(ranks.connecting); first != connections->end()) {
      return absl::PermissionDeniedError(
          absl::StrCat("rank ", ranks.connecting, " is already connected, from ",
                       SourceOf(first->second->fd()).value_or("an unknown address")));
    }
    const std::string& host = WorkerOf(ranks.connecting).host;
    if (source == host) return absl::OkStatus();
    return absl::PermissionDeniedError(absl::StrCat("rank ", ranks.connecting,
                                                    " connects from another address; expected ",
                                                    host, ", got ", source));
  }

  // Blocks until a connection can make progress, or for 20 ms.
  void Wait(const Callers& callers) const {
    constexpr int kLongestMs = 20;
    std::vector<pollfd> polled;
    callers.AddPolled(&polled);
    for (const Call& call : calls_) {
      polled.push_back(
          {.fd = call.conversation.fd(), .events = call.conversation.event(), .revents = 0});
    }
    poll(polled.data(), polled.size(), kLongestMs);
  }

  // Keeps `stream` as the connection between `local` and `peer`.
  absl::Status Keep(int local, int peer, std::unique_ptr<Stream> stream) {
    MF_RETURN_IF_ERROR(WithRank(SetConnectionOptions(stream->fd(), options_.timeout), peer));
    if (ConnectionsOf(local)->emplace(peer, std::move(stream)).second) --num_missing_;
    return absl::OkStatus();
  }

  // Starts the calls that are due. Returns whether it started any.
  absl::StatusOr<bool> StartCalls() {
    bool started = false;
    for (auto& [index, worker] : others_) {
      while (!worker.waiting.empty() && worker.num_calls < kMaxCalls &&
             MonotonicTime::Now() >= worker.next) {
        const Handshake::Ranks ranks = worker.waiting.front();
        absl::StatusOr<OwnedSocket> socket = StartConnect(options_.address, worker.address);
        if (absl::IsResourceExhausted(socket.status())) return socket.status();
        if (!socket.ok()) return WithRank(socket.status(), ranks.accepting);
        calls_.push_back(
            {.worker = worker,
             .ranks = ranks,
             .conversation = Conversation(TlsStream(*std::move(socket), tls_, TlsEnd::kConnecting),
                                          Handshake::Connecting(options_.cluster, ranks))});
        worker.waiting.pop_front();
        ++worker.num_calls;
        started = true;
      }
    }
    return started;
  }

  absl::Status AdvanceCalls() {
    for (;;) {
      MF_ASSIGN_OR_RETURN(const bool started, StartCalls());
      bool ended = false;
      for (auto call = calls_.begin(); call != calls_.end();) {
        Worker& worker = call->worker;
        const absl::Status status = call->conversation.Advance();
        if (absl::IsUnavailable(status)) {
          worker.last = status;
          worker.waiting.push_back(call->ranks);
          // Back off only once for calls that fail together.
          const MonotonicTime now = MonotonicTime::Now();
          if (now >= worker.next) worker.next = now + worker.pause.Next();
        } else if (!status.ok()) {
          return WithRank(Annotate(status, worker.address), call->ranks.accepting);
        } else if (call->conversation.done()) {
          MF_RETURN_IF_ERROR(
              Keep(call->ranks.connecting, call->ranks.accepting, call->conversation.TakeStream()));
          worker.pause.Reset();
        } else {
          ++call;
          continue;
        }
        --worker.num_calls;
        call = calls_.erase(call);
        ended = true;
      }
      if (!started && !ended) return absl::OkStatus();
    }
  }

  // Returns an error that names the ranks that have not connected. Its Failure names the lowest.
  absl::Status TimedOut() {
    std::set<int> missing;
    ForEachMissing([&](int, int peer) { missing.insert(peer); });
    const int first = *missing.begin();
    std::vector<int> named(missing.begin(), missing.end());
    if (named.size() > kMaxNamed) named.resize(kMaxNamed);
    std::string text =
        absl::StrCat("connections for data: ", missing.size(), " of ", AllPeers().size(),
                     " ranks did not connect: ", absl::StrJoin(named, ", "));
    if (missing.size() > named.size()) {
      absl::StrAppend(&text, " and ", missing.size() - named.size(), " more");
    }
    if (const Worker& worker = WorkerOf(first); !worker.last.ok()) {
      absl::StrAppend(&text, "; the last call to rank ", first, " at ", worker.address,
                      " failed: ", worker.last.message());
    }
    return WithRank(absl::DeadlineExceededError(text), first);
  }

  const Topology& topology_;
  const std::vector<int> local_ranks_;
  WorkerGroup& workers_;
  const MonotonicTime deadline_;
  const DataConnectionOptions& options_;
  const DomainPartners partners_;
  std::vector<std::vector<int>> peers_;                              // by local rank
  TlsContext tls_;                                                   // null without TLS
  std::vector<std::map<int, std::unique_ptr<Stream>>> connections_;  // by local rank
  int64_t num_missing_ = 0;                                          // connections
  std::map<int, Worker> others_;                                     // by worker
  std::list<Call> calls_;                                            // in progress
};

}  // namespace

absl::StatusOr<std::vector<std::map<int, std::unique_ptr<Stream>>>> ConnectData(
    const Topology& topology, absl::Span<const int> local_ranks, WorkerGroup& workers,
    MonotonicTime deadline, const DataConnectionOptions& options) {
  return Connector(topology, local_ranks, workers, deadline, options).Connect();
}

}  // namespace mirrorflow
