// SPDX-License-Identifier: Apache-2.0
//
// Handshake: the messages by which both ends of a connection prove that they know the cluster's
// secret, before any other byte is exchanged. It does no I/O.
//
//   connecting end                  accepting end
//   hello: purpose, version, ranks,
//          incarnation, job, nonce -->
//                                  <--  purpose, version, a nonce, and a proof over hello and nonce
//   a proof over the same          -->
//                                  <--  welcome, or the reason for a refusal
//
// Proofs are HMAC-SHA256 with the secret. Each begins with the sender's role, so it cannot be
// reflected. The nonces are fresh, so it cannot be replayed. The hello names the purpose, so a
// proof for data connections is invalid for the coordination service. Over an encrypted connection,
// proofs also cover the channel binding, so a process between the ends cannot relay them. Without a
// secret, nothing is proven. The handshake encrypts nothing.
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
    // Data: the workers' incarnation, equal at both ends. Coordination: a random number that
    // identifies the connecting process across its connections.
    uint64_t incarnation = 0;
    Purpose purpose = Purpose::kData;
  };
  // Data: the ranks of both ends. Coordination: `connecting` is the worker, `accepting` is 0.
  struct Ranks {
    int connecting = -1;
    int accepting = -1;
  };
  static constexpr size_t kMaxMessageBytes = 256;

  // Creates the connecting end. Its first message can be sent at once.
  static Handshake Connecting(const Cluster& cluster, const Ranks& ranks);
  // Creates the accepting end. `admits` returns an error for ranks that must not connect, or not
  // again; the error's message is sent to the other end. Unavailable asks it to try again later.
  static Handshake Accepting(const Cluster& cluster,
                             std::function<absl::Status(const Ranks&)> admits);

  // Stream::binding of the connection; call before Receive.
  void Bind(std::string binding) { binding_ = std::move(binding); }
  // Returns the bytes to send now, also after an error. Each byte is returned once.
  std::string TakeOutput() { return std::exchange(output_, ""); }
  // The size of the next message from the other end, kMaxMessageBytes at most; 0 if none is
  // expected.
  size_t wanted() const;
  // Takes a message of wanted() bytes. Returns PermissionDenied, with the reason, if this end
  // refuses the other one or was refused by it, Unavailable if it was refused for now, and
  // InvalidArgument if the other end speaks another protocol.
  absl::Status Receive(absl::string_view message);
  // Whether both ends have proven that they know the secret. Output can still be pending.
  bool done() const { return state_ == State::kDone; }

  // Whether the other end's first message, the hello or the challenge, has arrived and speaks the
  // same version of the protocol.
  bool has_heard() const { return !nonce_.empty(); }

  // The contents of the hello.
  const Ranks& ranks() const { return ranks_; }
  uint64_t incarnation() const { return incarnation_; }
  // Valid once done: a unique name for this connection and a fresh key, equal at both ends.
  // Deriving the key requires the secret.
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
  std::string hello_, nonce_;  // sent by the connecting end; sent by the accepting end
  std::string output_;
  size_t refusal_bytes_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_HANDSHAKE_H_
