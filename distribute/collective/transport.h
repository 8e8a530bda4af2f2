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

// The collective that a message belongs to. Both ranks must agree on it.
struct MessageTag {
  uint64_t step = 0;         // of the session
  uint64_t sequence = 0;     // of the collective, counted from 1 since the ranks were connected
  uint64_t fingerprint = 0;  // of the collective

  friend bool operator==(const MessageTag&, const MessageTag&) = default;
};

// The error of a rank that expects `expected_bytes` of one collective, and gets a message of
// another from `rank`, which it names as the culprit.
absl::Status UnexpectedMessage(int rank, const MessageTag& expected, size_t expected_bytes,
                               const MessageTag& got, size_t got_bytes);

class Transport {
 public:
  virtual ~Transport() = default;

  virtual absl::Status StartSend(int to_rank, const MessageTag& tag,
                                 absl::Span<const std::byte> bytes) = 0;
  virtual absl::Status StartReceive(int from_rank, const MessageTag& tag,
                                    absl::Span<std::byte> bytes) = 0;
  // DeadlineExceeded, with the missing rank as its Failure, if that takes too long.
  virtual absl::Status Finish() = 0;

  // Ends all waits with `why`. May be called from any thread; the first call counts.
  virtual void Abort(const absl::Status& why) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TRANSPORT_H_
