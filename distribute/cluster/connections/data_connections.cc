// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/data_connections.h"

#include <poll.h>

#include <algorithm>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/back_off.h"
#include "distribute/cluster/connections/callers.h"
#include "distribute/cluster/connections/connection_listener.h"
#include "distribute/cluster/connections/conversation.h"
#include "distribute/cluster/connections/host_port.h"
#include "distribute/cluster/connections/tcp_socket.h"
#include "distribute/cluster/connections/tls_stream.h"
#include "distribute/collective/tcp/owned_socket.h"
#include "distribute/collective/tcp/stream.h"
#include "framework/core/descriptors.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

// Places for callers in addition to the expected ones, and the most in all: each may take 100 KB.
constexpr size_t kMoreCallers = 16;
constexpr size_t kMaxCallers = 1024;
constexpr absl::Duration kFirstPause = absl::Milliseconds(50), kLongestPause = absl::Seconds(2);

// A connection from this process to a peer. It is made again if it ends early: strangers may have
// taken the places of callers at the other end.
struct Call {
  Handshake::Ranks ranks;
  std::string address;
  std::optional<Conversation> conversation = std::nullopt;
  BackOff pause = BackOff(kFirstPause, kLongestPause);
  MonotonicTime next = MonotonicTime::InfinitePast();  // when to call again
  absl::Status last = absl::OkStatus();                // why the last call has ended
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
        connections_(local_ranks.size()) {}

  absl::StatusOr<std::vector<std::map<int, std::unique_ptr<Stream>>>> Connect() {
    if (!options_.tls.empty()) {
      MF_ASSIGN_OR_RETURN(tls_, CreateTlsContext(options_.tls));
    }
    // The listener, its event and that of the callers, and a caller that has no place yet.
    constexpr int64_t kListening = 4;
    MF_RETURN_IF_ERROR(EnsureDescriptors(
        "connections for data",
        static_cast<int64_t>(NumMissing()) + static_cast<int64_t>(kMoreCallers) + kListening));
    Callers callers(
        std::min(kMaxCallers, kMoreCallers + NumMissing()), tls_,
        [this](int fd) {
          return Handshake::Accepting(options_.cluster, [this, fd](const Handshake::Ranks& ranks) {
            return Admit(ranks, fd);
          });
        },
        options_.strangers.get());
    MF_RETURN_IF_ERROR(callers.Start());
    const HostPort any_port = {.host = options_.address, .port = 0};
    MF_ASSIGN_OR_RETURN(const auto listener, ConnectionListener::Listen(any_port.ToString()));
    MF_RETURN_IF_ERROR(
        listener->Start([&](int fd, const std::string& peer) { return callers.Add(fd, peer); },
                        [&](const absl::Status& why) { callers.Fail(why); }));
    const HostPort own = {.host = options_.address, .port = listener->port()};
    MF_ASSIGN_OR_RETURN(addresses_,
                        workers_.AllGather("data addresses", own.ToString(), deadline_));
    FindCalls();
    for (;;) {
      MF_RETURN_IF_ERROR(AdvanceCalls());
      MF_RETURN_IF_ERROR(callers.Advance([this](Callers::Proven proven) {
        const Handshake::Ranks& ranks = proven.handshake.ranks();
        return Keep(ranks.accepting, ranks.connecting, std::move(proven.stream));
      }));
      const int missing = FirstMissing();
      if (missing < 0) break;
      MF_RETURN_IF_ERROR(Annotate(callers.failure(), own.ToString()));
      if (MonotonicTime::Now() >= deadline_) return TimedOut(missing);
      Wait(callers);
    }
    return std::move(connections_);
  }

 private:
  bool IsNear(int a, int b) const {
    return topology_.replicas[a].domain == topology_.replicas[b].domain;
  }
  absl::Status WithRank(const absl::Status& status, int rank) const {
    return WithFailure(status, {.rank = rank, .worker = topology_.replicas[rank].worker});
  }
  std::map<int, std::unique_ptr<Stream>>* ConnectionsOf(int local_rank) {
    const auto it = std::find(local_ranks_.begin(), local_ranks_.end(), local_rank);
    return it == local_ranks_.end() ? nullptr : &connections_[it - local_ranks_.begin()];
  }

  // A peer of a local rank that is not connected with it; -1 if there is none.
  int FirstMissing() {
    for (const int local : local_ranks_) {
      for (int peer = 0; peer < topology_.world_size(); ++peer) {
        if (!IsNear(local, peer) && ConnectionsOf(local)->count(peer) == 0) return peer;
      }
    }
    return -1;
  }

  // How many connections the local ranks still lack.
  size_t NumMissing() {
    size_t count = 0;
    for (const int local : local_ranks_) {
      for (int peer = 0; peer < topology_.world_size(); ++peer) {
        if (!IsNear(local, peer) && ConnectionsOf(local)->count(peer) == 0) ++count;
      }
    }
    return count;
  }

  const std::string& AddressOf(int rank) const {
    return addresses_[topology_.replicas[rank].worker];
  }

