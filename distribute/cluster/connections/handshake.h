// SPDX-License-Identifier: Apache-2.0
//
// Handshake: the messages by which both ends of a connection prove that they know the secret of the
// cluster, before any other byte passes. It moves no bytes itself.
//
//   connecting end                  accepting end
//   hello: purpose, version, ranks,
//          incarnation, job, nonce -->
//                                  <--  purpose, version, a nonce, and a proof over hello and nonce
//   a proof over the same          -->
//                                  <--  welcome, or why not
//
// Proofs are HMAC-SHA256 with the secret. They begin with the role of their sender, so that a proof
// cannot be sent back, the nonces are new, so that it cannot be sent again, and the purpose is in
// the hello, so that it serves no other one. Over an encrypted connection they also cover what
// identifies it, so that a process between the ends cannot pass them on. Without a secret, nothing
// is proven. The handshake encrypts nothing.
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
  enum class Purpose { kData, kCoordination };
  struct Cluster {
    std::string secret;
    std::string job;  // distinguishes jobs that share a secret
    // Data: of the workers, equal at both ends. Coordination: a random number of the process that
    // connects, by which its later connections are known.
    uint64_t incarnation = 0;
    Purpose purpose = Purpose::kData;
  };
  // Data: of both ends. Coordination: `connecting` is the number of the worker.
  struct Ranks {
    int connecting = -1;
    int accepting = -1;
  };
  static constexpr size_t kMaxMessageBytes = 256;

  // The end that connects. Its first message is sent at once.
  static Handshake Connecting(const Cluster& cluster, const Ranks& ranks);
  // The end that accepts. `admits` returns an error for ranks that may not connect, or not again,
  // which the other end learns.
  static Handshake Accepting(const Cluster& cluster,
                             std::function<absl::Status(const Ranks&)> admits);

  // Stream::binding of the connection; call before Receive.
  void Bind(std::string binding) { binding_ = std::move(binding); }
  // The bytes to send now, also after an error; each is returned once.
  std::string TakeOutput() { return std::exchange(output_, ""); }
  // The size of the next message from the other end, kMaxMessageBytes at most; 0 if none is
  // missing.
  size_t wanted() const;
  // Takes a message of wanted() bytes. PermissionDenied, with the reason for the log of this end,
  // if the other end must be refused or has refused this one; InvalidArgument if it speaks another
  // protocol.
  absl::Status Receive(absl::string_view message);
  // Whether both ends have proven themselves; there may still be output.
  bool done() const { return state_ == State::kDone; }

  // What the hello says.
  const Ranks& ranks() const { return ranks_; }
  uint64_t incarnation() const { return incarnation_; }
  // Once done: a name of this connection, and a key, both new and equal at both ends. Who does not
  // know the secret does not know the key.
  const std::string& connection() const { return nonce_; }
  std::string SessionKey() const;

 private:
  enum class State { kHello, kChallenge, kAnswer, kWelcome, kRefusal, kDone };

  Handshake(const Cluster& cluster, State state) : cluster_(cluster), state_(state) {}
  std::string Opening() const;
  absl::Status CheckOpening(absl::string_view message) const;
  absl::Status ReceiveHello(absl::string_view hello);
  absl::Status ReceiveChallenge(absl::string_view challenge);
  absl::Status ReceiveAnswer(absl::string_view answer);
  std::string Proof(absl::string_view role) const;

  Cluster cluster_;
  State state_;
  Ranks ranks_;
  uint64_t incarnation_ = 0;
  std::function<absl::Status(const Ranks&)> admits_;
  std::string binding_;
  std::string hello_, nonce_;  // of the connecting and of the accepting end
  std::string output_;
  size_t refusal_bytes_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_HANDSHAKE_H_
