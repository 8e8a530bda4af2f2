// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/relay.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "distribute/cluster/connections/tls_stream.h"
#include "gtest/gtest.h"
#include "tests/support/certificates.h"
#include "tests/support/files.h"
#include "tests/support/streams.h"

namespace mirrorflow {
namespace {

// Runs a relay on a thread until one side closes, with a stream on each side.
class RelayTest : public testing::TestWithParam<bool> {
 protected:
  RelayTest() {
    auto [ours, theirs] = ConnectedSockets();
    std::unique_ptr<Stream> stream;
    if (GetParam()) {
      const TlsContext context = *CreateTlsContext(WriteCertificate("a", TemporaryPath("relay")));
      stream = TlsStream(std::move(ours), context, TlsEnd::kAccepting);
      remote_ = TlsStream(std::move(theirs), context, TlsEnd::kConnecting);
    } else {
      stream = PlainStream(std::move(ours));
      remote_ = PlainStream(std::move(theirs));
    }
    auto made = Relay::Create(std::move(stream));
    EXPECT_TRUE(made.ok()) << made.status();
    local_ = PlainStream(std::move(made->second));
    thread_ = std::thread([relay = std::move(made->first)]() mutable {
      std::vector<pollfd> polled;
      while (relay->Advance().ok()) {
        polled.clear();
        relay->AddPolled(&polled);
        poll(polled.data(), polled.size(), relay->can_go_on() ? 0 : -1);
      }
      relay = nullptr;
    });
  }
  ~RelayTest() override {
    remote_ = nullptr;
    local_ = nullptr;
    thread_.join();
  }

  std::unique_ptr<Stream> remote_, local_;
  std::thread thread_;
};
INSTANTIATE_TEST_SUITE_P(, RelayTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Tls" : "Plain");
});

TEST_P(RelayTest, BytesPassInBothDirectionsConcurrently) {
  const std::string out(3'000'000, 'o'), back(2'000'001, 'b');
  absl::StatusOr<std::string> got;
  std::thread other([&] { got = ExchangeAll(*remote_, out, back.size()); });
  const absl::StatusOr<std::string> arrived = ExchangeAll(*local_, back, out.size());
  other.join();
  ASSERT_TRUE(arrived.ok() && got.ok()) << arrived.status() << got.status();
  EXPECT_TRUE(*arrived == out);
  EXPECT_TRUE(*got == back);
}

TEST_P(RelayTest, LastBytesArriveBeforeEndOfEitherSide) {
  ASSERT_TRUE(SendAll(*remote_, "question").ok());
  ASSERT_EQ(*ReceiveAll(*local_, 8), "question");
  ASSERT_TRUE(SendAll(*local_, "last").ok());
  local_ = nullptr;
  EXPECT_EQ(*ReceiveAll(*remote_, 4), "last");
  EXPECT_TRUE(absl::IsUnavailable(ReceiveAll(*remote_, 1).status()));
}

// After one direction has ended, bytes still arrive in the other direction.
TEST(RelayEndTest, BytesFromClosedSideArriveAlthoughItReceivesNoMore) {
  auto [ours, theirs] = ConnectedSockets();
  const std::unique_ptr<Stream> remote = PlainStream(std::move(theirs));
  auto made = Relay::Create(PlainStream(std::move(ours)));
  ASSERT_TRUE(made.ok()) << made.status();
  std::unique_ptr<Stream> local = PlainStream(std::move(made->second));
  ASSERT_TRUE(SendAll(*remote, "too late").ok());
  ASSERT_TRUE(SendAll(*local, "last").ok());
  local = nullptr;
  while (made->first->Advance().ok()) {
  }
  EXPECT_EQ(*ReceiveAll(*remote, 4), "last");
}

}  // namespace
}  // namespace mirrorflow
