// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/service_links.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "distribute/collective/tcp/stream.h"
#include "framework/core/owned_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/support/streams.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ServiceLinksTest : public testing::Test {
 protected:
  // The two ends of a link: the worker's and the server library's.
  struct Ends {
    std::unique_ptr<Stream> worker, library;
  };

  ServiceLinksTest() { EXPECT_EQ(links_.Start(), absl::OkStatus()); }

  Ends Add(const std::string& name, int worker) {
    auto [ours, theirs] = ConnectedSockets();
    auto made = Relay::Create(PlainStream(std::move(ours)));
    EXPECT_TRUE(made.ok()) << made.status();
    links_.Add(name, worker, absl::Milliseconds(1), std::move(made->first));
    return {PlainStream(std::move(theirs)), PlainStream(std::move(made->second))};
  }
  // Advances the links until none can continue. Returns the links that have ended.
  std::vector<std::string> AdvanceAll() {
    std::vector<std::string> ended;
    const auto on_end = [&](const std::string& name, absl::Duration handshake, bool) {
      EXPECT_EQ(handshake, absl::Milliseconds(1));
      ended.push_back(name);
    };
    while (links_.Advance(on_end) || IsReadable()) {
    }
    return ended;
  }
  bool IsReadable() const {
    pollfd polled = {.fd = links_.fd(), .events = POLLIN, .revents = 0};
    return poll(&polled, 1, 0) == 1;
  }

  ServiceLinks links_;
};

TEST_F(ServiceLinksTest, OnlyActiveLinksAreReady) {
  constexpr int kLinks = 300;  // more links than one call returns
  std::vector<Ends> ends;
  for (int i = 0; i < kLinks; ++i) ends.push_back(Add(absl::StrCat(i), i));
  EXPECT_THAT(AdvanceAll(), IsEmpty());
  EXPECT_FALSE(IsReadable());
  ASSERT_TRUE(SendAll(*ends[7].worker, "question").ok());
  EXPECT_TRUE(IsReadable());
  EXPECT_THAT(AdvanceAll(), IsEmpty());
  EXPECT_EQ(*ReceiveAll(*ends[7].library, 8), "question");
  for (Ends& end : ends) ASSERT_TRUE(SendAll(*end.library, "answer").ok());
  EXPECT_THAT(AdvanceAll(), IsEmpty());
  for (Ends& end : ends) EXPECT_EQ(*ReceiveAll(*end.worker, 6), "answer");
}

TEST_F(ServiceLinksTest, EndOfLinkIsReportedOnce) {
  Ends first = Add("first", 1), second = Add("second", 1);
  EXPECT_EQ(links_.CountOf(1), 2);
  EXPECT_THAT(AdvanceAll(), IsEmpty());
  first.worker = nullptr;
  EXPECT_THAT(AdvanceAll(), ElementsAre("first"));
  EXPECT_EQ(links_.CountOf(1), 1);
  links_.Remove("first");  // does nothing
  second.library = nullptr;
  EXPECT_THAT(AdvanceAll(), ElementsAre("second"));
  EXPECT_TRUE(links_.empty());
  EXPECT_EQ(links_.CountOf(1), 0);
}

// A link that cannot deliver keeps its bytes without keeping the thread busy.
TEST_F(ServiceLinksTest, LinkThatWaitsForSlowReaderIsNotReady) {
  Ends ends = Add("slow", 1);
  std::string text(1 << 20, 'x');
  size_t sent = 0;
  for (;;) {
    const iovec rest = {text.data(), text.size()};
    const absl::StatusOr<size_t> part = ends.worker->Send({&rest, 1});
    ASSERT_TRUE(part.ok()) << part.status();
    sent += *part;
    EXPECT_THAT(AdvanceAll(), IsEmpty());
    if (*part == 0) break;
  }
  ends.worker = nullptr;
  EXPECT_THAT(AdvanceAll(), IsEmpty());
  EXPECT_FALSE(IsReadable());
  std::vector<std::string> ended;
  while (sent > 0) {
    const iovec space = {text.data(), text.size()};
    const absl::StatusOr<size_t> part = ends.library->Receive({&space, 1});
    ASSERT_TRUE(part.ok()) << part.status();
    sent -= *part;
    for (const std::string& name : AdvanceAll()) ended.push_back(name);
  }
  EXPECT_THAT(ended, ElementsAre("slow"));
}

// Simulates a network failure with a datagram to a closed port, which the kernel reports as a
// socket error.
TEST_F(ServiceLinksTest, NetworkFailureIsDetectedBeforeRead) {
  const auto bound = [] {
    OwnedSocket socket(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    EXPECT_EQ(bind(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return socket;
  };
  OwnedSocket network = bound();
  {
    const OwnedSocket peer = bound();
    sockaddr_in address;
    socklen_t size = sizeof address;
    ASSERT_EQ(getsockname(peer.fd(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    ASSERT_EQ(connect(network.fd(), reinterpret_cast<sockaddr*>(&address), size), 0);
  }
  const OwnedSocket same(dup(network.fd()));
  auto made = Relay::Create(PlainStream(std::move(network)));
  ASSERT_TRUE(made.ok()) << made.status();
  links_.Add("failed", 1, absl::Milliseconds(1), std::move(made->first));
  std::unique_ptr<Stream> library = PlainStream(std::move(made->second));
  EXPECT_THAT(AdvanceAll(), IsEmpty());
  ASSERT_EQ(send(same.fd(), "lost", 4, 0), 4);  // while the link waits
  std::vector<bool> failed;
  const auto on_end = [&](const std::string&, absl::Duration, bool network_failed) {
    failed.push_back(network_failed);
  };
  while (links_.Advance(on_end) || IsReadable()) {
  }
  library = nullptr;
  while (links_.Advance(on_end) || IsReadable()) {
  }
  EXPECT_THAT(failed, ElementsAre(true));
}

TEST_F(ServiceLinksTest, RemovedLinkIsClosed) {
  Ends ends = Add("one", 1);
  ASSERT_TRUE(SendAll(*ends.worker, "never read").ok());
  links_.Remove("one");
  EXPECT_THAT(AdvanceAll(), IsEmpty());
  EXPECT_THAT(ReceiveAll(*ends.library, 1).status(),
              IsError(absl::StatusCode::kUnavailable, "closed"));
}

}  // namespace
}  // namespace mirrorflow
