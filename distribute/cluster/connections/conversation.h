// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CONVERSATION_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CONVERSATION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "distribute/cluster/connections/handshake.h"
#include "distribute/collective/tcp/stream.h"

namespace mirrorflow {

// One end of a handshake in progress. Sends and receives the handshake's messages over a stream,
// which first does its TLS handshake, if any. No call blocks.
class Conversation {
 public:
  Conversation(std::unique_ptr<Stream> stream, Handshake handshake)
      : stream_(std::move(stream)), handshake_(std::move(handshake)) {}

  // Sends and receives what is possible without blocking. Returns the errors of Stream and
  // Handshake. If the handshake fails, tries to send the refusal to the other end.
  absl::Status Advance();
  bool done() const { return handshake_.done() && output_.empty(); }

  int fd() const { return stream_->fd(); }
  // Returns the event to poll() for.
  int16_t event() const {
    return output_.empty() ? stream_->receive_event() : stream_->send_event();
  }
  const Handshake& handshake() const { return handshake_; }
  // Requires done().
  std::unique_ptr<Stream> TakeStream() { return std::move(stream_); }

 private:
  absl::Status Flush();

  std::unique_ptr<Stream> stream_;
  Handshake handshake_;
  std::string input_, output_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CONVERSATION_H_
