// SPDX-License-Identifier: Apache-2.0
//
// Transport: moves bytes between one rank and ranks of other memory domains. It reduces nothing and
// knows no collective: domain_exchange.h is the algorithm above it, the same for all transports.
//
// Contract. Start… only starts: its memory is left alone until the Finish that follows. Messages
// between two ranks arrive in the order of their starts; their tags and sizes must agree. Finish
// waits for all that was started, at most for the transport's timeout. After the first failure or
// Abort, pending and later calls return that status. All calls but Abort come from one thread.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TRANSPORT_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TRANSPORT_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace mirrorflow {

class Transport {
 public:
  virtual ~Transport() = default;

  // `tag` names what the bytes are for: the fingerprint of a collective.
  virtual absl::Status StartSend(int to_rank, uint64_t tag, absl::Span<const std::byte> bytes) = 0;
  virtual absl::Status StartReceive(int from_rank, uint64_t tag, absl::Span<std::byte> bytes) = 0;
  // DeadlineExceeded, with the rank that was waited for as its Failure, if it takes too long.
  virtual absl::Status Finish() = 0;

  // Ends all waits with `why`. Any thread; the first call counts.
  virtual void Abort(const absl::Status& why) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TRANSPORT_H_
