// SPDX-License-Identifier: Apache-2.0
//
// Handshake: lets both ends of a connection prove that they know the cluster's secret, before they
// exchange any other byte. It produces and checks the messages, but does no I/O.
//
//   connecting end                  accepting end
//   hello: purpose, version, ranks,
//          incarnation, job, nonce -->
//                                  <--  purpose, version, a nonce, and a proof over hello and nonce
//   a proof over the same          -->
//                                  <--  welcome, or the reason for a refusal
//
// A proof is an HMAC-SHA256 keyed with the secret. It covers the sender's role, so it cannot be
// reflected, and fresh nonces, so it cannot be replayed. It covers the hello, which names the
// purpose, so a proof for data connections is invalid for the coordination service. Over an
// encrypted connection, it also covers the channel binding, so a process between the ends cannot
// relay it. Without a secret, nothing is proven. The handshake encrypts nothing.
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
    std::string job;  // distinguishes jobs with the same secret
    // For kData: the workers' incarnation, equal at both ends. For kCoordination: a random number
    // that identifies the connecting process across its connections.
    uint64_t incarnation = 0;
    Purpose purpose = Purpose::kData;
  };
  // For kData: the ranks of both ends. For kCoordination: `connecting` is the worker, `accepting`
  // is 0.
  struct Ranks {
    int connecting = -1;
    int accepting = -1;
  };
  static constexpr size_t kMaxMessageBytes = 256;

  // Creates the connecting end. TakeOutput() returns its first message.
  static Handshake Connecting(const Cluster& cluster, const Ranks& ranks);
  // Creates the accepting end. `admits` returns an error for ranks that must not connect, or that
  // must not connect again. The error's message is sent to the other end; with Unavailable, that
  // end can retry later.
  static Handshake Accepting(const Cluster& cluster,
                             std::function<absl::Status(const Ranks&)> admits);

  // Sets the connection's Stream::binding. Must be called before Receive.
  void Bind(std::string binding) { binding_ = std::move(binding); }
  // Returns the bytes to send now, also after an error. Returns each byte only once.
  std::string TakeOutput() { return std::exchange(output_, ""); }
  // Returns the size of the next message from the other end, at most kMaxMessageBytes; 0 if none is
  // expected.
  size_t wanted() const;
  // Processes a message of wanted() bytes. Returns PermissionDenied, with the reason, if either end
  // refuses the other; Unavailable if this end was refused but can retry later; and InvalidArgument
  // if the other end speaks another protocol.
  absl::Status Receive(absl::string_view message);
  // Whether both ends have proven that they know the secret. Output can still be pending.
  bool done() const { return state_ == State::kDone; }

  // Whether the other end's first message, the hello or the challenge, has arrived and has the same
  // protocol version.
  bool has_heard() const { return !nonce_.empty(); }

  // Return the contents of the hello.
  const Ranks& ranks() const { return ranks_; }
  uint64_t incarnation() const { return incarnation_; }
  // Return a unique name for this connection and a fresh key, both the same at both ends. Valid
  // once done. Deriving the key requires the secret.
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
  // The connecting end sends hello_, the accepting end nonce_.
  std::string hello_, nonce_;
  std::string output_;
  size_t refusal_bytes_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_HANDSHAKE_H_
