// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/data_connections.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/connection_listener.h"
#include "distribute/cluster/connections/host_port.h"
#include "distribute/cluster/connections/stranger_log.h"
#include "distribute/cluster/connections/tcp_socket.h"
#include "distribute/cluster/connections/tls_stream.h"
#include "distribute/collective/tcp/owned_socket.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

// Limits on callers that have not proven themselves.
constexpr absl::Duration kHandshakeTimeout = absl::Seconds(5);
constexpr size_t kMaxCallers = 16;

// A connection whose handshake is in progress. That of TLS comes first, and passes unseen.
struct Conversation {
  std::unique_ptr<Stream> stream;
  Handshake handshake;
  std::string input = {}, output = {};

  bool done() const { return handshake.done() && output.empty(); }
  int16_t event() const { return output.empty() ? stream->receive_event() : stream->send_event(); }
};

// A connection from this process to a peer. It is made again if it ends early: strangers may have
// taken the places of callers at the other end.
struct Call {
  Handshake::Ranks ranks;
  std::string address;
  std::optional<Conversation> conversation = std::nullopt;
  MonotonicTime next = MonotonicTime::InfinitePast();  // when to call again
  absl::Status last = absl::OkStatus();                // why the last call has ended
};

// A connection from another process.
struct Caller {
  std::string peer;
  MonotonicTime deadline;
  Conversation conversation;
};

// Returns the caller that makes room for another: the oldest of the host that has the most, so that
// no host keeps the others out.
template <typename Callers>
typename Callers::iterator OldestOfBusiestHost(Callers& callers) {
  const auto host = [](const auto& caller) {
    return caller.peer.substr(0, caller.peer.rfind(':'));
  };
  std::map<std::string, int> count;
  for (const auto& caller : callers) ++count[host(caller)];
  return std::max_element(callers.begin(), callers.end(), [&](const auto& a, const auto& b) {
    return count[host(a)] < count[host(b)];
  });
}

struct Arrival {
  OwnedSocket socket;
  std::string peer;
};

// The connections that the listener has accepted, on their way to the thread that shakes hands.
class Arrivals {
 public:
  explicit Arrivals(int wake) : wake_(wake) {}
  void Add(int fd, const std::string& peer) {
    std::lock_guard<std::mutex> lock(mu_);
    if (arrived_.size() >= kMaxCallers) arrived_.erase(OldestOfBusiestHost(arrived_));
    arrived_.push_back({OwnedSocket(fd), peer});
    eventfd_write(wake_, 1);
  }
  // No connection can be accepted.
  void Fail(const absl::Status& why) {
    std::lock_guard<std::mutex> lock(mu_);
    failure_ = why;
    eventfd_write(wake_, 1);
  }
  absl::Status failure() {
    std::lock_guard<std::mutex> lock(mu_);
    return failure_;
  }
  std::list<Arrival> Take() {
    std::lock_guard<std::mutex> lock(mu_);
    eventfd_t count = 0;
    eventfd_read(wake_, &count);
    return std::exchange(arrived_, {});
  }

 private:
  const int wake_;  // an eventfd that does not block
  std::mutex mu_;
  // Guarded by mu_:
  std::list<Arrival> arrived_;  // oldest first
  absl::Status failure_;
};

