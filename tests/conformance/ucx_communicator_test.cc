// SPDX-License-Identifier: Apache-2.0
//
// Tests communicators between domains over UCX, which uses TCP on the loopback device.
#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "distribute/collective/domain_partners.h"
#include "distribute/collective/ucx/ucx_transport.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/conformance/connect_domains.h"
#include "tests/support/is_error.h"
#include "tests/support/transfers.h"

namespace mirrorflow {
namespace {

// Connects the ranks of `topology`. `incarnations` holds each rank's incarnation.
absl::StatusOr<Transports> ConnectUcx(const Topology& topology,
                                      const std::vector<uint64_t>& incarnations) {
  const int world_size = topology.world_size();
  const DomainPartners partners(topology);
  std::vector<std::unique_ptr<UcxTransport>> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    MF_ASSIGN_OR_RETURN(
        auto transport,
        UcxTransport::Create({.rank = rank, .incarnation = incarnations[rank], .device = "lo"}));
    ranks.push_back(std::move(transport));
  }
  for (int rank = 0; rank < world_size; ++rank) {
    MF_ASSIGN_OR_RETURN(const std::string address, ranks[rank]->Address());
    for (const int peer : partners.PeersOf(rank)) {
      MF_RETURN_IF_ERROR(ranks[peer]->Connect(rank, address));
    }
  }
  Transports transports;
  for (auto& transport : ranks) transports.push_back(std::move(transport));
  return transports;
}

absl::StatusOr<Transports> ConnectTopology(const Topology& topology) {
  return ConnectUcx(topology, std::vector<uint64_t>(topology.world_size(), 7));
}

// Connects `world_size` ranks, each in its own domain.
absl::StatusOr<Transports> UcxTransports(int world_size) {
  return ConnectTopology(DomainsOfEqualSize(world_size, world_size));
}

std::vector<ConformanceCase> AllCases(std::vector<ConformanceCase> (*sizes)(ConformanceCase)) {
  const ConformanceCase two_domains = {
      .backend = "UcxTwoDomains",
      .connect =
          [](int world_size, absl::Duration timeout) {
            return ConnectDomains(DomainsOfEqualSize(world_size, 2), timeout, ConnectTopology);
          },
      .sums_in_rank_order = false};
  const ConformanceCase domain_each = {
      "UcxDomainEach", [](int world_size, absl::Duration timeout) {
        return ConnectDomains(DomainsOfEqualSize(world_size, world_size), timeout, ConnectTopology);
      }};
  const Topology unequal = DomainsOfRanks("00111");
  std::vector<ConformanceCase> cases = {{.backend = "UcxUnequalDomains",
                                         .connect =
                                             [unequal](int, absl::Duration timeout) {
                                               return ConnectDomains(unequal, timeout,
                                                                     ConnectTopology);
                                             },
                                         .world_size = unequal.world_size(),
                                         .sums_in_rank_order = false}};
  for (const ConformanceCase& backend : {two_domains, domain_each}) {
    for (ConformanceCase& sized : sizes(backend)) cases.push_back(std::move(sized));
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(, CommunicatorConformance, testing::ValuesIn(AllCases(AtEveryWorldSize)),
                         ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(, CommunicatorAborts,
                         testing::ValuesIn(AllCases(AtEveryWorldSizeAboveOne)),
                         ConformanceCaseName);
// This suite does not apply: between domains, a difference between ranks shows up as an unexpected
// message.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorFailures);

// --- beyond the contract of Communicator --------------------------------------------------------

constexpr absl::Duration kShort = absl::Milliseconds(300);

MessageTag Tag(uint64_t sequence) { return {.step = 9, .sequence = sequence, .fingerprint = 1}; }

std::vector<std::byte> Bytes(size_t size) { return std::vector<std::byte>(size, std::byte{7}); }

absl::Span<std::byte> AsBytes(std::vector<uint32_t>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(uint32_t)};
}

// Runs `work` for each rank on a separate thread, and returns the results of Finish by rank.
std::vector<absl::Status> OnEach(Transports& transports,
                                 const std::function<absl::Status(Transfers&, int rank)>& work) {
  std::vector<absl::Status> statuses(transports.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < transports.size(); ++rank) {
    threads.emplace_back([&, rank] {
      Transfers transfers(*transports[rank]);
      statuses[rank] = work(transfers, static_cast<int>(rank));
      if (statuses[rank].ok()) statuses[rank] = transfers.Finish();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST(UcxTransportTest, UcxInstallsNoSighupHandler) {
  ASSERT_TRUE(UcxTransports(2).ok());
  struct sigaction action;
  ASSERT_EQ(sigaction(SIGHUP, nullptr, &action), 0);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
}

TEST(UcxTransportTest, LargeMessagesArriveInOrder) {
  auto transports = UcxTransports(2);
  ASSERT_TRUE(transports.ok()) << transports.status();
  constexpr int kMessages = 20;
  std::vector<std::vector<uint32_t>> sent(kMessages), got(kMessages);
  for (int m = 0; m < kMessages; ++m) {
    sent[m].resize(m % 3 == 0 ? 1'000'000 : 10, m);
    got[m].resize(sent[m].size());
  }
  for (const absl::Status& status : OnEach(*transports, [&](Transfers&transfers, int rank) {
         for (int m = 0; m < kMessages; ++m) {
           const absl::Status started = rank == 0 ? transfers.Send(1, Tag(m), AsBytes(sent[m]))
                                                  : transfers.Receive(0, Tag(m), AsBytes(got[m]));
           if (!started.ok()) return started;
         }
         return absl::OkStatus();
       })) {
    EXPECT_EQ(status, absl::OkStatus());
  }
  EXPECT_EQ(got, sent);
}

TEST(UcxTransportTest, MismatchedCollectiveIsReportedWithStepOfEachRank) {
  // Tags hold only the low bits of these numbers.
  const MessageTag expected = {.step = 8192, .sequence = 4095, .fingerprint = 0xabcde};
  MessageTag next_step = expected, previous_step = expected, other = expected;
  ++next_step.step;
  --previous_step.step;
  ++other.fingerprint;
  const struct {
    MessageTag tag;
    size_t bytes;
    const char* got;
  } cases[] = {
      {next_step, 100, "in step 8193"},
      {previous_step, 100, "in step 8191"},
      {other, 100, "in step 8192, which differs"},
      {expected, 200, "got 200 bytes"},
  };
  for (const auto& c : cases) {
    auto transports = UcxTransports(2);
    ASSERT_TRUE(transports.ok()) << transports.status();
    std::vector<std::byte> out = Bytes(c.bytes), in = Bytes(100);
    const auto statuses = OnEach(*transports, [&](Transfers& transfers, int rank) {
      return rank == 0 ? transfers.Send(1, c.tag, absl::MakeSpan(out))
                       : transfers.Receive(0, expected, absl::MakeSpan(in));
    });
    EXPECT_THAT(statuses[1], IsError(absl::StatusCode::kInvalidArgument, "rank 0 runs another",
                                     "collective 4095 in step", c.got));
    EXPECT_EQ(FailureOf(statuses[1])->rank, 0);
  }
}

TEST(UcxTransportTest, MessageFromAnotherIncarnationIsRejected) {
  auto transports = ConnectUcx(DomainsOfEqualSize(2, 2), /*incarnations=*/{7, 8});
  ASSERT_TRUE(transports.ok()) << transports.status();
  std::vector<std::byte> data = Bytes(100);
  const auto statuses = OnEach(*transports, [&](Transfers& transfers, int rank) {
    return rank == 0 ? transfers.Send(1, Tag(5), absl::MakeSpan(data))
                     : transfers.Receive(0, Tag(5), absl::MakeSpan(data));
  });
  EXPECT_THAT(statuses[1], IsError(absl::StatusCode::kAborted, "incarnation 8"));
}

TEST(UcxTransportTest, SilentPeerIsNamedAfterTimeout) {
  auto transports = UcxTransports(2);
  ASSERT_TRUE(transports.ok()) << transports.status();
  std::vector<std::byte> in = Bytes(100);
  Transfers transfers(*(*transports)[1], kShort);
  ASSERT_EQ(transfers.Receive(0, Tag(5), absl::MakeSpan(in)), absl::OkStatus());
  const absl::Status status = transfers.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_EQ(FailureOf(status)->rank, 0);
  EXPECT_EQ(transfers.Receive(0, Tag(6), absl::MakeSpan(in)), status);
}

TEST(UcxTransportTest, PendingPrefersDirectReceiveToForwardedReceive) {
  auto transports = UcxTransports(3);
  ASSERT_TRUE(transports.ok()) << transports.status();
  Transport& transport = *(*transports)[0];
  std::vector<std::byte> in[2] = {Bytes(100), Bytes(100)};
  int unfinished = 0;
  for (const int peer : {1, 2}) {
    ASSERT_EQ(transport.StartReceive(
                  {.peer = peer, .tag = Tag(5), .unfinished = &unfinished, .passed_on = peer == 1},
                  absl::MakeSpan(in[peer - 1])),
              absl::OkStatus());
    EXPECT_EQ(transport.pending()->peer, peer);
  }
  transport.Abort(absl::CancelledError("enough"));
}

TEST(UcxTransportTest, LossOfPeerEndsWaitBeforeTimeout) {
  auto transports = UcxTransports(2);
  ASSERT_TRUE(transports.ok()) << transports.status();
  std::vector<std::byte> data = Bytes(100);
  // A first exchange establishes the connection.
  for (const absl::Status& status : OnEach(*transports, [&](Transfers&transfers, int rank) {
         return rank == 0 ? transfers.Send(1, Tag(5), absl::MakeSpan(data))
                          : transfers.Receive(0, Tag(5), absl::MakeSpan(data));
       })) {
    ASSERT_EQ(status, absl::OkStatus());
  }
  std::vector<std::byte> large = Bytes(10'000'000);
  (*transports)[1] = nullptr;
  Transfers transfers(*(*transports)[0]);
  ASSERT_EQ(transfers.Send(1, Tag(6), absl::MakeSpan(large)), absl::OkStatus());
  const MonotonicTime start = MonotonicTime::Now();
  const absl::Status status = transfers.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(FailureOf(status)->rank, 1);
  EXPECT_LT(MonotonicTime::Now() - start, absl::Seconds(10));
}

TEST(UcxTransportTest, UnconnectedRankIsError) {
  auto transports = ConnectTopology(DomainsOfEqualSize(4, 2));
  ASSERT_TRUE(transports.ok()) << transports.status();
  std::vector<std::byte> data = Bytes(100);
  Transfers transfers(*(*transports)[0]);
  const absl::Status sent = transfers.Send(3, Tag(5), absl::MakeSpan(data));
  EXPECT_THAT(sent, IsError(absl::StatusCode::kInternal, "rank 0", "rank 3"));
  EXPECT_EQ(transfers.Receive(3, Tag(5), absl::MakeSpan(data)), sent);
}

TEST(UcxTransportTest, UnknownDeviceIsError) {
  const auto transport = UcxTransport::Create({.device = "nowhere0"});
  EXPECT_THAT(transport.status(), IsError(absl::StatusCode::kUnavailable, "nowhere0"));
}

TEST(UcxTransportTest, LoadingUcxKeepsSignalHandlers) {
  struct sigaction before, after;
  ASSERT_EQ(sigaction(SIGSEGV, nullptr, &before), 0);
  ASSERT_TRUE(UcxTransport::Create({.device = "lo"}).ok());
  ASSERT_EQ(sigaction(SIGSEGV, nullptr, &after), 0);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

}  // namespace
}  // namespace mirrorflow
