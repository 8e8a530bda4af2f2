// SPDX-License-Identifier: Apache-2.0
//
// EventReader: parses a supervisor's events from the bytes that its host sends, and refuses every
// event that no supervisor would send at this point. The bytes may come from another host, whose
// remote shell passes on whatever its startup files print.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_EVENT_READER_H_
#define MIRRORFLOW_TOOLS_LAUNCH_EVENT_READER_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/launch/launch.pb.h"
#include "tools/launch/wire.h"

namespace mirrorflow {

class EventReader {
 public:
  // Call when the order has been sent: its answer is accepted from now on.
  void Expect(const launch::Order& order);

  // As MessageReader::ReadSome.
  absl::StatusOr<bool> ReadSome(int fd) { return reader_.ReadSome(fd); }
  void Add(absl::string_view bytes) { reader_.Add(bytes); }
  // Takes the next whole event. False if there is none yet. DataLoss for bytes that are not an
  // event, and FailedPrecondition for an event that was not asked for or is out of range. Later
  // calls return the same error.
  absl::StatusOr<bool> Next(launch::Event* event);

 private:
  enum class Stage { kSilent, kReady, kStarted, kEnded };

  absl::Status CheckGreeting() const;
  absl::Status Check(const launch::Event& event);
  absl::Status CheckPorts(const launch::Ports& ports);
  absl::Status CheckEnded(const launch::Ended& ended) const;

  MessageReader reader_;
  absl::Status status_;  // the first error
  Stage stage_ = Stage::kSilent;
  std::optional<int> num_ports_;  // that were requested and have not arrived
  bool is_start_ordered_ = false;
  int64_t saved_step_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_EVENT_READER_H_
