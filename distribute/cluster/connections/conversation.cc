// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/conversation.h"

#include <sys/uio.h>

#include "framework/core/status.h"

namespace mirrorflow {

absl::Status Conversation::Flush() {
  output_ += handshake_.TakeOutput();
  if (output_.empty()) return absl::OkStatus();
  const iovec rest = {output_.data(), output_.size()};
  MF_ASSIGN_OR_RETURN(const size_t sent, stream_->Send({&rest, 1}));
  output_.erase(0, sent);
  return absl::OkStatus();
}

absl::Status Conversation::Advance() {
  for (;;) {
    MF_RETURN_IF_ERROR(Flush());
    if (!output_.empty()) return absl::OkStatus();
    const size_t wanted = handshake_.wanted();
    if (wanted == 0) return absl::OkStatus();
    char buffer[Handshake::kMaxMessageBytes];
    const iovec rest = {buffer, wanted - input_.size()};
    MF_ASSIGN_OR_RETURN(const size_t got, stream_->Receive({&rest, 1}));
    input_.append(buffer, got);
    if (input_.size() < wanted) return absl::OkStatus();
    handshake_.Bind(stream_->binding());
    if (const absl::Status status = handshake_.Receive(std::exchange(input_, "")); !status.ok()) {
      Flush().IgnoreError();
      return status;
    }
  }
}

}  // namespace mirrorflow
