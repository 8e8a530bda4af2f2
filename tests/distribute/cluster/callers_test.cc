// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/callers.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "distribute/cluster/connections/conversation.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/owned_socket.h"
#include "gtest/gtest.h"
#include "tests/support/streams.h"

namespace mirrorflow {
namespace {

const Handshake::Cluster kCluster = {.secret = "0123456789abcdef", .job = "a", .incarnation = 5};

class CallersTest : public testing::Test {
 protected:
  static constexpr size_t kLimit = 4;

  CallersTest() { EXPECT_TRUE(callers_.Start().ok()); }

  // Adds a caller whose address is `peer`. Returns the caller's end of the connection.
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

TEST_F(CallersTest, CallersFromOneIpv6NetworkCountTogether) {
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

// --- callers from expected addresses ------------------------------------------------------------

// Connects callers over TCP, so they have addresses.
class ExpectedCallersTest : public CallersTest {
 protected:
  ExpectedCallersTest() {
    sockaddr_in own = AddressOf("127.0.0.1");
    socklen_t size = sizeof own;
    EXPECT_EQ(bind(listener_.fd(), reinterpret_cast<sockaddr*>(&own), size), 0);
    EXPECT_EQ(listen(listener_.fd(), 16), 0);
    EXPECT_EQ(getsockname(listener_.fd(), reinterpret_cast<sockaddr*>(&own), &size), 0);
    port_ = own.sin_port;
  }

  // Connects a caller from `address`. Returns the caller's end of the connection.
  OwnedSocket CallFrom(const char* address) {
    OwnedSocket caller(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in own = AddressOf(address), to = AddressOf("127.0.0.1");
    to.sin_port = port_;
    EXPECT_EQ(bind(caller.fd(), reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    EXPECT_EQ(connect(caller.fd(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    fcntl(caller.fd(), F_SETFL, O_NONBLOCK);
    callers_.Add(accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK),
                 absl::StrCat("ipv4:", address, ":1"));
    return caller;
  }
  // Connects a caller that sends one byte and then nothing.
  OwnedSocket CallAndStop(const char* address) {
    OwnedSocket caller = CallFrom(address);
    EXPECT_EQ(send(caller.fd(), "M", 1, MSG_NOSIGNAL), 1);
    return caller;
  }
  // Connects a caller that knows the secret.
  void CallHonestly(const char* address) {
    honest_.emplace_back(PlainStream(CallFrom(address)),
                         Handshake::Connecting(kCluster, {.connecting = 1, .accepting = 0}));
  }
  // Advances the honest callers' handshakes as far as possible. Returns how many finish.
  size_t FinishHonest() {
    size_t finished = 0;
    for (int idle = 0; idle < 4; ++idle) {  // a handshake has fewer than 4 messages
      for (Conversation& one : honest_) EXPECT_TRUE(one.Advance().ok());
      const size_t proven = proven_.size();
      Advance();
      const size_t done = std::erase_if(honest_, [](const auto& one) { return one.done(); });
      finished += done;
      if (done > 0 || proven_.size() > proven) idle = 0;
    }
    return finished;
  }
  static size_t CountOpen(const std::vector<OwnedSocket>& callers) {
    return static_cast<size_t>(std::count_if(callers.begin(), callers.end(), IsOpen));
  }

  std::list<Conversation> honest_;

 private:
  static sockaddr_in AddressOf(const char* text) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, text, &address.sin_addr);
    return address;
  }

  const OwnedSocket listener_{socket(AF_INET, SOCK_STREAM, 0)};
  in_port_t port_ = 0;
};

TEST_F(ExpectedCallersTest, AllFinishDespiteCrowdOfStrangers) {
  callers_.Expect({{"127.0.0.1", 200}, {"127.0.0.3", 100}}, /*max_handshakes=*/2);
  std::vector<OwnedSocket> crowd;
  for (int i = 0; i < 300; ++i) {
    CallHonestly(i % 3 == 0 ? "127.0.0.3" : "127.0.0.1");
    crowd.push_back(CallFrom("127.0.0.2"));
  }
  EXPECT_EQ(FinishHonest(), 300);
  EXPECT_EQ(proven_.size(), 300);
  EXPECT_EQ(CountOpen(crowd), kLimit);
}

TEST_F(ExpectedCallersTest, DeadlineStartsWhenHandshakeBegins) {
  callers_.Expect({{"127.0.0.1", 2}}, /*max_handshakes=*/1);
  std::vector<OwnedSocket> slow;
  for (int i = 0; i < 2; ++i) slow.push_back(CallAndStop("127.0.0.1"));
  for (const size_t left : {2, 1, 0}) {
    MonotonicTime::AdvanceForTest(absl::Seconds(6));
    Advance();
    EXPECT_EQ(CountOpen(slow), left);
  }
  EXPECT_TRUE(callers_.empty());
}

TEST_F(ExpectedCallersTest, SilentCallersDoNotOccupySlots) {
  callers_.Expect({{"127.0.0.1", 110}}, /*max_handshakes=*/1);
  std::vector<OwnedSocket> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(CallFrom("127.0.0.1"));
  for (int i = 0; i < 10; ++i) CallHonestly("127.0.0.1");
  EXPECT_EQ(FinishHonest(), 10);
  EXPECT_EQ(CountOpen(silent), 100);
  std::vector<pollfd> polled;
  callers_.AddPolled(&polled);
  EXPECT_EQ(polled.size(), 101);  // all 100 callers, and Wake's eventfd
}

TEST_F(ExpectedCallersTest, SlowCallersDelayOtherAddressesByOneTimeout) {
  callers_.Expect({{"127.0.0.1", 100}, {"127.0.0.3", 10}}, /*max_handshakes=*/4);
  std::vector<OwnedSocket> slow;
  for (int i = 0; i < 100; ++i) slow.push_back(CallAndStop("127.0.0.1"));
  Advance();
  for (int i = 0; i < 10; ++i) CallHonestly("127.0.0.3");
  EXPECT_EQ(FinishHonest(), 0);
  MonotonicTime::AdvanceForTest(absl::Seconds(6));
  EXPECT_EQ(FinishHonest(), 10);
  EXPECT_EQ(CountOpen(slow), 96);
}

// A stranger at a worker's address cannot keep the worker out.
TEST_F(ExpectedCallersTest, CallersBeyondExpectedCountAreStrangers) {
  callers_.Expect({{"127.0.0.1", 3}}, /*max_handshakes=*/1);
  std::vector<OwnedSocket> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(CallFrom("127.0.0.1"));
  EXPECT_EQ(CountOpen(silent), 3 + kLimit);
  Advance();
  CallHonestly("127.0.0.1");
  EXPECT_EQ(FinishHonest(), 1);
}

// Each new connection closes one silent caller, so that the process needs no additional descriptor.
TEST_F(ExpectedCallersTest, ConnectionReplacesSilentCaller) {
  constexpr size_t kExpected = 3;
  callers_.Expect({{"127.0.0.1", kExpected}}, /*max_handshakes=*/1);
  std::vector<OwnedSocket> silent;
  CallHonestly("127.0.0.1");
  EXPECT_EQ(FinishHonest(), 1);
  for (size_t connected = 1; connected < kExpected;) {
    for (int i = 0; i < 20; ++i) silent.push_back(CallFrom("127.0.0.1"));
    EXPECT_EQ(connected + CountOpen(silent), kExpected + kLimit);
    CallHonestly("127.0.0.1");
    EXPECT_EQ(FinishHonest(), 1);
    ++connected;
    EXPECT_LE(connected + CountOpen(silent), kExpected + kLimit);
  }
}

TEST_F(CallersTest, FloodIsServedInBatches) {
  const auto num_polled = [this] {
    std::vector<pollfd> polled;
    callers_.AddPolled(&polled);
    return polled.size() - 1;  // without Wake's eventfd
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
