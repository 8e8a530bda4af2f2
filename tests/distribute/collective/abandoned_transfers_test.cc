// SPDX-License-Identifier: Apache-2.0
//
// Tests that a communicator with transfers in flight, as after a failed step, cancels them before
// it frees their memory: a network device may still write to it.
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "distribute/collective/domain_exchange.h"
#include "distribute/collective/team.h"
#include "distribute/collective/team_communicator.h"
#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "tests/conformance/connect_domains.h"
#include "tests/conformance/forwarding_team.h"

namespace mirrorflow {
namespace {

constexpr int64_t kRows = 8;

// The state of a transport, which a test can read after the transport has been destroyed.
struct TransportState {
  int receives = 0;
  bool aborted = false;
  bool accesses_memory = false;
};

// Sends go nowhere and nothing arrives. Like UCX, it accesses the memory of its receives until the
// first Progress after Abort.
class SilentTransport final : public Transport {
 public:
  explicit SilentTransport(std::shared_ptr<TransportState> state) : state_(std::move(state)) {}
  ~SilentTransport() override {
    EXPECT_FALSE(state_->accesses_memory) << "the exchange has already freed its own memory";
  }

  absl::Status StartSend(const Transfer&, absl::Span<const std::byte>) override {
    return absl::OkStatus();
  }
  absl::Status StartReceive(const Transfer& transfer, absl::Span<std::byte> bytes) override {
    ++*transfer.unfinished;
    ++state_->receives;
    state_->accesses_memory = true;
    pending_ = {.peer = transfer.peer, .bytes = bytes.size(), .is_receive = true};
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Progress() override {
    if (!state_->aborted) return false;
    state_->accesses_memory = false;
    return absl::CancelledError("aborted");
  }
  bool PrepareToWait(std::vector<pollfd>*) override { return false; }
  std::optional<Pending> pending() const override { return pending_; }
  void Abort(const absl::Status&) override { state_->aborted = true; }

 private:
  const std::shared_ptr<TransportState> state_;
  std::optional<Pending> pending_;
};

// A team whose memory must not be freed while the transport accesses it.
class WatchedTeam final : public ForwardingTeam {
 public:
  WatchedTeam(std::unique_ptr<LocalTeam> team, std::shared_ptr<TransportState> state)
      : ForwardingTeam(std::move(team)), state_(std::move(state)) {}
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) override {
    MF_ASSIGN_OR_RETURN(auto memory, ForwardingTeam::Allocate(bytes));
    std::byte* const start = memory.get();
    return std::shared_ptr<std::byte>(
        start, [memory = std::move(memory), state = state_](std::byte*) {
          EXPECT_FALSE(state->accesses_memory) << "the rows of an update are freed";
        });
  }

 private:
  const std::shared_ptr<TransportState> state_;
};

class NoUpdate final : public ProductUpdateRule {
 public:
  void Apply(absl::Span<const ProductRows>, int64_t, int64_t) override {}
};

class AbandonedTransfersTest : public testing::Test {
 protected:
  AbandonedTransfersTest() {
    const Topology topology = DomainsOfRanks("01");
    exchange_ = std::make_shared<DomainExchange>(
        topology, /*rank=*/0, std::make_unique<SilentTransport>(state_), absl::Minutes(1));
    LocalTeams teams = CreateThreadTeam(1).value();
    communicator_ = CreateTeamCommunicator(
        topology, /*rank=*/0, std::make_unique<WatchedTeam>(std::move(teams[0]), state_),
        exchange_);
  }

  const std::shared_ptr<TransportState> state_ = std::make_shared<TransportState>();
  std::shared_ptr<DomainExchange> exchange_;
  std::unique_ptr<Communicator> communicator_;
};

TEST_F(AbandonedTransfersTest, CommunicatorCancelsAllReduceInFlight) {
  std::vector<float> values(1000);
  ASSERT_EQ(communicator_->Start({.operation = AllReduce{Reduction::kSum, 1000},
                                  .in = values.data(),
                                  .out = values.data(),
                                  .name = "gradient"},
                                 nullptr),
            absl::OkStatus());
  ASSERT_GT(state_->receives, 0);
  communicator_.reset();
  EXPECT_FALSE(state_->accesses_memory);
}

TEST_F(AbandonedTransfersTest, CommunicatorCancelsUpdateBeforeItFreesItsRows) {
  const std::vector<float> left(kRows), right(1);
  std::vector<float> variable(kRows);
  std::byte* const variables[] = {reinterpret_cast<std::byte*>(variable.data())};
  const int64_t counts[] = {1, 1};
  NoUpdate rule;
  ASSERT_EQ(communicator_->Start({.operation = ProductUpdate{.right = right.data(),
                                                             .counts = counts,
                                                             .rows = kRows,
                                                             .row_bytes = sizeof(float),
                                                             .variables = variables,
                                                             .rule = &rule},
                                  .in = left.data(),
                                  .name = "update"},
                                 nullptr),
            absl::OkStatus());
  ASSERT_GT(state_->receives, 0);
  communicator_.reset();
  EXPECT_FALSE(state_->accesses_memory);
}

TEST_F(AbandonedTransfersTest, IdleCommunicatorAbortsNothing) {
  communicator_.reset();
  exchange_.reset();
  EXPECT_FALSE(state_->aborted);
}

}  // namespace
}  // namespace mirrorflow
