// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/service_port.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/tcp_socket.h"
#include "distribute/cluster/coordination/grpc_deadline.h"
#include "distribute/cluster/coordination/messages.h"
#include "distribute/cluster/coordination/prepare_grpc.h"
#include "framework/core/status.h"
#include "framework/core/thread.h"

namespace mirrorflow {
namespace {

using grpc::experimental::ExternalConnectionAcceptor;

// Limits on callers before the handshake and, times the number of workers, on connections after it.
constexpr size_t kMaxCallers = 64;
constexpr int kMaxConnectionsOfWorker = 4;
// Each connection uses three descriptors: its own, and both ends of the relay's local socket.
constexpr int kDescriptorsOfConnection = 3;
constexpr absl::Duration kShutdownTimeout = absl::Seconds(1);

// Raises the limit on open files to the hard limit.
void UseAllFileDescriptors() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Duration RoundTrip(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return absl::ZeroDuration();
  return absl::Microseconds(info.tcpi_rtt);
}

}  // namespace

ServicePort::ServicePort(Options options, TlsContext tls)
    : options_(std::move(options)),
      strangers_("coordination", options_.log),
      callers_(
          kMaxCallers, std::move(tls),
          [this](int) {
            return Handshake::Accepting(options_.cluster,
                                        [this](const Handshake::Ranks&) { return Admit(); });
          },
          &strangers_) {}

absl::StatusOr<std::unique_ptr<ServicePort>> ServicePort::Open(Options options,
                                                               grpc::Service* service) {
  UseAllFileDescriptors();
  MF_RETURN_IF_ERROR(PrepareGrpc(kDescriptorsOfConnection * options.num_workers));
  TlsContext tls;
  if (!options.tls.empty()) {
    MF_ASSIGN_OR_RETURN(tls, CreateTlsContext(options.tls));
  }
  std::unique_ptr<ServicePort> port(new ServicePort(std::move(options), std::move(tls)));
  const std::string& address = port->options_.address;
  MF_RETURN_IF_ERROR(port->callers_.Start());
  MF_ASSIGN_OR_RETURN(auto listener, ConnectionListener::Listen(address));

  grpc::ServerBuilder builder;
  port->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  builder.RegisterService(service);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kKeepaliveMilliseconds / 2);
  port->server_ = builder.BuildAndStart();
  if (port->server_ == nullptr) {
    return absl::InternalError(absl::StrCat(address, ": gRPC cannot start a server"));
  }
  MF_ASSIGN_OR_RETURN(port->thread_,
                      StartThread("coordination", [port = port.get()] { port->Serve(); }));
  port->listener_ = std::move(listener);
  MF_RETURN_IF_ERROR(port->listener_->Start(
      [port = port.get()](int fd, const std::string& peer) { port->callers_.Add(fd, peer); },
      [port = port.get()](const absl::Status& why) {
        port->strangers_.Log(port->options_.address, why.message());
      }));
  return port;
}

ServicePort::~ServicePort() {
  listener_ = nullptr;
  {
    std::lock_guard<std::mutex> lock(mu_);
    stop_ = MonotonicTime::Now() + 2 * kShutdownTimeout;
  }
  callers_.Wake();
  // The relays deliver the last answers and end once gRPC has closed its connections.
  if (server_ != nullptr) server_->Shutdown(GrpcDeadline(MonotonicTime::Now() + kShutdownTimeout));
  if (thread_.joinable()) thread_.join();
}

absl::Status ServicePort::Admit() const {
  const size_t most = static_cast<size_t>(kMaxConnectionsOfWorker) * options_.num_workers;
  if (relays_.size() < most) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("too many connections; expected at most ", most, " from all workers"));
}

absl::Status ServicePort::Connect(Callers::Proven proven) {
  // gRPC sets these options only on sockets that it owns.
  SetDataOptions(proven.stream->fd(), absl::Milliseconds(2 * kKeepaliveMilliseconds)).IgnoreError();
  absl::StatusOr<std::pair<std::unique_ptr<Relay>, OwnedSocket>> made =
      Relay::Create(std::move(proven.stream));
  if (!made.ok()) {
    strangers_.Log(proven.peer, made.status().message());
    return absl::OkStatus();
  }
  std::lock_guard<std::mutex> lock(mu_);  // a server that shuts down accepts no connections
  if (stop_ < MonotonicTime::InfiniteFuture()) return absl::OkStatus();
  const std::string earlier = options_.on_connected(proven.handshake);
  relays_.erase(earlier);
  relays_.emplace(proven.handshake.connection(), std::move(made->first));
  ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = made->second.Release();
  acceptor_->HandleNewConnection(&connection);
  return absl::OkStatus();
}

void ServicePort::Serve() {
  std::vector<pollfd> polled;
  for (bool can_go_on = false;;) {
    polled.clear();
    for (const auto& [connection, relay] : relays_) relay->AddPolled(&polled);
    callers_.AddPolled(&polled);
    MonotonicTime stop;
    {
      std::lock_guard<std::mutex> lock(mu_);
      stop = stop_;
    }
    const bool stopping = stop < MonotonicTime::InfiniteFuture();
    if (stopping && (relays_.empty() || MonotonicTime::Now() >= stop)) return;
    constexpr int kTickMs = 20;  // how late a caller's deadline may be noticed
    const bool ticks = stopping || !callers_.empty();
    poll(polled.data(), polled.size(), can_go_on ? 0 : ticks ? kTickMs : -1);

    can_go_on = false;
    const pollfd* ends = polled.data();
    for (auto it = relays_.begin(); it != relays_.end(); ends += 2) {
      const auto relay = it++;
      if (!relay->second->can_go_on() && ends[0].revents == 0 && ends[1].revents == 0) continue;
      if (relay->second->Advance().ok()) {
        can_go_on |= relay->second->can_go_on();
        continue;
      }
      const absl::Duration round_trip = RoundTrip(relay->second->stream().fd());
      const std::string connection = relay->first;
      relays_.erase(relay);
      options_.on_disconnected(connection, round_trip);
    }
    callers_
        .Advance([&](Callers::Proven proven) {
          can_go_on = true;  // the stream may already hold its first call
          return Connect(std::move(proven));
        })
        .IgnoreError();
  }
}

}  // namespace mirrorflow
