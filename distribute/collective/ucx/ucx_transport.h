// SPDX-License-Identifier: Apache-2.0
//
// UcxTransport moves bytes between ranks of different hosts over any network that UCX finds there:
// TCP, InfiniBand or RoCE. It neither authenticates nor encrypts: every process that can reach its
// network can connect, as with NCCL.
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
    // Distinguishes these connections of the workers from earlier ones.
    uint64_t incarnation = 0;
    // The network device to listen on: `eth0`, `lo`, `mlx5_0:1`. Empty: all that UCX finds.
    std::string device;
  };
  static absl::StatusOr<std::unique_ptr<UcxTransport>> Create(const Options& options);

  // The address for the peers of this rank, a few hundred bytes.
  virtual absl::StatusOr<std::string> Address() const = 0;
  // Connects a peer, which may send before it is connected here. Call for every peer before the
  // first transfer with it.
  virtual absl::Status Connect(int rank, absl::string_view address) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_UCX_UCX_TRANSPORT_H_
