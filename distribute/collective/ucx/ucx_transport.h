// SPDX-License-Identifier: Apache-2.0
//
// UcxTransport moves bytes between ranks of different hosts over any network that UCX finds: TCP,
// InfiniBand or RoCE. It neither authenticates nor encrypts: as with NCCL, any process on the same
// network can connect.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_UCX_UCX_TRANSPORT_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_UCX_UCX_TRANSPORT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distribute/collective/transport.h"

namespace mirrorflow {

class UcxTransport : public Transport {
 public:
  struct Options {
    int rank = 0;
    // Distinguishes these connections from earlier ones between the same workers.
    uint64_t incarnation = 0;
    // The network device to listen on, such as `eth0`, `lo` or `mlx5_0:1`. If empty, UCX listens on
    // all devices that it finds.
    std::string device;
  };
  static absl::StatusOr<std::unique_ptr<UcxTransport>> Create(const Options& options);

  // Returns the address, a few hundred bytes, that this rank's peers pass to Connect.
  virtual absl::StatusOr<std::string> Address() const = 0;
  // Connects to a peer. Must be called for every peer before the first transfer with that peer. The
  // peer may already be sending.
  virtual absl::Status Connect(int rank, absl::string_view address) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_UCX_UCX_TRANSPORT_H_
