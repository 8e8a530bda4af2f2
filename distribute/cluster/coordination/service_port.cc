// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/service_port.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/relay.h"
#include "distribute/cluster/connections/tcp_socket.h"
#include "distribute/cluster/coordination/grpc_support.h"
#include "distribute/cluster/coordination/messages.h"
#include "distribute/cluster/coordination/worker_process.h"
#include "framework/core/mutex.h"
#include "framework/core/owned_socket.h"
#include "framework/core/status.h"
#include "framework/core/thread.h"

namespace mirrorflow {
namespace {

using grpc::experimental::ExternalConnectionAcceptor;

// Limit the concurrent handshakes: one per worker plus kMoreCallers, but at most kMaxCallers. Each
// can take 100 KB.
constexpr size_t kMoreCallers = 64;
constexpr size_t kMaxCallers = 1024;
constexpr int kMaxConnectionsOfWorker = 4;
constexpr int kMaxObservers = 16;
// gRPC limits for processes that have completed the handshake.
constexpr size_t kMaxGrpcBytes = size_t{256} << 20;
constexpr int kMaxGrpcThreads = 64;
constexpr int kMaxMetadataBytes = 8192;
// Each connection uses three descriptors: its own, and both ends of the relay's local socket.
constexpr int kDescriptorsOfConnection = 3;
constexpr absl::Duration kShutdownTimeout = absl::Seconds(1);

size_t MaxCallers(int num_workers) { return std::min(kMaxCallers, kMoreCallers + num_workers); }

}  // namespace

ServicePort::ServicePort(Options options, TlsContext tls)
    : options_(std::move(options)),
      strangers_("coordination"),
      callers_(
          MaxCallers(options_.num_workers), std::move(tls),
          [this](int) {
            return Handshake::Accepting(options_.cluster, [this](const Handshake::Ranks& ranks) {
              return Admit(ranks.connecting);
            });
          },
          &strangers_) {}

absl::StatusOr<std::unique_ptr<ServicePort>> ServicePort::Open(Options options,
                                                               grpc::Service* service) {
  // Each worker needs one connection, and can have more. Callers, including one that was just
  // accepted, must not use up the connections' descriptors.
  const int64_t connections = int64_t{kDescriptorsOfConnection} * options.num_workers;
  const auto callers = static_cast<int64_t>(MaxCallers(options.num_workers)) + 1;
  MF_RETURN_IF_ERROR(PrepareGrpc(connections + callers,
                                 (kMaxConnectionsOfWorker - 1) * connections + kSpareDescriptors));
  MF_ASSIGN_OR_RETURN(TlsContext tls, CreateTlsContext(options.tls));
  std::unique_ptr<ServicePort> port(new ServicePort(std::move(options), std::move(tls)));
  const std::string& address = port->options_.address;
  MF_RETURN_IF_ERROR(port->callers_.Start());
  MF_RETURN_IF_ERROR(port->links_.Start());
  MF_ASSIGN_OR_RETURN(auto listener, ConnectionListener::Listen(address));

  grpc::ServerBuilder builder;
  port->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  builder.RegisterService(service);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetResourceQuota(
      grpc::ResourceQuota("coordination").Resize(kMaxGrpcBytes).SetMaxThreads(kMaxGrpcThreads));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  port->server_ = builder.BuildAndStart();
  if (port->server_ == nullptr) {
    return absl::InternalError(absl::StrCat(address, ": gRPC cannot start a server"));
  }
  MF_ASSIGN_OR_RETURN(port->thread_,
                      StartThread("coordination", [port = port.get()] { port->Serve(); }));
  port->listener_ = std::move(listener);
  MF_RETURN_IF_ERROR(port->listener_->Start(
      [port = port.get()](int fd, const std::string& peer) { return port->callers_.Add(fd, peer); },
      [port = port.get()](const absl::Status& why) {
        port->strangers_.Log(port->options_.address, why.message());
      }));
  return port;
}

ServicePort::~ServicePort() {
  listener_ = nullptr;
  {
    MutexLock lock(&mu_);
    stop_ = MonotonicTime::Now() + 2 * kShutdownTimeout;
  }
  callers_.Wake();
  // Once gRPC has closed its connections, the relays deliver the last answers and end.
  if (server_ != nullptr) server_->Shutdown(GrpcDeadline(MonotonicTime::Now() + kShutdownTimeout));
  if (thread_.joinable()) thread_.join();
}

absl::Status ServicePort::Admit(int worker) const {
  // Does not check the range of `worker`: Membership reports a number that is out of range.
  const size_t most = static_cast<size_t>(kMaxConnectionsOfWorker) * options_.num_workers;
  if (links_.size() >= most) {
    return absl::UnavailableError(
        absl::StrCat("too many connections; expected at most ", most, " from all workers"));
  }
  if (worker == kObserver) {
    if (links_.CountOf(worker) < kMaxObservers) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(
        "too many processes request the status; expected at most ", kMaxObservers, " at a time"));
  }
  if (links_.CountOf(worker) < kMaxConnectionsOfWorker) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("too many processes are connected as worker ", worker,
                                             "; expected at most ", kMaxConnectionsOfWorker));
}

absl::Status ServicePort::Connect(Callers::Proven proven) {
  SetConnectionOptions(proven.stream->fd(), kDeadConnection).IgnoreError();
  absl::StatusOr<std::pair<std::unique_ptr<Relay>, OwnedSocket>> made =
      Relay::Create(std::move(proven.stream));
  if (!made.ok()) {
    strangers_.Log(proven.peer, made.status().message());
    return absl::OkStatus();
  }
  MutexLock lock(&mu_);  // the server must not shut down meanwhile
  if (stop_ < MonotonicTime::InfiniteFuture()) return absl::OkStatus();
  links_.Remove(options_.on_connected(proven.handshake));
  links_.Add(proven.handshake.connection(), proven.handshake.ranks().connecting, proven.duration,
             std::move(made->first));
  ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = made->second.Release();
  acceptor_->HandleNewConnection(&connection);
  return absl::OkStatus();
}

void ServicePort::Serve() {
  std::vector<pollfd> polled;
  for (bool can_go_on = false;;) {
    polled.assign(1, {.fd = links_.fd(), .events = POLLIN, .revents = 0});
    callers_.AddPolled(&polled);
    MonotonicTime stop;
    {
      MutexLock lock(&mu_);
      stop = stop_;
    }
    const bool stopping = stop < MonotonicTime::InfiniteFuture();
    if (stopping && (links_.empty() || MonotonicTime::Now() >= stop)) return;
    // The longest delay before a caller's deadline is noticed and, in a flood, before a caller is
    // served.
    constexpr int kTickMs = 20;
    const bool ticks = stopping || !callers_.empty();
    poll(polled.data(), polled.size(), can_go_on ? 0 : ticks ? kTickMs : -1);

    can_go_on = links_.Advance(options_.on_disconnected);
    callers_
        .Advance([&](Callers::Proven proven) {
          can_go_on = true;  // the stream may already hold its first call
          return Connect(std::move(proven));
        })
        .IgnoreError();
  }
}

}  // namespace mirrorflow
