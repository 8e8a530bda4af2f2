// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/handshake.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/authentication.h"
#include "framework/core/names.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// The hello and the challenge begin with the purpose and the protocol version. The sizes of these
// two fields never change, so peers with different protocol versions can still report the mismatch.
constexpr absl::string_view kDataOpening("MFDC\x02", 5);
constexpr absl::string_view kCoordinationOpening("MFCO\x04", 5);
constexpr size_t kOpeningBytes = 5;
constexpr size_t kProofBytes = 32;
constexpr size_t kJobBytes = 16;
constexpr size_t kHelloBytes = kOpeningBytes + 4 + 4 + 8 + kJobBytes + kNonceBytes;
constexpr size_t kChallengeBytes = kOpeningBytes + kNonceBytes + kProofBytes;
constexpr size_t kMaxRefusalBytes = 255;
constexpr absl::string_view kAnotherJob = "the caller belongs to another job";
constexpr absl::string_view kRefused = "refused: ", kRefusedForNow = "refused for now: ";
static_assert(kMaxRefusalBytes <= Handshake::kMaxMessageBytes);

// Returns a hash of the job's name, because all fields of the hello have fixed sizes.
std::string JobDigest(absl::string_view job) { return Hmac("job", {job}).substr(0, kJobBytes); }

template <typename T>
void Append(T value, std::string* text) {
  for (size_t i = 0; i < sizeof(T); ++i) text->push_back(static_cast<char>(value >> (8 * i)));
}
// Removes a little-endian number from the front of `text`, and returns it.
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
  handshake.incarnation_ = cluster.incarnation;
  std::string& hello = handshake.hello_;
  hello = handshake.Opening();
  Append(static_cast<uint32_t>(ranks.connecting), &hello);
  Append(static_cast<uint32_t>(ranks.accepting), &hello);
  Append(cluster.incarnation, &hello);
  hello += JobDigest(cluster.job);
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
      return kChallengeBytes;
    case State::kAnswer:
      return kProofBytes;
    case State::kWelcome:
      return 1;
    case State::kRefusal:
      return refusal_bytes_;
    case State::kDone:
      return 0;
  }
  return 0;
}

std::string Handshake::Opening() const {
  return std::string(cluster_.purpose == Purpose::kData ? kDataOpening : kCoordinationOpening);
}

absl::Status Handshake::CheckOpening(absl::string_view message) const {
  const std::string own = Opening();
  if (message.substr(0, kOpeningBytes) == own) return absl::OkStatus();
  if (message.substr(0, kOpeningBytes - 1) != own.substr(0, kOpeningBytes - 1)) {
    return absl::InvalidArgumentError("it does not speak the Mirrorflow protocol");
  }
  return absl::PermissionDeniedError(
      absl::StrCat("its protocol version differs; expected ", static_cast<int>(own.back()),
                   ", got ", static_cast<int>(static_cast<uint8_t>(message[kOpeningBytes - 1]))));
}

std::string Handshake::Proof(absl::string_view role) const {
  return Hmac(cluster_.secret, {role, binding_, hello_, nonce_});
}

std::string Handshake::SessionKey() const { return Proof("session"); }

absl::Status Handshake::ReceiveHello(absl::string_view hello) {
  if (const absl::Status status = CheckOpening(hello); !status.ok()) {
    output_ = Opening();
    output_.resize(kChallengeBytes);
    return status;
  }
  absl::string_view rest = hello.substr(kOpeningBytes);
  ranks_.connecting = static_cast<int>(Take<uint32_t>(&rest));
  ranks_.accepting = static_cast<int>(Take<uint32_t>(&rest));
  incarnation_ = Take<uint64_t>(&rest);
  if (cluster_.purpose == Purpose::kData && incarnation_ != cluster_.incarnation) {
    return absl::PermissionDeniedError(
        absl::StrCat("it is from another incarnation of the workers; expected ",
                     cluster_.incarnation, ", got ", incarnation_));
  }
  hello_ = std::string(hello);
  nonce_ = RandomBytes(kNonceBytes);
  output_ = absl::StrCat(Opening(), nonce_, Proof("accepting"));
  state_ = State::kAnswer;
  return absl::OkStatus();
}

absl::Status Handshake::ReceiveChallenge(absl::string_view challenge) {
  MF_RETURN_IF_ERROR(CheckOpening(challenge));
  nonce_ = std::string(challenge.substr(kOpeningBytes, kNonceBytes));
  if (!EqualSecrets(challenge.substr(kOpeningBytes + kNonceBytes), Proof("accepting"))) {
    return absl::PermissionDeniedError("it does not know the secret of this job");
  }
  output_ = Proof("connecting");
  state_ = State::kWelcome;
  return absl::OkStatus();
}

absl::Status Handshake::ReceiveAnswer(absl::string_view answer) {
  if (!EqualSecrets(answer, Proof("connecting"))) {
    return absl::PermissionDeniedError("it does not know the secret of this job");
  }
  // Check these after the proof, so only a caller with the secret learns the job's name or which
  // ranks have not connected.
  absl::Status refusal;
  if (!EqualSecrets(
          absl::string_view(hello_).substr(kHelloBytes - kNonceBytes - kJobBytes, kJobBytes),
          JobDigest(cluster_.job))) {
    refusal = absl::PermissionDeniedError(
        absl::StrCat(kAnotherJob, "; expected `job = ", Printable(cluster_.job), "`"));
  } else if (admits_ != nullptr) {
    refusal = admits_(ranks_);
  }
  std::string text;
  if (!refusal.ok()) {
    text =
        absl::StrCat(absl::IsUnavailable(refusal) ? kRefusedForNow : kRefused, refusal.message());
  }
  text.resize(std::min(text.size(), kMaxRefusalBytes));
  output_ = absl::StrCat(std::string(1, static_cast<char>(text.size())), text);
  if (refusal.ok()) state_ = State::kDone;
  return refusal;
}

absl::Status Handshake::Receive(absl::string_view message) {
  if (message.size() != wanted()) return absl::InternalError("handshake: wrong message size");
  switch (state_) {
    case State::kHello:
      return ReceiveHello(message);
    case State::kChallenge:
      return ReceiveChallenge(message);
    case State::kAnswer:
      return ReceiveAnswer(message);
    case State::kWelcome:
      refusal_bytes_ = static_cast<uint8_t>(message[0]);
      state_ = refusal_bytes_ == 0 ? State::kDone : State::kRefusal;
      return absl::OkStatus();
    case State::kRefusal: {
      if (absl::StartsWith(message, kRefusedForNow)) {
        return absl::UnavailableError(Printable(message));
      }
      const bool differs = absl::StrContains(message, kAnotherJob);
      return absl::PermissionDeniedError(
          absl::StrCat(Printable(message),
                       differs ? absl::StrCat(", got `job = ", Printable(cluster_.job), "`") : ""));
    }
    case State::kDone:
      break;
  }
  return absl::InternalError("handshake: received a message after its end");
}

}  // namespace mirrorflow