// Moves the bytes of a handshake as far as possible without waiting.
absl::Status Advance(Conversation& caller) {
  for (;;) {
    caller.output += caller.handshake.TakeOutput();
    if (!caller.output.empty()) {
      const iovec rest = {caller.output.data(), caller.output.size()};
      MF_ASSIGN_OR_RETURN(const size_t sent, caller.stream->Send({&rest, 1}));
      caller.output.erase(0, sent);
      if (!caller.output.empty()) return absl::OkStatus();
    }
    const size_t wanted = caller.handshake.wanted();
    if (wanted == 0) return absl::OkStatus();
    char buffer[256];
    const iovec rest = {buffer, wanted - caller.input.size()};
    MF_ASSIGN_OR_RETURN(const size_t got, caller.stream->Receive({&rest, 1}));
    caller.input.append(buffer, got);
    if (caller.input.size() < wanted) return absl::OkStatus();
    caller.handshake.Bind(caller.stream->binding());
    MF_RETURN_IF_ERROR(caller.handshake.Receive(std::exchange(caller.input, "")));
  }
}

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
    const OwnedSocket wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (wake.fd() < 0) return NetworkError(errno, "connections for data: eventfd");
    Arrivals arrivals(wake.fd());
    const HostPort any_port = {.host = options_.address, .port = 0};
    MF_ASSIGN_OR_RETURN(const auto listener, ConnectionListener::Listen(any_port.ToString()));
    MF_RETURN_IF_ERROR(
        listener->Start([&](int fd, const std::string& peer) { arrivals.Add(fd, peer); },
                        [&](const absl::Status& why) { arrivals.Fail(why); }));
    const HostPort own = {.host = options_.address, .port = listener->port()};
    MF_ASSIGN_OR_RETURN(addresses_,
                        workers_.AllGather("data addresses", own.ToString(), deadline_));
    FindCalls();
    MF_RETURN_IF_ERROR(CheckDescriptors("connections for data", NumMissing()));
    for (;;) {
      for (auto& [socket, peer] : arrivals.Take()) Accept(std::move(socket), peer);
      MF_RETURN_IF_ERROR(AdvanceCalls());
      MF_RETURN_IF_ERROR(AdvanceCallers());
      const int missing = FirstMissing();
      if (missing < 0) break;
      MF_RETURN_IF_ERROR(Annotate(arrivals.failure(), own.ToString()));
      if (MonotonicTime::Now() >= deadline_) return TimedOut(missing);
      Wait(wake.fd());
    }
    return std::move(connections_);
  }

 private:
  bool IsNear(int a, int b) const {
    return topology_.replicas[a].domain == topology_.replicas[b].domain;
  }
  absl::Status At(const absl::Status& status, int rank) const {
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
  int NumMissing() {
    int count = 0;
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

  // Honest callers prove themselves at once, so an older one makes room.
  void Accept(OwnedSocket socket, const std::string& peer) {
    if (callers_.size() >= kMaxCallers) {
      const auto dropped = OldestOfBusiestHost(callers_);
      LogRefused(*dropped, "others are waiting");
      callers_.erase(dropped);
    }
    const int fd = socket.fd();
    callers_.push_back(
        {.peer = peer,
         .deadline = MonotonicTime::Now() + kHandshakeTimeout,
         .conversation = {.stream = Wrap(std::move(socket), TlsEnd::kAccepting),
                          .handshake = Handshake::Accepting(
                              options_.cluster, [this, fd](const Handshake::Ranks& ranks) {
                                return Admit(ranks, fd);
                              })}});
  }

  void LogRefused(const Caller& caller, absl::string_view why) const {
    if (options_.strangers == nullptr) return;
    options_.strangers->Log(caller.peer, absl::StrCat("was refused: ", why));
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
  void Wait(int wake) const {
    constexpr int kLongestMs = 20;
    std::vector<pollfd> polled = {{.fd = wake, .events = POLLIN, .revents = 0}};
    const auto add = [&](const Conversation& c) {
      polled.push_back({.fd = c.stream->fd(), .events = c.event(), .revents = 0});
    };
    for (const Caller& caller : callers_) add(caller.conversation);
    for (const Call& call : calls_) {
      if (call.conversation.has_value()) add(*call.conversation);
    }
    poll(polled.data(), polled.size(), kLongestMs);
  }

  std::unique_ptr<Stream> Wrap(OwnedSocket socket, TlsEnd end) const {
    if (tls_ == nullptr) return PlainStream(std::move(socket));
    return TlsStream(std::move(socket), tls_, end);
  }

  absl::Status Keep(int local, int peer, std::unique_ptr<Stream> stream) {
    MF_RETURN_IF_ERROR(At(SetDataOptions(stream->fd(), options_.timeout), peer));
    ConnectionsOf(local)->emplace(peer, std::move(stream));
    return absl::OkStatus();
  }

  absl::Status AdvanceCalls() {
    constexpr absl::Duration kPause = absl::Milliseconds(50);
    for (auto call = calls_.begin(); call != calls_.end();) {
      if (!call->conversation.has_value() && MonotonicTime::Now() >= call->next) {
        absl::StatusOr<OwnedSocket> socket = StartConnect(options_.address, call->address);
        if (absl::IsResourceExhausted(socket.status())) return socket.status();
        if (!socket.ok()) return At(socket.status(), call->ranks.accepting);
        call->conversation = {.stream = Wrap(*std::move(socket), TlsEnd::kConnecting),
                              .handshake = Handshake::Connecting(options_.cluster, call->ranks)};
      }
      if (call->conversation.has_value()) {
        const absl::Status status = Advance(*call->conversation);
        if (absl::IsUnavailable(status)) {
          call->last = status;
          call->conversation.reset();
          call->next = MonotonicTime::Now() + kPause;
        } else if (!status.ok()) {
          return At(Annotate(status, call->address), call->ranks.accepting);
        } else if (call->conversation->done()) {
          MF_RETURN_IF_ERROR(Keep(call->ranks.connecting, call->ranks.accepting,
                                  std::move(call->conversation->stream)));
          call = calls_.erase(call);
          continue;
        }
      }
      ++call;
    }
    return absl::OkStatus();
  }

  absl::Status AdvanceCallers() {
    for (auto caller = callers_.begin(); caller != callers_.end();) {
      Conversation& conversation = caller->conversation;
      absl::Status status = Advance(conversation);
      if (status.ok() && MonotonicTime::Now() >= caller->deadline) {
        status = absl::DeadlineExceededError("it did not prove itself in time");
      }
      if (status.ok() && !conversation.done()) {
        ++caller;
        continue;
      }
      if (status.ok()) {
        const Handshake::Ranks& ranks = conversation.handshake.ranks();
        MF_RETURN_IF_ERROR(Keep(ranks.accepting, ranks.connecting, std::move(conversation.stream)));
      } else {
        LogRefused(*caller, status.message());
      }
      caller = callers_.erase(caller);
    }
    return absl::OkStatus();
  }

  absl::Status TimedOut(int missing) const {
    for (const Call& call : calls_) {
      if (call.ranks.accepting == missing && !call.last.ok()) {
        return At(
            absl::DeadlineExceededError(absl::StrCat("rank ", missing, " at ", call.address,
                                                     " did not connect: ", call.last.message())),
            missing);
      }
    }
    return At(absl::DeadlineExceededError(absl::StrCat("rank ", missing, " did not connect")),
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
  std::list<Caller> callers_;  // oldest first
};

}  // namespace

absl::StatusOr<std::vector<std::map<int, std::unique_ptr<Stream>>>> ConnectData(
    const Topology& topology, absl::Span<const int> local_ranks, WorkerGroup& workers,
    MonotonicTime deadline, const DataConnectionOptions& options) {
  return Connector(topology, local_ranks, workers, deadline, options).Connect();
}

}  // namespace mirrorflow
