// SPDX-License-Identifier: Apache-2.0
//
// Transfers: sends and receives one rank's messages over a Transport, for tests that use a
// transport without collectives.
#ifndef MIRRORFLOW_TESTS_SUPPORT_TRANSFERS_H_
#define MIRRORFLOW_TESTS_SUPPORT_TRANSFERS_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "distribute/collective/transport.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {

class Transfers {
 public:
  explicit Transfers(Transport& transport, absl::Duration timeout = absl::Seconds(20))
      : transport_(transport), timeout_(timeout) {}

  absl::Status Send(int to_rank, const MessageTag& tag, absl::Span<const std::byte> bytes) {
    return transport_.StartSend({.peer = to_rank, .tag = tag, .unfinished = &unfinished_}, bytes);
  }
  absl::Status Receive(int from_rank, const MessageTag& tag, absl::Span<std::byte> bytes) {
    return transport_.StartReceive({.peer = from_rank, .tag = tag, .unfinished = &unfinished_},
                                   bytes);
  }
  // Waits until all transfers are done. After the timeout, returns DeadlineExceeded with the
  // missing rank as its Failure.
  absl::Status Finish() {
    const MonotonicTime deadline = MonotonicTime::Now() + timeout_;
    for (;;) {
      MF_RETURN_IF_ERROR(transport_.Progress().status());
      if (unfinished_ == 0) return absl::OkStatus();
      if (MonotonicTime::Now() > deadline) {
        transport_.Abort(WithFailure(absl::DeadlineExceededError("rank 1 is missing"),
                                     {.rank = transport_.pending()->peer}));
      }
      std::vector<pollfd> events;
      if (transport_.PrepareToWait(&events)) poll(events.data(), events.size(), /*timeout=*/10);
    }
  }

 private:
  Transport& transport_;
  const absl::Duration timeout_;
  int unfinished_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_TRANSFERS_H_
