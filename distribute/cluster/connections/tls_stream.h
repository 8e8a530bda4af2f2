// SPDX-License-Identifier: Apache-2.0
//
// TlsStream encrypts a connection (TLS 1.3). Both ends present certificates, and each end verifies
// that one of its certificate authorities has signed the other's. Data connections do not check
// host names, because the ranks authenticate each other in their own handshake (handshake.h).
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TLS_STREAM_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TLS_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "distribute/cluster/connections/tls_files.h"
#include "distribute/collective/tcp/stream.h"
#include "framework/core/owned_socket.h"

struct ssl_ctx_st;

namespace mirrorflow {

// The certificates and settings that all TLS connections of a process share.
using TlsContext = std::shared_ptr<ssl_ctx_st>;
// Reads and checks the files. Returns null if no file is given, and the errors of ReadTlsFiles.
absl::StatusOr<TlsContext> CreateTlsContext(const TlsFiles& files);

enum class TlsEnd { kConnecting, kAccepting };

// How many bytes to send with one key. An AES-GCM key is safe for 2^24.5 records of 16 KiB (RFC
// 8446, section 5.5).
inline constexpr uint64_t kTlsBytesPerKey = uint64_t{1} << 36;

// Returns an encrypted stream over `socket`, which must be connected or connecting, and
// non-blocking. The first Send or Receive begins the TLS handshake, so both of them may have to
// wait for either event. The sending key changes after every `bytes_per_key` bytes. `peer`: the
// host name or IP address that the other end's certificate must name; if empty, any certificate
// that an authority has signed is accepted. If `context` is null, the stream is a PlainStream.
std::unique_ptr<Stream> TlsStream(OwnedSocket socket, const TlsContext& context, TlsEnd end,
                                  uint64_t bytes_per_key = kTlsBytesPerKey,
                                  const std::string& peer = "");

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TLS_STREAM_H_
