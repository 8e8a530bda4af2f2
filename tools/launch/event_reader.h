// SPDX-License-Identifier: Apache-2.0
//
// EventReader: parses the events of a host's supervisor from the bytes that the host sends. It
// refuses every event that no supervisor would send at this point. The bytes can come from another
// host, whose remote shell also forwards the output of its startup files.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_EVENT_READER_H_
#define MIRRORFLOW_TOOLS_LAUNCH_EVENT_READER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/launch/launch.pb.h"
#include "tools/launch/wire.h"

namespace mirrorflow {

class EventReader {
 public:
  explicit EventReader(int num_slots) : slots_(num_slots) {}

  // Must be called when the order has been sent. Only after this call is its answer accepted.
  void Expect(const launch::Order& order);

  // Same as MessageReader::ReadSome.
  absl::StatusOr<bool> ReadSome(int fd) { return reader_.ReadSome(fd); }
  void Add(absl::string_view bytes) { reader_.Add(bytes); }
  // Takes the next complete event. Returns false if there is none yet, DataLoss for bytes that are
  // not an event, and FailedPrecondition for an event that was not asked for or is out of range.
  // Later calls return the same error.
  absl::StatusOr<bool> Next(launch::Event* event);

 private:
  struct Slot {
    bool is_start_ordered = false, has_started = false, has_ended = false;
    int64_t saved_step = 0;
  };

  absl::Status CheckGreeting() const;
  absl::Status Check(const launch::Event& event);
  absl::Status CheckPorts(const launch::Ports& ports);
  static absl::Status CheckOfWorker(const launch::Event& event, Slot& slot);
  static absl::Status CheckEnded(const launch::Ended& ended, const Slot& slot);

  MessageReader reader_;
  absl::Status status_;  // the first error
  bool is_ready_ = false;
  std::optional<int> num_ports_;  // ports that were requested and have not arrived
  std::vector<Slot> slots_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_EVENT_READER_H_
