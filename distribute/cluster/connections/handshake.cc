// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/handshake.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/authentication.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr absl::string_view kMagic("MFDC\x01", 5);  // with the version at its end
constexpr char kWelcome = '\x06';
constexpr size_t kProofBytes = 32;
constexpr size_t kHelloBytes = 5 + 4 + 4 + 8 + kNonceBytes;

template <typename T>
void Append(T value, std::string* text) {
  for (size_t i = 0; i < sizeof(T); ++i) text->push_back(static_cast<char>(value >> (8 * i)));
}
// Takes a number from the front.
template <typename T>
T Take(absl::string_view* text) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<uint8_t>((*text)[i])) << (8 * i);
  }
  text->remove_prefix(sizeof(T));
  return value;
}

}  // namespace

Handshake Handshake::Connecting(const Cluster& cluster, const Ranks& ranks) {
  Handshake handshake(cluster, State::kChallenge);
  handshake.ranks_ = ranks;
  std::string& hello = handshake.hello_;
  hello = std::string(kMagic);
  Append(static_cast<uint32_t>(ranks.connecting), &hello);
  Append(static_cast<uint32_t>(ranks.accepting), &hello);
  Append(cluster.incarnation, &hello);
  hello += RandomBytes(kNonceBytes);
  handshake.output_ = hello;
  return handshake;
}

Handshake Handshake::Accepting(const Cluster& cluster,
                               std::function<absl::Status(const Ranks&)> admits) {
  Handshake handshake(cluster, State::kHello);
  handshake.admits_ = std::move(admits);
  return handshake;
}

size_t Handshake::wanted() const {
  switch (state_) {
    case State::kHello:
      return kHelloBytes;
    case State::kChallenge:
      return kNonceBytes + kProofBytes;
    case State::kAnswer:
      return kProofBytes;
    case State::kWelcome:
      return 1;
    case State::kDone:
      return 0;
  }
  return 0;
}

std::string Handshake::Proof(absl::string_view role) const {
  return Hmac(cluster_.secret, {role, cluster_.job, binding_, hello_, nonce_});
}

absl::Status Handshake::ReceiveHello(absl::string_view hello) {
  absl::string_view rest = hello;
  const size_t version = kMagic.size() - 1;
  if (rest.substr(0, version) != kMagic.substr(0, version)) {
    return absl::InvalidArgumentError("it does not speak this protocol");
  }
  if (rest[version] != kMagic[version]) {
    return absl::InvalidArgumentError(
        absl::StrCat("it speaks another version of the protocol; expected ", int{kMagic[version]},
                     ", got ", static_cast<uint8_t>(rest[version])));
  }
  rest.remove_prefix(kMagic.size());
  ranks_.connecting = static_cast<int>(Take<uint32_t>(&rest));
  ranks_.accepting = static_cast<int>(Take<uint32_t>(&rest));
  const auto incarnation = Take<uint64_t>(&rest);
  if (incarnation != cluster_.incarnation) {
    return absl::PermissionDeniedError(
        absl::StrCat("it belongs to another incarnation of the workers; expected ",
                     cluster_.incarnation, ", got ", incarnation));
  }
  hello_ = std::string(hello);
  nonce_ = RandomBytes(kNonceBytes);
  output_ = absl::StrCat(nonce_, Proof("accepting"));
  state_ = State::kAnswer;
  return absl::OkStatus();
}

absl::Status Handshake::Receive(absl::string_view message) {
  if (message.size() != wanted()) return absl::InternalError("handshake: wrong size of a message");
  switch (state_) {
    case State::kHello:
      return ReceiveHello(message);
    case State::kChallenge:
      nonce_ = std::string(message.substr(0, kNonceBytes));
      if (!EqualSecrets(message.substr(kNonceBytes), Proof("accepting"))) {
        return absl::PermissionDeniedError("it does not know the secret of this job");
      }
      output_ = Proof("connecting");
      state_ = State::kWelcome;
      return absl::OkStatus();
    case State::kAnswer:
      if (!EqualSecrets(message, Proof("connecting"))) {
        return absl::PermissionDeniedError("it does not know the secret of this job");
      }
      // Only now: a caller without the secret must not learn which ranks are missing.
      MF_RETURN_IF_ERROR(admits_(ranks_));
      output_ = std::string(1, kWelcome);
      state_ = State::kDone;
      return absl::OkStatus();
    case State::kWelcome:
      if (message[0] != kWelcome) return absl::InvalidArgumentError("unexpected answer");
      state_ = State::kDone;
      return absl::OkStatus();
    case State::kDone:
      break;
  }
  return absl::InternalError("handshake: done");
}

}  // namespace mirrorflow
