// SPDX-License-Identifier: Apache-2.0
//
// Sends and receives protobuf messages, each preceded by its length, over pipes.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_WIRE_H_
#define MIRRORFLOW_TOOLS_LAUNCH_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"

namespace mirrorflow {

// Maximum bytes of program output in one message.
inline constexpr size_t kOutputBytes = size_t{16} << 10;
// Maximum bytes of a worker's error file that a supervisor sends.
inline constexpr size_t kMaxErrorFile = size_t{64} << 10;
// The latest step that a worker can have saved. If a larger, corrupt step were accepted, no real
// step would be progress, so the job would use up its restarts.
inline constexpr int64_t kMaxSavedStep = int64_t{1} << 40;

// Writes all of `bytes`; retries after a signal.
absl::Status WriteAll(int fd, absl::string_view bytes);
absl::Status WriteMessage(int fd, const google::protobuf::MessageLite& message);
// Returns the bytes that WriteMessage writes for the message.
std::string SerializeMessage(const google::protobuf::MessageLite& message);

class MessageReader {
 public:
  // Reads once from `fd`; does not block if data is available. Returns false at the end of the
  // input.
  absl::StatusOr<bool> ReadSome(int fd);
  // Adds bytes as if they had been read.
  void Add(absl::string_view bytes);
  // Takes the next complete message. Returns false if there is none yet, and DataLoss if the input
  // is not a message.
  absl::StatusOr<bool> Next(google::protobuf::MessageLite* message);

  // Returns the bytes that Next() has not taken.
  absl::string_view unread() const { return absl::string_view(buffer_).substr(taken_); }

 private:
  std::string buffer_;
  size_t taken_ = 0;  // bytes of buffer_ that Next() has taken
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_WIRE_H_
