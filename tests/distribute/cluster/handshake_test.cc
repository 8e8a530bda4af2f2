// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/handshake.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

const Handshake::Cluster kCluster = {.secret = "0123456789abcdef", .job = "a", .incarnation = 5};
constexpr Handshake::Ranks kRanks = {.connecting = 3, .accepting = 1};

absl::Status AdmitAll(const Handshake::Ranks&) { return absl::OkStatus(); }

// Passes messages between two ends until both are done, or one refuses the other.
absl::Status Shake(Handshake& connecting, Handshake& accepting) {
  for (int turn = 0; turn < 4; ++turn) {
    Handshake &from = turn % 2 == 0 ? connecting : accepting,
              &to = turn % 2 == 0 ? accepting : connecting;
    const std::string message = from.TakeOutput();
    EXPECT_EQ(message.size(), to.wanted());
    EXPECT_LE(message.size(), Handshake::kMaxMessageBytes);
    if (const absl::Status status = to.Receive(message); !status.ok()) return status;
  }
  return absl::OkStatus();
}

TEST(HandshakeTest, EndsWithSameSecretAgree) {
  auto connecting = Handshake::Connecting(kCluster, kRanks);
  auto accepting = Handshake::Accepting(kCluster, AdmitAll);
  EXPECT_EQ(Shake(connecting, accepting), absl::OkStatus());
  EXPECT_TRUE(connecting.done() && accepting.done());
  EXPECT_EQ(accepting.ranks().connecting, 3);
  EXPECT_EQ(accepting.ranks().accepting, 1);
}

TEST(HandshakeTest, OtherSecretJobOrIncarnationIsRefused) {
  Handshake::Cluster secret = kCluster, job = kCluster, incarnation = kCluster;
  secret.secret = "0123456789abcdeg";
  job.job = "b";
  incarnation.incarnation = 4;
  for (const Handshake::Cluster& other : {secret, job, incarnation}) {
    auto connecting = Handshake::Connecting(other, kRanks);
    auto accepting = Handshake::Accepting(kCluster, AdmitAll);
    EXPECT_EQ(Shake(connecting, accepting).code(), absl::StatusCode::kPermissionDenied);
    EXPECT_FALSE(connecting.done() || accepting.done());
  }
}

// The accepting end must reject an end that does not know the secret, even if that end sends the
// answer from another handshake or reflects the accepting end's own proof.
TEST(HandshakeTest, ReplayedAndReflectedProofsAreRefused) {
  auto connecting = Handshake::Connecting(kCluster, kRanks);
  auto accepting = Handshake::Accepting(kCluster, AdmitAll);
  const std::string hello = connecting.TakeOutput();
  ASSERT_TRUE(accepting.Receive(hello).ok());
  const std::string challenge = accepting.TakeOutput();
  ASSERT_TRUE(connecting.Receive(challenge).ok());
  const std::string answer = connecting.TakeOutput();
  ASSERT_TRUE(accepting.Receive(answer).ok());

  auto later = Handshake::Accepting(kCluster, AdmitAll);
  ASSERT_TRUE(later.Receive(hello).ok());
  const std::string later_challenge = later.TakeOutput();
  EXPECT_NE(later_challenge, challenge);
  EXPECT_THAT(later.Receive(answer), IsError(absl::StatusCode::kPermissionDenied, "secret"));

  auto third = Handshake::Accepting(kCluster, AdmitAll);
  ASSERT_TRUE(third.Receive(hello).ok());
  const std::string own_proof = third.TakeOutput().substr(5 + 32);
  EXPECT_THAT(third.Receive(own_proof), IsError(absl::StatusCode::kPermissionDenied, "secret"));
}

// A process with a certificate, but without the secret, relays the messages between two encrypted
// connections.
TEST(HandshakeTest, MessagesFromAnotherConnectionAreRefused) {
  auto connecting = Handshake::Connecting(kCluster, kRanks);
  auto accepting = Handshake::Accepting(kCluster, AdmitAll);
  connecting.Bind("one");
  accepting.Bind("two");
  EXPECT_THAT(Shake(connecting, accepting), IsError(absl::StatusCode::kPermissionDenied, "secret"));
}

TEST(HandshakeTest, RanksAreAdmittedOnlyAfterProof) {
  int asked = 0;
  const auto refuse = [&](const Handshake::Ranks& ranks) {
    ++asked;
    EXPECT_EQ(ranks.connecting, 3);
    return absl::PermissionDeniedError("rank 3 is already connected");
  };
  auto connecting = Handshake::Connecting(kCluster, kRanks);
  auto accepting = Handshake::Accepting(kCluster, refuse);
  EXPECT_THAT(Shake(connecting, accepting), IsError(absl::StatusCode::kPermissionDenied, "rank 3"));
  EXPECT_EQ(asked, 1);

  Handshake::Cluster other = kCluster;
  other.secret = "";
  auto stranger = Handshake::Connecting(other, kRanks);
  auto careful = Handshake::Accepting(kCluster, refuse);
  ASSERT_TRUE(careful.Receive(stranger.TakeOutput()).ok());
  EXPECT_THAT(careful.Receive(std::string(32, 'x')),
              IsError(absl::StatusCode::kPermissionDenied, "secret"));
  EXPECT_EQ(asked, 1);
}