  // Finds the lower ranks, to which this process connects.
  void FindCalls() {
    for (int peer = 0; peer < local_ranks_.back(); ++peer) {
      if (IsNear(peer, local_ranks_[0])) continue;
      for (const int local : local_ranks_) {
        if (local < peer) continue;
        calls_.push_back(
            {.ranks = {.connecting = local, .accepting = peer}, .address = AddressOf(peer)});
      }
    }
  }

  // A caller that knows the secret claims to be a rank.
  absl::Status Admit(const Handshake::Ranks& ranks, int fd) {
    const auto* connections = ConnectionsOf(ranks.accepting);
    const bool exists = ranks.connecting >= 0 && ranks.connecting < topology_.world_size();
    if (connections == nullptr || !exists || ranks.connecting <= ranks.accepting ||
        IsNear(ranks.connecting, ranks.accepting)) {
      return absl::PermissionDeniedError(
          absl::StrCat("rank ", ranks.connecting, " does not connect to rank ", ranks.accepting));
    }
    MF_ASSIGN_OR_RETURN(const std::string source, SourceOf(fd));
    if (const auto first = connections->find(ranks.connecting); first != connections->end()) {
      return absl::PermissionDeniedError(
          absl::StrCat("rank ", ranks.connecting, " is connected already, from ",
                       SourceOf(first->second->fd()).value_or("an address that is gone")));
    }
    MF_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(AddressOf(ranks.connecting)));
    MF_ASSIGN_OR_RETURN(const std::string host, NumericHost(parsed.host));
    if (source == host) return absl::OkStatus();
    return absl::PermissionDeniedError(absl::StrCat("rank ", ranks.connecting,
                                                    " connects from another address; expected ",
                                                    host, ", got ", source));
  }

  // Waits until a connection can go on, or it is time to look again.
  void Wait(const Callers& callers) const {
    constexpr int kLongestMs = 20;
    std::vector<pollfd> polled;
    callers.AddPolled(&polled);
    for (const Call& call : calls_) {
      if (!call.conversation.has_value()) continue;
      polled.push_back(
          {.fd = call.conversation->fd(), .events = call.conversation->event(), .revents = 0});
    }
    poll(polled.data(), polled.size(), kLongestMs);
  }

  absl::Status Keep(int local, int peer, std::unique_ptr<Stream> stream) {
    MF_RETURN_IF_ERROR(WithRank(SetConnectionOptions(stream->fd(), options_.timeout), peer));
    ConnectionsOf(local)->emplace(peer, std::move(stream));
    return absl::OkStatus();
  }

  absl::Status AdvanceCalls() {
    for (auto call = calls_.begin(); call != calls_.end();) {
      if (!call->conversation.has_value() && MonotonicTime::Now() >= call->next) {
        absl::StatusOr<OwnedSocket> socket = StartConnect(options_.address, call->address);
        if (absl::IsResourceExhausted(socket.status())) return socket.status();
        if (!socket.ok()) return WithRank(socket.status(), call->ranks.accepting);
        call->conversation.emplace(tls_ == nullptr
                                       ? PlainStream(*std::move(socket))
                                       : TlsStream(*std::move(socket), tls_, TlsEnd::kConnecting),
                                   Handshake::Connecting(options_.cluster, call->ranks));
      }
      if (call->conversation.has_value()) {
        const absl::Status status = call->conversation->Advance();
        if (absl::IsUnavailable(status)) {
          call->last = status;
          call->conversation.reset();
          call->next = MonotonicTime::Now() + call->pause.Next();
        } else if (!status.ok()) {
          return WithRank(Annotate(status, call->address), call->ranks.accepting);
        } else if (call->conversation->done()) {
          MF_RETURN_IF_ERROR(Keep(call->ranks.connecting, call->ranks.accepting,
                                  call->conversation->TakeStream()));
          call = calls_.erase(call);
          continue;
        }
      }
      ++call;
    }
    return absl::OkStatus();
  }

  absl::Status TimedOut(int missing) const {
    for (const Call& call : calls_) {
      if (call.ranks.accepting == missing && !call.last.ok()) {
        return WithRank(
            absl::DeadlineExceededError(absl::StrCat("rank ", missing, " at ", call.address,
                                                     " did not connect: ", call.last.message())),
            missing);
      }
    }
    return WithRank(absl::DeadlineExceededError(absl::StrCat("rank ", missing, " did not connect")),
                    missing);
  }

  const Topology& topology_;
  const std::vector<int> local_ranks_;
  WorkerGroup& workers_;
  const MonotonicTime deadline_;
  const DataConnectionOptions& options_;
  std::vector<std::string> addresses_;                               // by worker
  TlsContext tls_;                                                   // null: no TLS
  std::vector<std::map<int, std::unique_ptr<Stream>>> connections_;  // by local rank
  std::list<Call> calls_;
};

}  // namespace

absl::StatusOr<std::vector<std::map<int, std::unique_ptr<Stream>>>> ConnectData(
    const Topology& topology, absl::Span<const int> local_ranks, WorkerGroup& workers,
    MonotonicTime deadline, const DataConnectionOptions& options) {
  return Connector(topology, local_ranks, workers, deadline, options).Connect();
}

}  // namespace mirrorflow
