// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/listen.h"

#include <grpcpp/resource_quota.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/coordination/grpc_log.h"
#include "distribute/cluster/coordination/messages.h"
#include "distribute/cluster/coordination/tls.h"
#include "distribute/cluster/host_port.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr size_t kBytesForConnections = size_t{256} << 20;
// A worker always has a call in flight.
constexpr int kIdleMilliseconds = 10000;

// Why this process cannot listen on HOST:PORT, which gRPC does not tell; empty if it can.
std::string ReasonNotToListen(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return "";
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(parsed->port);
  if (const int error = getaddrinfo(parsed->host.c_str(), port.c_str(), &hints, &found)) {
    return absl::StrCat(": ", gai_strerror(error));
  }
  const absl::Cleanup free_addresses = [found] { freeaddrinfo(found); };
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const absl::Cleanup close_socket = [fd] { close(fd); };
  const int on = 1;  // as gRPC does, to ignore connections that have just ended
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd, found->ai_addr, found->ai_addrlen) == 0) return "";
  return absl::StrCat(": ", std::strerror(errno));
}

// Raises the limit on open files, of which each connection takes one, as far as this process may.
void UseAllFileDescriptors() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

absl::StatusOr<std::unique_ptr<grpc::Server>> Listen(const std::string& address,
                                                     const TlsFiles& tls, grpc::Service* service,
                                                     int* port) {
  SilenceGrpcLog();
  UseAllFileDescriptors();
  grpc::ServerBuilder builder;
  MF_ASSIGN_OR_RETURN(const auto credentials, ServerCredentials(tls));
  *port = 0;
  builder.AddListeningPort(address, credentials, port);
  builder.RegisterService(service);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetResourceQuota(
      grpc::ResourceQuota("coordination").Resize(kBytesForConnections).SetMaxThreads(64));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMilliseconds);
  // A second server on the port is an error, not a silent share of its connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8192);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server != nullptr && *port != 0) return server;
  return absl::UnavailableError(
      absl::StrCat(address, ": cannot listen on this address", ReasonNotToListen(address),
                   "; expected an address of this host with a port that no other process uses"));
}

}  // namespace mirrorflow