// The refused end receives the reason, with control characters escaped.
TEST(HandshakeTest, ConnectingEndReceivesRefusal) {
  const auto told = [](const Handshake::Cluster& connects, const absl::Status& admitted) {
    auto connecting = Handshake::Connecting(connects, kRanks);
    auto accepting =
        Handshake::Accepting(kCluster, [&](const Handshake::Ranks&) { return admitted; });
    EXPECT_EQ(Shake(connecting, accepting).code(), absl::StatusCode::kPermissionDenied);
    const std::string refusal = accepting.TakeOutput();
    EXPECT_TRUE(connecting.Receive(refusal.substr(0, 1)).ok());
    EXPECT_FALSE(connecting.done());
    EXPECT_EQ(connecting.wanted(), refusal.size() - 1);
    return connecting.Receive(refusal.substr(1));
  };
  constexpr absl::StatusCode kDenied = absl::StatusCode::kPermissionDenied;
  EXPECT_THAT(told(kCluster, absl::Status(kDenied, "rank 3\n")), IsError(kDenied, "rank 3\\n"));
  EXPECT_THAT(told(kCluster, absl::Status(kDenied, "")), IsError(kDenied, "refused"));
  EXPECT_THAT(told(kCluster, absl::Status(kDenied, std::string(1000, 'x'))),
              IsError(kDenied, "xxx"));
  Handshake::Cluster other = kCluster;
  other.job = "b";
  EXPECT_THAT(told(other, absl::OkStatus()), IsError(kDenied, "`job = a`"));
}

TEST(HandshakeTest, OtherVersionIsNamedAtBothEnds) {
  auto connecting = Handshake::Connecting(kCluster, kRanks);
  auto accepting = Handshake::Accepting(kCluster, AdmitAll);
  std::string hello = connecting.TakeOutput();
  hello[4] = 9;
  const absl::Status refused = accepting.Receive(hello);
  EXPECT_THAT(refused, IsError(absl::StatusCode::kPermissionDenied, "expected 2, got 9"));
  std::string answer = accepting.TakeOutput();
  answer[4] = 9;
  EXPECT_THAT(connecting.Receive(answer),
              IsError(absl::StatusCode::kPermissionDenied, "expected 2, got 9"));
  auto other = Handshake::Accepting(kCluster, AdmitAll);
  EXPECT_THAT(other.Receive("GET / HTTP/1.1\r\n" + std::string(53, 'x')),
              IsError(absl::StatusCode::kInvalidArgument, "Mirrorflow protocol"));
}

// A proof for a data connection must not open a connection to the coordination service.
TEST(HandshakeTest, ProofForAnotherPurposeIsRefused) {
  Handshake::Cluster coordination = kCluster;
  coordination.purpose = Handshake::Purpose::kCoordination;
  auto connecting = Handshake::Connecting(kCluster, kRanks);
  auto accepting = Handshake::Accepting(coordination, AdmitAll);
  EXPECT_THAT(Shake(connecting, accepting),
              IsError(absl::StatusCode::kInvalidArgument, "Mirrorflow protocol"));
  // A process between the ends rewrites the purpose.
  auto caller = Handshake::Connecting(kCluster, kRanks);
  auto service = Handshake::Accepting(coordination, AdmitAll);
  std::string hello = caller.TakeOutput();
  hello.replace(0, 5, Handshake::Connecting(coordination, kRanks).TakeOutput().substr(0, 5));
  ASSERT_TRUE(service.Receive(hello).ok());
  std::string challenge = service.TakeOutput();
  challenge.replace(0, 5, Handshake::Connecting(kCluster, kRanks).TakeOutput().substr(0, 5));
  EXPECT_THAT(caller.Receive(challenge), IsError(absl::StatusCode::kPermissionDenied, "secret"));
}

TEST(HandshakeTest, SessionKeyDiffersBetweenConnections) {
  auto connecting = Handshake::Connecting(kCluster, kRanks);
  auto accepting = Handshake::Accepting(kCluster, AdmitAll);
  ASSERT_TRUE(Shake(connecting, accepting).ok());
  EXPECT_EQ(connecting.SessionKey(), accepting.SessionKey());
  EXPECT_EQ(connecting.connection(), accepting.connection());
  EXPECT_EQ(accepting.incarnation(), 5u);
  auto again = Handshake::Connecting(kCluster, kRanks);
  auto other = Handshake::Accepting(kCluster, AdmitAll);
  ASSERT_TRUE(Shake(again, other).ok());
  EXPECT_NE(again.SessionKey(), connecting.SessionKey());
  EXPECT_NE(again.connection(), connecting.connection());
}

TEST(HandshakeTest, FlippedBitsAreRefused) {
  for (int at = 0; at < 69; ++at) {
    auto connecting = Handshake::Connecting(kCluster, kRanks);
    auto accepting = Handshake::Accepting(kCluster, AdmitAll);
    std::string hello = connecting.TakeOutput();
    hello[at] = static_cast<char>(hello[at] ^ 1 << at % 8);
    absl::Status status = accepting.Receive(hello);
    if (status.ok()) status = connecting.Receive(accepting.TakeOutput());
    // The first bytes name the protocol.
    EXPECT_EQ(status.code(),
              at < 4 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kPermissionDenied)
        << at << status;
  }
}

}  // namespace
}  // namespace mirrorflow
