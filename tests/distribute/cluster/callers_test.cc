// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/callers.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "distribute/collective/tcp/owned_socket.h"
#include "framework/core/monotonic_time.h"
#include "gtest/gtest.h"
#include "tests/support/streams.h"

namespace mirrorflow {
namespace {

const Handshake::Cluster kCluster = {.secret = "0123456789abcdef", .job = "a", .incarnation = 5};

class CallersTest : public testing::Test {
 protected:
  static constexpr size_t kLimit = 4;

  CallersTest() { EXPECT_TRUE(callers_.Start().ok()); }

  // Returns the caller's end.
  OwnedSocket Call(const std::string& peer) {
    auto [ours, theirs] = ConnectedSockets();
    callers_.Add(ours.Release(), peer);
    return std::move(theirs);
  }
  void Advance() {
    EXPECT_TRUE(callers_
                    .Advance([this](Callers::Proven proven) {
                      proven_.push_back(proven.peer);
                      return absl::OkStatus();
                    })
                    .ok());
  }
  static bool IsOpen(const OwnedSocket& caller) {
    char byte;
    return recv(caller.fd(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) != 0;
  }

  Callers callers_{kLimit, /*tls=*/nullptr,
                   [](int) {
                     return Handshake::Accepting(
                         kCluster, [](const Handshake::Ranks&) { return absl::OkStatus(); });
                   },
                   /*strangers=*/nullptr};
  std::vector<std::string> proven_;
};

TEST_F(CallersTest, CrowdDoesNotReplaceCallerThatHasSentItsHello) {
  const std::string peer = "ipv4:10.0.0.1:1";
  const auto honest = PlainStream(Call(peer));
  Handshake handshake = Handshake::Connecting(kCluster, {.connecting = 1, .accepting = 0});
  ASSERT_TRUE(SendAll(*honest, handshake.TakeOutput()).ok());
  Advance();
  std::vector<OwnedSocket> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(Call(absl::StrCat("ipv4:10.0.0.1:", 2 + i)));
  for (int message = 0; !handshake.done(); ++message) {
    const auto answer = ReceiveAll(*honest, handshake.wanted());
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_TRUE(handshake.Receive(*answer).ok());
    ASSERT_TRUE(SendAll(*honest, handshake.TakeOutput()).ok());
    Advance();
  }
  EXPECT_EQ(proven_, std::vector<std::string>{peer});
}

TEST_F(CallersTest, CallersOfOneIpv6NetworkCountTogether) {
  const OwnedSocket honest = Call("ipv6:%5B2001:db8:0:1::1%5D:1");
  std::vector<OwnedSocket> crowd;
  for (int i = 0; i < 100; ++i) {
    crowd.push_back(Call(absl::StrCat("ipv6:%5B2001:db8:0:2::", absl::Hex(i + 1), "%5D:1")));
  }
  EXPECT_TRUE(IsOpen(honest));
}

TEST_F(CallersTest, NumberOfCallersIsLimited) {
  std::vector<OwnedSocket> crowd;
  const auto num_open = [&] {
    return static_cast<size_t>(std::count_if(crowd.begin(), crowd.end(), IsOpen));
  };
  for (int i = 0; i < 20; ++i) {
    crowd.push_back(Call(absl::StrCat("ipv4:10.0.0.", i, ":1")));
    if (i % 5 == 0) Advance();
    EXPECT_LE(num_open(), kLimit);
  }
  EXPECT_EQ(num_open(), kLimit);
}

TEST_F(CallersTest, FloodIsServedInBatches) {
  const auto num_polled = [this] {
    std::vector<pollfd> polled;
    callers_.AddPolled(&polled);
    return polled.size() - 1;  // without the descriptor of Wake
  };
  const auto wakes_poll = [this] {
    std::vector<pollfd> polled;
    callers_.AddPolled(&polled);
    return poll(polled.data(), 1, 0) == 1;
  };
  std::vector<OwnedSocket> flood;
  const auto add = [&] {
    auto [ours, theirs] = ConnectedSockets();
    flood.push_back(std::move(theirs));
    return callers_.Add(ours.Release(), "ipv4:10.0.0.1:1");
  };
  for (size_t i = 0; i < 2 * kLimit; ++i) EXPECT_EQ(add(), absl::ZeroDuration());
  EXPECT_EQ(num_polled(), kLimit);
  absl::Duration pause;
  for (size_t i = 0; i < 1000; ++i) pause = add();
  EXPECT_GT(pause, absl::ZeroDuration());
  EXPECT_LE(pause, absl::Milliseconds(10));
  EXPECT_EQ(num_polled(), 0);
  Advance();
  add();
  EXPECT_FALSE(wakes_poll());
  MonotonicTime::AdvanceForTest(absl::Seconds(2));
  EXPECT_EQ(add(), absl::ZeroDuration());
  EXPECT_EQ(num_polled(), kLimit);
  EXPECT_TRUE(wakes_poll());
}

}  // namespace
}  // namespace mirrorflow
