// SPDX-License-Identifier: Apache-2.0
//
// TlsStream encrypts a connection (TLS 1.3). Both ends present certificates, and each verifies that
// one of its authorities has signed the other's. Data connections do not check host names: the
// ranks authenticate each other in their own handshake (handshake.h).
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TLS_STREAM_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TLS_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "distribute/cluster/connections/tls_files.h"
#include "distribute/collective/tcp/owned_socket.h"
#include "distribute/collective/tcp/stream.h"

struct ssl_ctx_st;

namespace mirrorflow {

// The certificates and settings that all connections of a process share.
using TlsContext = std::shared_ptr<ssl_ctx_st>;
// Returns the errors of ReadTlsFiles.
absl::StatusOr<TlsContext> CreateTlsContext(const TlsFiles& files);

enum class TlsEnd { kConnecting, kAccepting };

// An AES-GCM key is safe for 2^24.5 records of 16 KiB (RFC 8446, section 5.5).
inline constexpr uint64_t kTlsBytesPerKey = uint64_t{1} << 36;

// Returns an encrypted stream over `socket`, which is connected or connecting, and non-blocking.
// The first Send or Receive begins the TLS handshake, so either can have to wait for both events.
// The key for sending changes every `bytes_per_key` bytes. `peer`: the host name or IP address that
// the other end's certificate must name; empty accepts any.
std::unique_ptr<Stream> TlsStream(OwnedSocket socket, const TlsContext& context, TlsEnd end,
                                  uint64_t bytes_per_key = kTlsBytesPerKey,
                                  const std::string& peer = "");

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TLS_STREAM_H_
