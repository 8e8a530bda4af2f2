// SPDX-License-Identifier: Apache-2.0
//
// Tests TcpTransport between two ranks, over a connection that changes, repeats, drops or reorders
// frames.
#include "distribute/collective/tcp/tcp_transport.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/collective/tcp/frame.h"
#include "framework/core/owned_socket.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/support/transfers.h"

namespace mirrorflow {
namespace {

constexpr uint64_t kIncarnation = 7;
constexpr MessageTag kTag = {.step = 3, .sequence = 11, .fingerprint = 0x1234};

std::vector<std::byte> Numbers(size_t count, int seed = 1) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(seed + i * 37 % 251);
  return bytes;
}

// Returns the two ends of a connection.
std::pair<OwnedSocket, OwnedSocket> Connection() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {OwnedSocket(ends[0]), OwnedSocket(ends[1])};
}

std::unique_ptr<Transport> TransportOf(int rank, std::map<int, std::unique_ptr<Stream>> peers) {
  auto transport = CreateTcpTransport(rank, kIncarnation, std::move(peers));
  EXPECT_TRUE(transport.ok()) << transport.status();
  return *std::move(transport);
}

std::unique_ptr<Transport> TransportOf(int rank, int peer, OwnedSocket socket) {
  std::map<int, std::unique_ptr<Stream>> peers;
  peers.emplace(peer, PlainStream(std::move(socket)));
  return TransportOf(rank, std::move(peers));
}

// Returns the bytes that a rank sends for a message.
std::vector<std::byte> WireOf(const std::vector<std::byte>& message, uint64_t first_frame = 0,
                              uint64_t incarnation = kIncarnation, const MessageTag& tag = kTag) {
  std::vector<std::byte> wire;
  for (size_t at = 0; at < message.size(); at += kMaxPayload) {
    const absl::Span<const std::byte> payload(message.data() + at,
                                              std::min(kMaxPayload, message.size() - at));
    const FrameHeaderBytes header =
        PackFrameHeader({.incarnation = incarnation,
                         .number = first_frame++,
                         .tag = tag,
                         .message_bytes = message.size(),
                         .payload_bytes = static_cast<uint32_t>(payload.size()),
                         .payload_crc = PayloadCrc(payload)});
    wire.insert(wire.end(), header.begin(), header.end());
    wire.insert(wire.end(), payload.begin(), payload.end());
  }
  return wire;
}

// Makes rank 0 receive `size` bytes from rank 1, which sends `wire`. Returns the status, and the
// received bytes in `got`.
absl::Status Receive(const std::vector<std::byte>& wire, size_t size,
                     std::vector<std::byte>* got = nullptr) {
  auto [here, there] = Connection();
  const auto transport = TransportOf(0, 1, std::move(here));
  std::thread sender([&wire, fd = there.fd()] {
    for (size_t sent = 0; sent < wire.size();) {
      const ssize_t count = send(fd, wire.data() + sent, wire.size() - sent, MSG_NOSIGNAL);
      if (count < 0) return;
      sent += static_cast<size_t>(count);
    }
    shutdown(fd, SHUT_WR);
  });
  std::vector<std::byte> memory(size);
  Transfers transfers(*transport);
  absl::Status status = transfers.Receive(1, kTag, absl::MakeSpan(memory));
  if (status.ok()) status = transfers.Finish();
  sender.join();
  if (got != nullptr) *got = memory;
  return status;
}

void ExpectCulpritIsRank1(const absl::Status& status, absl::StatusCode code,
                          const std::string& token = "") {
  EXPECT_THAT(status, IsError(code, "rank 1", token));
  const auto failure = FailureOf(status);
  ASSERT_TRUE(failure.has_value()) << status;
  EXPECT_EQ(failure->rank, 1);
}

