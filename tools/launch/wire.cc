// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/wire.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "framework/core/system_error.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/util/delimited_message_util.h"

namespace mirrorflow {

absl::Status WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return SystemError(errno, "launcher pipe: cannot write");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status WriteMessage(int fd, const google::protobuf::MessageLite& message) {
  return WriteAll(fd, SerializeMessage(message));
}

std::string SerializeMessage(const google::protobuf::MessageLite& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::util::SerializeDelimitedToZeroCopyStream(message, &stream);
  return bytes;
}

absl::StatusOr<bool> MessageReader::ReadSome(int fd) {
  char bytes[64 << 10];
  const ssize_t count = read(fd, bytes, sizeof(bytes));
  if (count < 0) {
    if (errno == EINTR || errno == EAGAIN) return true;
    return SystemError(errno, "launcher pipe: cannot read");
  }
  Add(absl::string_view(bytes, static_cast<size_t>(count)));
  return count > 0;
}

void MessageReader::Add(absl::string_view bytes) {
  // Compact here rather than in Next(), because one read can return thousands of messages.
  buffer_.erase(0, std::exchange(taken_, 0));
  buffer_.append(bytes.data(), bytes.size());
}

absl::StatusOr<bool> MessageReader::Next(google::protobuf::MessageLite* message) {
  // Large enough for an order with an environment, and for an event with a part of the output.
  constexpr uint32_t kMaxMessageBytes = uint32_t{8} << 20;
  const absl::string_view bytes = unread();
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  uint32_t size = 0;
  if (!input.ReadVarint32(&size)) {
    if (bytes.size() < 10) return false;  // the length is incomplete
    size = kMaxMessageBytes + 1;
  }
  if (size > kMaxMessageBytes) return absl::DataLossError("malformed launcher message");
  const auto header = static_cast<size_t>(input.CurrentPosition());
  if (bytes.size() < header + size) return false;
  if (!message->ParseFromArray(bytes.data() + header, static_cast<int>(size))) {
    return absl::DataLossError("malformed launcher message");
  }
  taken_ += header + size;
  return true;
}

}  // namespace mirrorflow
