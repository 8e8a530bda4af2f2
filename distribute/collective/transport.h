// SPDX-License-Identifier: Apache-2.0
//
// Transport: moves bytes between one rank and ranks of other memory domains. It does not interpret
// the data: DomainExchange builds reductions and collectives on top of any transport.
//
// Contract. StartSend and StartReceive only start a transfer; the memory must stay valid until the
// transfer is done. Progress moves data without waiting. Both ranks start the transfer of a message
// with equal tags. Messages can overtake one another, so no two messages in flight may have the
// same tag. All transfers of a collective are started before the first transfer of the next one. A
// transfer with a rank that is not connected fails with InternalError. After the first failure or
// Abort, all calls return that status, and no memory is accessed. Only Abort may be called
// concurrently with other calls.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TRANSPORT_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TRANSPORT_H_

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mirrorflow {

// The tag of a message. Sender and receiver must agree on every field; `sequence` and `part`
// identify the message.
struct MessageTag {
  uint64_t step = 0;         // the session's step
  uint64_t sequence = 0;     // the collective's number, counted from 1 since the ranks connected
  uint64_t fingerprint = 0;  // the collective's fingerprint
  uint32_t part = 0;         // index among the collective's messages from one rank to the other

  friend bool operator==(const MessageTag&, const MessageTag&) = default;
};

// Returns the error for a rank that expects `expected_bytes` of one collective but gets a message
// of another collective from `rank`. The error names `rank` as the culprit. If expected.sequence is
// 0, no message is expected.
absl::Status UnexpectedMessage(int rank, const MessageTag& expected, size_t expected_bytes,
                               const MessageTag& got, size_t got_bytes);

struct Transfer {
  int peer = 0;  // the other rank
  MessageTag tag;
  // If two messages are ready to send, the one with the smaller urgency goes first.
  int urgency = 0;
  // A counter that includes the transfer while the transfer is in flight.
  int* unfinished = nullptr;
  // Whether the peer can send these bytes only after it has received other bytes.
  bool passed_on = false;
  absl::string_view name = {};  // the collective, for errors; must outlive the transfer
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual absl::Status StartSend(const Transfer& transfer, absl::Span<const std::byte> bytes) = 0;
  virtual absl::Status StartReceive(const Transfer& transfer, absl::Span<std::byte> bytes) = 0;

  // Moves data without waiting. Returns whether anything moved.
  virtual absl::StatusOr<bool> Progress() = 0;

  // Adds the events that poll() must wait for before Progress can move data; Abort also ends the
  // wait. Returns false if Progress can move data now.
  virtual bool PrepareToWait(std::vector<pollfd>* events) = 0;

  // The transfer whose peer is most likely to be missing; nullopt if all are done. Receives come
  // before sends, then data that the peer does not forward, then the longest-waiting transfer.
  struct Pending {
    int peer = 0;
    MessageTag tag;
    size_t bytes = 0;
    bool is_receive = false;
    bool passed_on = false;
    absl::string_view name = {};  // the collective, as in Transfer
  };
  virtual std::optional<Pending> pending() const = 0;

  // Fails all later calls with `why`. Can be called from any thread; the first call wins.
  virtual void Abort(const absl::Status& why) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TRANSPORT_H_
