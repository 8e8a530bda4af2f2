// SPDX-License-Identifier: Apache-2.0
//
// Handshake: the messages by which both ends of a data connection prove that they know the secret
// of the cluster, before any data passes. It moves no bytes itself.
//
//   connecting rank                    accepting rank
//   hello: both ranks, incarnation,
//          a nonce                -->
//                                 <--  a nonce, and a proof over the hello and it
//   a proof over the same         -->
//                                 <--  welcome
//
// Proofs are HMAC-SHA256 with the secret. They begin with the role of their sender, so that a proof
// cannot be sent back, and the nonces are new, so that it cannot be sent again. Over an encrypted
// connection they also cover what identifies it, so that a process between the ends
// cannot pass them on. Without a secret, nothing is proven. The handshake encrypts nothing.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_HANDSHAKE_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_HANDSHAKE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

class Handshake {
 public:
  struct Cluster {
    std::string secret;
    std::string job;  // distinguishes jobs that share a secret
    uint64_t incarnation = 0;
  };
  struct Ranks {
    int connecting = -1;
    int accepting = -1;
  };

  // The end that connects. Its first message is sent at once.
  static Handshake Connecting(const Cluster& cluster, const Ranks& ranks);
  // The end that accepts. `admits` returns an error for ranks that may not connect, or not again.
  static Handshake Accepting(const Cluster& cluster,
                             std::function<absl::Status(const Ranks&)> admits);

  // Stream::binding of the connection; call before Receive.
  void Bind(std::string binding) { binding_ = std::move(binding); }
  // The bytes to send now; each is returned once.
  std::string TakeOutput() { return std::exchange(output_, ""); }
  // The size of the next message from the other end, 64 bytes at most; 0 if none is missing.
  size_t wanted() const;
  // Takes a message of wanted() bytes. PermissionDenied or InvalidArgument, with the reason for the
  // log of this end, if the other end must be refused.
  absl::Status Receive(absl::string_view message);
  // Whether both ends have proven themselves; there may still be output.
  bool done() const { return state_ == State::kDone; }
  const Ranks& ranks() const { return ranks_; }

 private:
  enum class State { kHello, kChallenge, kAnswer, kWelcome, kDone };

  Handshake(const Cluster& cluster, State state) : cluster_(cluster), state_(state) {}
  absl::Status ReceiveHello(absl::string_view hello);
  std::string Proof(absl::string_view role) const;

  Cluster cluster_;
  State state_;
  Ranks ranks_;
  std::function<absl::Status(const Ranks&)> admits_;
  std::string binding_;
  std::string hello_, nonce_;  // of the connecting and of the accepting end
  std::string output_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_HANDSHAKE_H_
