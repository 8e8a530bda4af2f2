// SPDX-License-Identifier: Apache-2.0
//
// TcpTransport moves bytes between ranks of different hosts over one TCP connection per peer. The
// caller has made and authenticated the connections. Messages travel as frames (frame.h).
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TCP_TCP_TRANSPORT_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TCP_TCP_TRANSPORT_H_

#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "distribute/collective/tcp/stream.h"
#include "distribute/collective/transport.h"

namespace mirrorflow {

// Creates the transport of `rank`. `incarnation`, a part of each frame, distinguishes these
// connections from earlier ones between the same workers. `peers` maps the rank of each peer to the
// connection to it.
absl::StatusOr<std::unique_ptr<Transport>> CreateTcpTransport(
    int rank, uint64_t incarnation, std::map<int, std::unique_ptr<Stream>> peers);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TCP_TCP_TRANSPORT_H_
