// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/listen.h"

#include <grpcpp/resource_quota.h>
#include <sys/resource.h>

#include <utility>

#include "distribute/cluster/coordination/messages.h"
#include "distribute/cluster/coordination/prepare_grpc.h"
#include "distribute/cluster/coordination/tls.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

using grpc::experimental::ExternalConnectionAcceptor;

constexpr size_t kBytesForConnections = size_t{256} << 20;
// A worker always has a call in flight.
constexpr int kIdleMilliseconds = 10000;

// Raises the limit on open files, of which each connection takes one, as far as this process may.
void UseAllFileDescriptors() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

absl::StatusOr<ListeningServer> Listen(const std::string& address, int num_connections,
                                       const TlsFiles& tls, grpc::Service* service,
                                       std::function<void(const std::string& peer)> on_connection,
                                       ConnectionListener::OnError on_error) {
  UseAllFileDescriptors();
  MF_RETURN_IF_ERROR(PrepareGrpc(num_connections));
  MF_ASSIGN_OR_RETURN(const auto credentials, ServerCredentials(tls));
  ListeningServer result;
  MF_ASSIGN_OR_RETURN(result.listener, ConnectionListener::Listen(address));

  grpc::ServerBuilder builder;
  std::shared_ptr<ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  builder.RegisterService(service);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetResourceQuota(
      grpc::ResourceQuota("coordination").Resize(kBytesForConnections).SetMaxThreads(64));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8192);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kKeepaliveMilliseconds / 2);
  result.server = builder.BuildAndStart();
  if (result.server == nullptr) {
    return absl::InternalError(absl::StrCat(address, ": gRPC cannot start a server"));
  }
  MF_RETURN_IF_ERROR(result.listener->Start(
      [acceptor, on_connection = std::move(on_connection)](int fd, const std::string& peer) {
        on_connection(peer);
        ExternalConnectionAcceptor::NewConnectionParameters connection;
        connection.fd = fd;
        acceptor->HandleNewConnection(&connection);
      },
      std::move(on_error)));
  return result;
}

}  // namespace mirrorflow
