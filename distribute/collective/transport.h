// SPDX-License-Identifier: Apache-2.0
//
// Transport: moves bytes between one rank and ranks of other memory domains. It neither reduces nor
// knows collectives: DomainExchange builds them on top, in the same way for all transports.
//
// Contract. StartSend and StartReceive only start a transfer, whose memory must stay until it is
// done; Progress does what is possible without waiting. Both ranks start the transfer of a message
// with tags that agree; messages may overtake one another, so a tag must not be in use twice. All
// transfers of a collective are started before the first transfer of the next one. A transfer with
// a rank that is not connected is an InternalError. After the first failure or Abort, all calls
// return that status, and memory is left alone. All calls except Abort come from one thread at a
// time.
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

// Tags a message. Sender and receiver must agree on every field; `sequence` and `part` identify it.
struct MessageTag {
  uint64_t step = 0;         // of the session
  uint64_t sequence = 0;     // of the collective, counted from 1 since the ranks were connected
  uint64_t fingerprint = 0;  // of the collective
  uint32_t part = 0;         // among the messages of the collective from one rank to the other

  friend bool operator==(const MessageTag&, const MessageTag&) = default;
};

// The error of a rank that expects `expected_bytes` of one collective, and gets a message of
// another from `rank`, which it names as the culprit. It expects nothing if `expected` is empty.
absl::Status UnexpectedMessage(int rank, const MessageTag& expected, size_t expected_bytes,
                               const MessageTag& got, size_t got_bytes);

struct Transfer {
  int peer = 0;  // the other rank
  MessageTag tag;
  // Where two messages could be sent, that of the smaller number goes first.
  int urgency = 0;
  // Incremented while the transfer is in flight.
  int* unfinished = nullptr;
  // Whether the peer can send these bytes only after it has received others.
  bool passed_on = false;
  absl::string_view name = {};  // of the collective, for errors; alive until the transfer is done
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual absl::Status StartSend(const Transfer& transfer, absl::Span<const std::byte> bytes) = 0;
  virtual absl::Status StartReceive(const Transfer& transfer, absl::Span<std::byte> bytes) = 0;

  // Moves what it can without waiting. Returns whether anything moved.
  virtual absl::StatusOr<bool> Progress() = 0;

  // Adds what poll() must wait for until Progress can move something, or until Abort. Returns false
  // if there is no need to wait.
  virtual bool PrepareToWait(std::vector<pollfd>* events) = 0;

  // The transfer whose peer is most likely to be missing; none if all are done. A receive comes
  // before a send, then bytes that are not passed on, then the transfer that has waited longest.
  struct Pending {
    int peer = 0;
    MessageTag tag;
    size_t bytes = 0;
    bool is_receive = false;
    bool passed_on = false;
    absl::string_view name = {};  // of the collective
  };
  virtual std::optional<Pending> pending() const = 0;

  // Fails all later calls with `why`. May be called from any thread; the first call counts.
  virtual void Abort(const absl::Status& why) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TRANSPORT_H_
