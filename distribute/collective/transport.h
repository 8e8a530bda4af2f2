// SPDX-License-Identifier: Apache-2.0
//
// Transport: moves bytes between one rank and ranks of other memory domains. It neither reduces nor
// knows collectives: DomainExchange builds them on top, in the same way for all transports.
//
// Contract. StartSend and StartReceive only start a transfer: its memory is left alone until the
// next Finish. Messages between two ranks arrive in the order in which they were started; their
// tags and sizes must agree. Finish waits for all that was started, at most for the transport's
// timeout. After the first failure or Abort, pending and later calls return that status. All calls
// except Abort come from one thread.
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

  // `tag` identifies the purpose of the bytes: it is the fingerprint of a collective.
  virtual absl::Status StartSend(int to_rank, uint64_t tag, absl::Span<const std::byte> bytes) = 0;
  virtual absl::Status StartReceive(int from_rank, uint64_t tag, absl::Span<std::byte> bytes) = 0;
  // DeadlineExceeded, with the missing rank as its Failure, if that takes too long.
  virtual absl::Status Finish() = 0;

  // Ends all waits with `why`. May be called from any thread; the first call counts.
  virtual void Abort(const absl::Status& why) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TRANSPORT_H_