TEST(TcpTransportTest, MessagesOfAllSizesArriveInBothDirections) {
  auto [a, b] = Connection();
  const auto left = TransportOf(0, 1, std::move(a)), right = TransportOf(1, 0, std::move(b));
  const std::vector<size_t> sizes = {
      1, 4, 72, kMaxPayload - 1, kMaxPayload, kMaxPayload + 1, 5 * kMaxPayload + 3};
  const auto exchange = [&](Transport& transport, int peer) {
    Transfers transfers(transport);
    for (int round = 1; round <= 3; ++round) {
      std::vector<std::vector<std::byte>> out, in;
      for (const size_t size : sizes) {
        out.push_back(Numbers(size, 1 - peer));
        in.emplace_back(size);
      }
      MessageTag tag = {.sequence = static_cast<uint64_t>(round)};
      for (size_t i = 0; i < sizes.size(); ++i) {
        tag.part = static_cast<uint32_t>(i);
        EXPECT_TRUE(transfers.Send(peer, tag, out[i]).ok());
        EXPECT_TRUE(transfers.Receive(peer, tag, absl::MakeSpan(in[i])).ok());
      }
      const absl::Status status = transfers.Finish();
      ASSERT_TRUE(status.ok()) << status;
      for (size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(in[i], Numbers(sizes[i], peer));
    }
  };
  std::thread other([&] { exchange(*right, 0); });
  exchange(*left, 1);
  other.join();
}

TEST(TcpTransportTest, UnchangedWireIsReceived) {
  const std::vector<std::byte> message = Numbers(kMaxPayload + 100);
  std::vector<std::byte> got;
  const absl::Status status = Receive(WireOf(message), message.size(), &got);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(got, message);
}

// A flipped bit anywhere in a header or payload is detected.
TEST(TcpTransportTest, FlippedBitIsDetected) {
  const std::vector<std::byte> message = Numbers(100);
  const std::vector<std::byte> wire = WireOf(message);
  for (size_t at = 0; at < wire.size(); ++at) {
    std::vector<std::byte> changed = wire;
    changed[at] ^= static_cast<std::byte>(1 << at % 8);
    const absl::Status status = Receive(changed, message.size());
    SCOPED_TRACE(at);
    ExpectCulpritIsRank1(status, absl::StatusCode::kDataLoss, "collective 11");
  }
}

TEST(TcpTransportTest, MisplacedFramesAreDetected) {
  const std::vector<std::byte> message = Numbers(2 * kMaxPayload);
  const std::vector<std::byte> wire = WireOf(message);
  const auto first = wire.begin(), second = first + static_cast<std::ptrdiff_t>(wire.size() / 2);
  const auto frames = [&](std::initializer_list<std::vector<std::byte>> parts) {
    std::vector<std::byte> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  const std::vector<std::byte> one(first, second), two(second, wire.end());
  for (const auto& [name, sent] : std::vector<std::pair<std::string, std::vector<std::byte>>>{
           {"repeated", frames({one, one})}, {"missing", two}, {"reordered", frames({two, one})}}) {
    SCOPED_TRACE(name);
    const absl::Status status = Receive(sent, message.size());
    ExpectCulpritIsRank1(status, absl::StatusCode::kDataLoss);
  }
}

TEST(TcpTransportTest, DifferentIncarnationLengthOrCollectiveIsDetected) {
  const std::vector<std::byte> message = Numbers(100);
  absl::Status status = Receive(WireOf(message, 0, kIncarnation - 1), message.size());
  ExpectCulpritIsRank1(status, absl::StatusCode::kAborted, "another incarnation");

  status = Receive(WireOf(Numbers(96)), message.size());
  ExpectCulpritIsRank1(status, absl::StatusCode::kInvalidArgument, "expected 100 bytes");

  MessageTag other = kTag;
  other.fingerprint = 1;
  status = Receive(WireOf(message, 0, kIncarnation, other), message.size());
  ExpectCulpritIsRank1(status, absl::StatusCode::kInvalidArgument, "runs another collective");
  // A finished collective, and a part that this rank does not expect.
  for (const MessageTag& more :
       {MessageTag{.step = 3, .sequence = 10}, MessageTag{.step = 3, .sequence = 11, .part = 1}}) {
    status = Receive(WireOf(message, 0, kIncarnation, more), message.size());
    ExpectCulpritIsRank1(status, absl::StatusCode::kInvalidArgument, "sends more than expected");
  }

  // A complete header that claims 2^62 bytes.
  FrameHeaderBytes header = PackFrameHeader({.incarnation = kIncarnation,
                                             .tag = kTag,
                                             .message_bytes = uint64_t{1} << 62,
                                             .payload_bytes = 100});
  status = Receive({header.begin(), header.end()}, message.size());
  ExpectCulpritIsRank1(status, absl::StatusCode::kInvalidArgument, "4611686018427387904");
}

// Messages arrive in a different order than expected, and before they are expected.
TEST(TcpTransportTest, EarlyMessagesWait) {
  for (const size_t size : {size_t{10}, kMaxPayload, 3 * kMaxPayload + 5}) {
    auto [a, b] = Connection();
    const auto left = TransportOf(0, 1, std::move(a)), right = TransportOf(1, 0, std::move(b));
    constexpr uint64_t kMessages = 8;
    std::thread sender([&, &right = *right] {
      Transfers transfers(right);
      std::vector<std::vector<std::byte>> out;
      for (uint64_t m = 0; m < kMessages; ++m) out.push_back(Numbers(size, static_cast<int>(m)));
      for (uint64_t m = kMessages; m > 0; --m) {
        EXPECT_TRUE(transfers.Send(0, {.sequence = m}, out[m - 1]).ok());
      }
      EXPECT_TRUE(transfers.Finish().ok());
    });
    Transfers transfers(*left);
    for (uint64_t m = 1; m <= kMessages; ++m) {
      std::vector<std::byte> in(size);
      ASSERT_TRUE(transfers.Receive(1, {.sequence = m}, absl::MakeSpan(in)).ok());
      ASSERT_TRUE(transfers.Finish().ok());
      EXPECT_EQ(in, Numbers(size, static_cast<int>(m - 1)));
    }
    sender.join();
  }
}

TEST(TcpTransportTest, UrgentMessagesAreSentFirst) {
  auto [a, b] = Connection();
  const auto left = TransportOf(0, 1, std::move(a));
  int unfinished = 0;
  const std::vector<std::byte> message = Numbers(10);
  for (const int urgency : {3, 1, 2, 1}) {
    const MessageTag tag = {.sequence = 1, .part = static_cast<uint32_t>(unfinished)};
    ASSERT_TRUE(
        left->StartSend({.peer = 1, .tag = tag, .urgency = urgency, .unfinished = &unfinished},
                        message)
            .ok());
  }
  while (unfinished > 0) ASSERT_TRUE(left->Progress().ok());
  for (const uint32_t part : {1, 3, 2, 0}) {
    FrameHeaderBytes header;
    std::byte payload[10];
    ASSERT_EQ(recv(b.fd(), header.data(), header.size(), MSG_WAITALL), kFrameHeaderBytes);
    ASSERT_EQ(recv(b.fd(), payload, sizeof payload, MSG_WAITALL), 10);
    EXPECT_EQ(UnpackFrameHeader(header)->tag.part, part);
  }
}

TEST(TcpTransportTest, EndOfConnectionAndSilenceNamePeer) {
  absl::Status status = Receive({}, 10);
  ExpectCulpritIsRank1(status, absl::StatusCode::kUnavailable);
  status = Receive(std::vector<std::byte>(30), 10);  // less than a header
  ExpectCulpritIsRank1(status, absl::StatusCode::kUnavailable);

  auto [here, there] = Connection();
  const auto transport = TransportOf(0, 1, std::move(here));
  Transfers transfers(*transport, absl::Milliseconds(50));
  std::byte byte{};
  ASSERT_TRUE(transfers.Receive(1, kTag, {&byte, 1}).ok());
  status = transfers.Finish();
  ExpectCulpritIsRank1(status, absl::StatusCode::kDeadlineExceeded);
  // Later calls return the same error, and the peer sees the connection end.
  EXPECT_EQ(transfers.Receive(1, kTag, {&byte, 1}), status);
  EXPECT_EQ(recv(there.fd(), &byte, 1, 0), 0);
}

// A peer that is itself waiting for other ranks is less likely to be the missing one.
TEST(TcpTransportTest, PendingPrefersDirectReceiveToForwardedReceive) {
  auto [to_1, end_1] = Connection();
  auto [to_2, end_2] = Connection();
  std::map<int, std::unique_ptr<Stream>> peers;
  peers.emplace(1, PlainStream(std::move(to_1)));
  peers.emplace(2, PlainStream(std::move(to_2)));
  const auto transport = TransportOf(0, std::move(peers));
  int unfinished = 0;
  std::byte bytes[4] = {};
  const auto pending = [&] {
    return std::pair(transport->pending()->peer, transport->pending()->tag.part);
  };
  const auto receive = [&](int peer, uint32_t part, bool passed_on) {
    ASSERT_TRUE(transport
                    ->StartReceive({.peer = peer,
                                    .tag = {.sequence = 1, .part = part},
                                    .unfinished = &unfinished,
                                    .passed_on = passed_on},
                                   {&bytes[part], 1})
                    .ok());
  };
  EXPECT_FALSE(transport->pending().has_value());
  ASSERT_TRUE(
      transport
          ->StartSend({.peer = 1, .tag = {.sequence = 1, .part = 9}, .unfinished = &unfinished},
                      {bytes, 1})
          .ok());
  EXPECT_EQ(pending(), std::pair(1, 9u));
  receive(2, 0, /*passed_on=*/true);
  EXPECT_EQ(pending(), std::pair(2, 0u));
  receive(1, 1, /*passed_on=*/true);
  receive(2, 2, /*passed_on=*/false);
  EXPECT_EQ(pending(), std::pair(2, 2u));
  receive(2, 3, /*passed_on=*/false);
  EXPECT_EQ(pending(), std::pair(2, 2u));
}

TEST(TcpTransportTest, AbortEndsWait) {
  auto [here, there] = Connection();
  const auto transport = TransportOf(0, 1, std::move(here));
  Transfers transfers(*transport);
  std::byte byte{};
  ASSERT_TRUE(transfers.Receive(1, kTag, {&byte, 1}).ok());
  std::thread other([&] { transport->Abort(absl::CancelledError("stop")); });
  EXPECT_EQ(transfers.Finish(), absl::CancelledError("stop"));
  other.join();
}

TEST(TcpTransportTest, TransferWithUnconnectedRankFails) {
  auto [here, there] = Connection();
  const auto transport = TransportOf(0, 1, std::move(here));
  Transfers transfers(*transport);
  std::vector<std::byte> bytes = Numbers(10);
  for (const int rank : {2, 1000}) {
    const absl::Status sent = transfers.Send(rank, kTag, absl::MakeSpan(bytes));
    EXPECT_THAT(sent, IsError(absl::StatusCode::kInternal, "rank 0", absl::StrCat("rank ", rank)));
    EXPECT_EQ(transfers.Receive(rank, kTag, absl::MakeSpan(bytes)), sent);
  }
}

}  // namespace
}  // namespace mirrorflow
