// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/team_communicator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/collective/domain_exchange.h"
#include "distribute/collective/shard_pieces.h"
#include "distribute/collective/team.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/conformance/connect_domains.h"
#include "tests/fakes/cluster/memory_transport.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

absl::StatusOr<Transports> MemoryTransports(const Topology& topology) {
  const auto network = MemoryNetwork::Create(topology);
  Transports transports;
  for (int rank = 0; rank < topology.world_size(); ++rank) {
    transports.push_back(network->TransportOf(rank));
  }
  return transports;
}

absl::StatusOr<Communicators> ConnectInMemory(int world_size, int num_domains,
                                              absl::Duration timeout,
                                              const ExchangeOptions& options = {}) {
  return ConnectDomains(DomainsOfEqualSize(world_size, num_domains), timeout, MemoryTransports,
                        options);
}

const ConformanceCase kOneDomain = {"OneDomain", [](int world_size, absl::Duration timeout) {
                                      return CreateTeamCommunicators(world_size, timeout);
                                    }};
const ConformanceCase kTwoDomains = {
    .backend = "TwoDomains",
    .connect = [](int world_size,
                  absl::Duration timeout) { return ConnectInMemory(world_size, 2, timeout); },
    .sums_in_rank_order = false};
// One domain per rank, so domain order equals rank order.
const ConformanceCase kDomainEach = {"DomainEach", [](int world_size, absl::Duration timeout) {
                                       return ConnectInMemory(world_size, world_size, timeout);
                                     }};
const ConformanceCase kRing = {.backend = "Ring",
                               .connect =
                                   [](int world_size, absl::Duration timeout) {
                                     return ConnectInMemory(world_size, world_size, timeout,
                                                            {.ring_from = 2});
                                   },
                               .sums_in_rank_order = false};
const ConformanceCase kRingOfThreeDomains = {.backend = "RingOfThreeDomains",
                                             .connect =
                                                 [](int world_size, absl::Duration timeout) {
                                                   return ConnectInMemory(world_size, 3, timeout,
                                                                          {.ring_from = 3});
                                                 },
                                             .sums_in_rank_order = false};

// Returns cases with domains of different sizes, including domains whose ranks are not adjacent.
std::vector<ConformanceCase> UnequalDomains() {
  std::vector<ConformanceCase> cases;
  for (const char* const domains : {"0001", "01111", "0102112"}) {
    const Topology topology = DomainsOfRanks(domains);
    cases.push_back({.backend = absl::StrCat("Domains", domains),
                     .connect =
                         [topology](int, absl::Duration timeout) {
                           return ConnectDomains(topology, timeout, MemoryTransports);
                         },
                     .world_size = topology.world_size(),
                     .sums_in_rank_order = false});
  }
  return cases;
}

std::vector<ConformanceCase> AllCases(std::vector<ConformanceCase> (*sizes)(ConformanceCase)) {
  std::vector<ConformanceCase> cases = UnequalDomains();
  for (const ConformanceCase& backend : {kOneDomain, kTwoDomains, kDomainEach}) {
    for (ConformanceCase& sized : sizes(backend)) cases.push_back(std::move(sized));
  }
  for (const ConformanceCase& ring : {kRing, kRingOfThreeDomains}) {
    for (ConformanceCase& sized : sizes(ring)) {
      if (sized.world_size == 4 || sized.world_size == 7) cases.push_back(std::move(sized));
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(, CommunicatorConformance, testing::ValuesIn(AllCases(AtEveryWorldSize)),
                         ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(, CommunicatorAborts,
                         testing::ValuesIn(AllCases(AtEveryWorldSizeAboveOne)),
                         ConformanceCaseName);
// Between domains, a difference shows up as an unexpected message that does not name the other
// rank's collective.
INSTANTIATE_TEST_SUITE_P(, CommunicatorFailures,
                         testing::ValuesIn(AtEveryWorldSizeAboveOne(kOneDomain)),
                         ConformanceCaseName);

// Behaviour beyond the contract of Communicator.

TEST(TeamCommunicatorTest, ImpossibleWorldSizeIsError) {
  for (const int world_size : {-1, 0, 1 << 30}) {
    const absl::Status status = CreateThreadTeam(world_size).status();
    EXPECT_THAT(status,
                IsError(absl::StatusCode::kInvalidArgument, absl::StrCat("got ", world_size)));
  }
}

TEST(TeamCommunicatorTest, TimeoutMustBePositiveAndCanBeInfinite) {
  const absl::Status status = CreateTeamCommunicators(1, absl::ZeroDuration()).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "timeout", "got 0"));
  auto pair = CreateTeamCommunicators(2, absl::InfiniteDuration()).value();
  const Collective barrier{.operation = Barrier{}, .name = "b"};
  std::thread peer([&] { EXPECT_EQ(pair[1]->Run(barrier), absl::OkStatus()); });
  EXPECT_EQ(pair[0]->Run(barrier), absl::OkStatus());
  peer.join();
}

TEST(TeamCommunicatorTest, DifferenceIsReportedInFull) {
  auto pair = CreateTeamCommunicators(2).value();
  float memory[2][100] = {};
  const Collective a{.operation = AllReduce{Reduction::kSum, 10},
                     .in = memory[0],
                     .out = memory[0],
                     .name = "a",
                     .sequence = 3};
  const Collective b{.operation = AllReduce{Reduction::kSum, 100},
                     .in = memory[1],
                     .out = memory[1],
                     .name = "b",
                     .sequence = 3};
  ASSERT_EQ(pair[1]->Start(b, nullptr), absl::OkStatus());
  ASSERT_EQ(pair[0]->Start(a, nullptr), absl::OkStatus());
  const absl::Status status = pair[0]->Finish(a, nullptr);
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "collective 1",
                              "rank 1 runs all-reduce 'b'", "rank 0 runs all-reduce 'a'"));
  EXPECT_EQ(FailureOf(status), (Failure{.rank = 1, .sequence = 3, .name = "a"}));
}

TEST(TeamCommunicatorTest, TimeoutIsReportedInFull) {
  auto three = CreateTeamCommunicators(3, absl::Milliseconds(1)).value();
  const Collective barrier{.operation = Barrier{}, .name = "b", .sequence = 7};
  ASSERT_EQ(three[1]->Start(barrier, nullptr), absl::OkStatus());
  const absl::Status status = three[1]->Finish(barrier, nullptr);
  EXPECT_THAT(status, IsError(absl::StatusCode::kDeadlineExceeded, "barrier 'b', collective 1",
                              "rank 1 timed out", "rank 0, 2"));
  EXPECT_EQ(FailureOf(status), (Failure{.rank = 0, .sequence = 7, .name = "b"}));
}

// Runs an all-reduce of `count` floats on 5 ranks in 3 domains, and returns the results by rank.
std::vector<std::vector<float>> AllReduceOfThreeDomains(int64_t count,
                                                        const ExchangeOptions& options) {
  auto ranks = ConnectInMemory(5, 3, absl::Seconds(20), options).value();
  std::vector<std::vector<float>> values(ranks.size(), std::vector<float>(count));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (int64_t i = 0; i < count; ++i) {
      values[rank][i] = 1.0f + static_cast<float>((i * 7 + rank * 13) % 1000) / 1000;
    }
    threads.emplace_back([&, rank] {
      EXPECT_EQ(ranks[rank]->Run({.operation = AllReduce{Reduction::kMean, count},
                                  .in = values[rank].data(),
                                  .out = values[rank].data(),
                                  .name = "gradients"}),
                absl::OkStatus());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return values;
}

TEST(TeamCommunicatorTest, BFloat16OnWireRoundsLargeFloats) {
  for (const int ring_from : {0, 3}) {
    for (const int64_t count : {100, 200'000}) {
      const auto exact = AllReduceOfThreeDomains(count, {.ring_from = ring_from});
      const auto rounded =
          AllReduceOfThreeDomains(count, {.ring_from = ring_from, .wire_dtype = DT_BFLOAT16});
      double largest_error = 0;
      for (size_t rank = 0; rank < exact.size(); ++rank) {
        EXPECT_EQ(rounded[rank], rounded[0]) << "rank " << rank;
        for (int64_t i = 0; i < count; ++i) {
          largest_error =
              std::max<double>(largest_error, std::abs(rounded[rank][i] / exact[rank][i] - 1));
        }
      }
      if (count * int64_t{sizeof(float)} <= kOneRoundBytes) {
        EXPECT_EQ(largest_error, 0);
      } else {
        // Four roundings add up to half a unit in the last place each: those of the rank's own
        // value, of two sums and of the division.
        EXPECT_GT(largest_error, 1e-4);
        EXPECT_LT(largest_error, 4 * std::ldexp(1.0, -8));
      }
    }
  }
}

TEST(TeamCommunicatorTest, DomainsInDifferentStepsFail) {
  Topology topology;
  topology.replicas = {{.worker = 0, .domain = 0}, {.worker = 1, .domain = 1}};
  const auto network = MemoryNetwork::Create(topology);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    auto exchange = std::make_shared<DomainExchange>(topology, rank, network->TransportOf(rank),
                                                     absl::Seconds(20));
    auto team = CreateThreadTeam(1).value();
    ranks.push_back(CreateTeamCommunicator(topology, rank, std::move(team[0]), exchange));
    ranks.back()->BeginStep(7 + rank);
  }
  std::vector<absl::Status> results(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back(
        [&, rank] { results[rank] = ranks[rank]->Run({.operation = Barrier(), .name = "b"}); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(results[0], IsError(absl::StatusCode::kInvalidArgument, "barrier 'b'",
                                  "rank 1 runs another", "in step 7", "in step 8"));
  EXPECT_EQ(FailureOf(results[0])->rank, 1);
  EXPECT_THAT(results[1],
              IsError(absl::StatusCode::kInvalidArgument, "barrier 'b'", "rank 0 runs another"));
}

TEST(TeamCommunicatorTest, SilentDomainIsNamedAfterTimeout) {
  Topology topology;
  topology.replicas = {{.worker = 0, .domain = 0}, {.worker = 1, .domain = 1}};
  const auto network = MemoryNetwork::Create(topology);
  network->Silence(1);
  auto exchange =
      std::make_shared<DomainExchange>(topology, 0, network->TransportOf(0), absl::Milliseconds(1));
  auto team = CreateThreadTeam(1).value();
  const auto rank_0 = CreateTeamCommunicator(topology, 0, std::move(team[0]), exchange);
  float value = 1;
  const absl::Status status = rank_0->Run({.operation = AllReduce{Reduction::kSum, 1},
                                           .in = &value,
                                           .out = &value,
                                           .name = "loss",
                                           .sequence = 2});
  EXPECT_THAT(status, IsError(absl::StatusCode::kDeadlineExceeded, "rank 0 timed out",
                              "collective 1 'loss'", "bytes from rank 1"));
  EXPECT_EQ(FailureOf(status), (Failure{.rank = 1, .sequence = 2, .name = "loss"}));
  EXPECT_EQ(rank_0->status(), status);
}

TEST(TeamCommunicatorTest, DifferentCollectivesInTwoDomainsFail) {
  auto two = ConnectInMemory(2, 2, absl::Seconds(30)).value();
  std::vector<absl::Status> results(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      float value = 1;
      results[rank] = two[rank]->Run({.operation = AllReduce{Reduction::kSum, 1},
                                      .in = &value,
                                      .out = &value,
                                      .name = rank == 0 ? "a" : "b"});
    });
  }
  for (std::thread& thread : threads) thread.join();
  // If both ranks detect the difference at the same time, each names the other rank. Otherwise, the
  // first to detect it reports it to the other rank.
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(results[rank].code(), absl::StatusCode::kInvalidArgument) << results[rank];
    EXPECT_TRUE(results[rank] == results[1 - rank] || FailureOf(results[rank])->rank == 1 - rank)
        << results[rank];
  }
}

// Reads an element that another thread writes, to detect that the collective has begun.
__attribute__((no_sanitize("thread"))) int32_t Peek(const int32_t* element) {
  return *const_cast<const volatile int32_t*>(element);
}

// A rank can act on the success of its collective, so the collective must not fail on other ranks.
// Here, one rank does all the work while the others wait for it, and the abort happens during that
// work.
TEST(TeamCommunicatorTest, AbortedCollectiveSucceedsOnAllRanksOrOnNone) {
  constexpr int kRanks = 3;
  constexpr int64_t kCount = 4 << 20;
  const std::vector<int64_t> counts = {0, 0, kCount};
  const std::vector<int32_t> in(kCount, 1);
  std::vector<int32_t> out(kCount);
  for (int round = 0; round < 15; ++round) {
    out[0] = 0;
    auto ranks = CreateTeamCommunicators(kRanks).value();
    std::vector<absl::Status> results(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        results[rank] = ranks[rank]->Run({.operation = ReduceScatter{Reduction::kSum, counts},
                                          .dtype = DT_INT32,
                                          .in = in.data(),
                                          .out = out.data()});
      });
    }
    while (Peek(&out[0]) == 0) std::this_thread::yield();
    ranks[0]->Abort(absl::CancelledError("no more"));
    for (std::thread& thread : threads) thread.join();
    for (int rank = 1; rank < kRanks; ++rank) {
      EXPECT_EQ(results[rank], results[0]) << "on rank " << rank;
    }
  }
}

// Adds the gradient and the element index to the variable.
void AddToVariable(int64_t first, const void* gradient, int64_t count, float* variable) {
  const float* values = static_cast<const float*>(gradient);
  for (int64_t i = 0; i < count; ++i) {
    variable[first + i] += values[i] + static_cast<float>(first + i);
  }
}

// Adds the gradient to a rank's variable and counts the elements.
class CountingRule final : public UpdateRule {
 public:
  explicit CountingRule(float* variable) : variable_(variable) {}
  void Apply(int64_t first, const void* gradient, int64_t count) override {
    AddToVariable(first, gradient, count, variable_);
    updated += count;
  }
  int64_t updated = 0;

 private:
  float* const variable_;
};

struct UpdateCase {
  const char* name;
  std::optional<Reduction> reduction;
  int num_domains;
};

class UpdateTest : public testing::TestWithParam<UpdateCase> {};
INSTANTIATE_TEST_SUITE_P(, UpdateTest,
                         testing::Values(UpdateCase{"SumInOneDomain", Reduction::kSum, 1},
                                         UpdateCase{"MeanInOneDomain", Reduction::kMean, 1},
                                         UpdateCase{"WholeInOneDomain", std::nullopt, 1},
                                         UpdateCase{"SumInTwoDomains", Reduction::kSum, 2},
                                         UpdateCase{"MeanInThreeDomains", Reduction::kMean, 3},
                                         UpdateCase{"WholeInTwoDomains", std::nullopt, 2}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(UpdateTest, EachElementIsUpdatedOnceAndVisibleToAllRanks) {
  for (const int world_size : {1, 2, 3, 5}) {
    for (const int64_t count : {0, 1, 17, 4096, 50'001}) {
      SCOPED_TRACE(absl::StrCat(count, " elements, ", world_size, " ranks"));
      auto ranks = ConnectInMemory(world_size, GetParam().num_domains, absl::Seconds(50)).value();
      const bool is_whole = !GetParam().reduction.has_value();
      std::vector<std::vector<float>> gradients(world_size), first(world_size), second(world_size);
      std::vector<int64_t> updated(world_size);
      for (int rank = 0; rank < world_size; ++rank) {
        gradients[rank].assign(count, is_whole ? 6.0f : static_cast<float>(rank + 1));
        first[rank].assign(count, 10);
        second[rank].assign(count, 20);  // passed to the update but never written
      }
      const auto given = gradients;
      std::vector<std::thread> threads;
      for (int rank = 0; rank < world_size; ++rank) {
        threads.emplace_back([&, rank] {
          std::byte* const variables[] = {reinterpret_cast<std::byte*>(first[rank].data()),
                                          reinterpret_cast<std::byte*>(second[rank].data())};
          CountingRule rule(first[rank].data());
          const Collective update = {.operation = Update{.reduction = GetParam().reduction,
                                                         .count = count,
                                                         .variables = variables,
                                                         .rule = &rule},
                                     .in = gradients[rank].data(),
                                     .name = "u"};
          for (int round = 0; round < 2; ++round) {
            EXPECT_EQ(ranks[rank]->Run(update), absl::OkStatus());
          }
          updated[rank] = rule.updated;
        });
      }
      for (std::thread& thread : threads) thread.join();
      int64_t all_updated = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        all_updated += updated[rank];
        EXPECT_EQ(first[rank], first[0]);
        EXPECT_EQ(second[rank], std::vector<float>(count, 20));
        EXPECT_EQ(gradients[rank], given[rank]);
      }
      EXPECT_EQ(all_updated, 2 * count * std::min(GetParam().num_domains, world_size));
      float sum = is_whole ? 6.0f : static_cast<float>(world_size * (world_size + 1) / 2);
      if (GetParam().reduction == Reduction::kMean) sum *= 1.0f / static_cast<float>(world_size);
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(first[0][i], 10 + 2 * (sum + static_cast<float>(i))) << "element " << i;
      }
    }
  }
}

// The updates of one step can be finished in the next step, between and after its other
// collectives.
TEST_P(UpdateTest, CanBeFinishedAfterLaterCollectives) {
  constexpr int kWorldSize = 4;
  auto ranks = ConnectInMemory(kWorldSize, GetParam().num_domains, absl::Seconds(50)).value();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kWorldSize; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator& communicator = *ranks[rank];
      std::vector<float> gradient(100, 1), a(100, 0), b(100, 0), sum(100);
      std::byte* const of_a[] = {reinterpret_cast<std::byte*>(a.data())};
      std::byte* const of_b[] = {reinterpret_cast<std::byte*>(b.data())};
      CountingRule rule_a(a.data()), rule_b(b.data());
      Update update = {.reduction = GetParam().reduction, .count = 100};
      const auto of = [&](UpdateRule* rule, absl::Span<std::byte* const> variables) {
        update.rule = rule;
        update.variables = variables;
        return Collective{.operation = update, .in = gradient.data(), .name = "u"};
      };
      const Collective update_a = of(&rule_a, of_a), update_b = of(&rule_b, of_b);
      for (int step = 0; step < 3; ++step) {
        communicator.BeginStep(step);
        EXPECT_EQ(communicator.Start(update_a, nullptr), absl::OkStatus());
        EXPECT_EQ(communicator.Start(update_b, nullptr), absl::OkStatus());
        EXPECT_EQ(communicator.EndStep(), absl::OkStatus());
        communicator.BeginStep(step + 100);
        EXPECT_EQ(communicator.Run({.operation = AllReduce{Reduction::kSum, 100},
                                    .in = gradient.data(),
                                    .out = sum.data(),
                                    .name = "between"}),
                  absl::OkStatus());
        EXPECT_EQ(sum[0], kWorldSize);
        EXPECT_EQ(communicator.Finish(update_b, nullptr), absl::OkStatus());
        EXPECT_EQ(communicator.Finish(update_a, nullptr), absl::OkStatus());
      }
      const float each = GetParam().reduction == Reduction::kSum ? kWorldSize : 1;
      EXPECT_EQ(a[7], 3 * (each + 7));
      EXPECT_EQ(b, a);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TeamCommunicatorTest, UpdateFinishedWithoutStartIsError) {
  auto ranks = CreateTeamCommunicators(1).value();
  float gradient[] = {1};
  CountingRule rule(gradient);
  const absl::Status status = ranks[0]->Finish(
      {.operation = Update{.count = 1, .rule = &rule}, .in = gradient, .name = "u"}, nullptr);
  EXPECT_THAT(status, IsError(absl::StatusCode::kFailedPrecondition, "update 'u'"));
}

constexpr int64_t kColumns = 3;

// Adds rows [first, last) of the product of all ranks' matrices to the variable.
void AddProduct(absl::Span<const ProductRows> parts, int64_t first, int64_t last, int64_t rows,
                float* variable) {
  for (const ProductRows& part : parts) {
    const float *a = static_cast<const float*>(part.a), *b = static_cast<const float*>(part.b);
    for (int64_t k = 0; k < part.count; ++k, a += rows, b += kColumns) {
      for (int64_t i = first; i < last; ++i) {
        for (int64_t j = 0; j < kColumns; ++j) variable[i * kColumns + j] += a[i] * b[j];
      }
    }
  }
}

class ProductRule final : public ProductUpdateRule {
 public:
  ProductRule(int64_t rows, float* variable) : rows_(rows), variable_(variable) {}
  void Apply(absl::Span<const ProductRows> parts, int64_t first, int64_t last) override {
    AddProduct(parts, first, last, rows_, variable_);
    updated += last - first;
  }
  int64_t updated = 0;

 private:
  const int64_t rows_;
  float* const variable_;
};

// The parameter holds the domain of each rank, in the form that DomainsOfRanks parses.
class ProductUpdateTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Domains, ProductUpdateTest,
                         testing::Values("0", "00", "000", "00000", "01", "001", "012", "0011",
                                         "00011", "01122", "0001", "01111", "0011222", "0101011"),
                         [](const auto& info) { return info.param; });

TEST_P(ProductUpdateTest, UpdateUsesRowsOfAllRanksAndIsVisibleToAll) {
  const Topology topology = DomainsOfRanks(GetParam());
  const int world_size = topology.world_size();
  for (const int64_t rows : {1, 4, 50}) {
    SCOPED_TRACE(absl::StrCat(rows, " rows"));
    auto ranks = ConnectDomains(topology, absl::Seconds(50), MemoryTransports).value();
    // Each rank's number of examples, by round. In the first round, rank 0 has none. In the second,
    // the last rank has none, although its buffers still hold those of the first round.
    std::vector<int64_t> counts[2];
    for (int rank = 0; rank < world_size; ++rank) {
      counts[0].push_back(world_size > 1 ? rank : 2);
    }
    counts[1] = counts[0];
    counts[1].back() = 0;
    std::vector<std::vector<float>> left(world_size), right(world_size), variable(world_size);
    std::vector<int64_t> updated(world_size);
    for (int rank = 0; rank < world_size; ++rank) {
      for (int64_t i = 0; i < counts[0][rank] * rows; ++i) left[rank].push_back(rank + i % 7);
      for (int64_t i = 0; i < counts[0][rank] * kColumns; ++i) {
        right[rank].push_back(static_cast<float>(i % 5));
      }
      variable[rank].assign(rows * kColumns, 10);
    }
    std::vector<float> want = variable[0];
    for (int rank = 0; rank < world_size; ++rank) {
      for (const auto& of_round : counts) {
        const ProductRows part = {left[rank].data(), right[rank].data(), of_round[rank]};
        AddProduct({&part, 1}, 0, rows, rows, want.data());
      }
    }
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world_size; ++rank) {
      threads.emplace_back([&, rank] {
        std::byte* const variables[] = {reinterpret_cast<std::byte*>(variable[rank].data())};
        ProductRule rule(rows, variable[rank].data());
        for (const auto& of_round : counts) {
          const absl::Status status = ranks[rank]->Run(
              {.operation =
                   ProductUpdate{.right = right[rank].data(),
                                 .counts = of_round,
                                 .rows = rows,
                                 .row_bytes = kColumns * static_cast<int64_t>(sizeof(float)),
                                 .variables = variables,
                                 .rule = &rule},
               .in = left[rank].data(),
               .name = "u"});
          EXPECT_EQ(status, absl::OkStatus());
        }
        updated[rank] = rule.updated;
      });
    }
    for (std::thread& thread : threads) thread.join();
    int64_t all_updated = 0;
    for (int rank = 0; rank < world_size; ++rank) {
      all_updated += updated[rank];
      EXPECT_EQ(variable[rank], want) << "on rank " << rank;
    }
    EXPECT_EQ(all_updated, 2 * rows * topology.num_domains());
  }
}

// One rank's part of a product update where each rank contributes one row.
class OneRowEach {
 public:
  OneRowEach(int rank, int world_size)
      : counts_(world_size, 1), left_(kRows, 1 + rank), right_(kColumns, 1) {}

  Collective collective() {
    return {.operation = ProductUpdate{.right = right_.data(),
                                       .counts = counts_,
                                       .rows = kRows,
                                       .row_bytes = kColumns * int64_t{sizeof(float)},
                                       .variables = variables_,
                                       .rule = &rule_},
            .in = left_.data(),
            .name = "u"};
  }
  const std::vector<float>& variable() const { return variable_; }

  static constexpr int64_t kRows = 16;

 private:
  const std::vector<int64_t> counts_;
  const std::vector<float> left_, right_;
  std::vector<float> variable_ = std::vector<float>(kRows * kColumns);
  std::byte* const variables_[1] = {reinterpret_cast<std::byte*>(variable_.data())};
  ProductRule rule_ = ProductRule(kRows, variable_.data());
};

// Rank 0 receives rows that rank 1 also needs.
TEST(TeamCommunicatorTest, ProductUpdateWaitsForRowsThatOtherRanksReceive) {
  auto ranks = ConnectDomains(DomainsOfRanks("0011"), absl::Seconds(50), MemoryTransports).value();
  std::latch first_has_started(1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      OneRowEach part(rank, 4);
      if (rank != 0) first_has_started.wait();
      EXPECT_EQ(ranks[rank]->Start(part.collective(), nullptr), absl::OkStatus());
      if (rank == 0) {
        first_has_started.count_down();
        // Give the other ranks time to continue without these rows; no result depends on it.
        const auto late_enough = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
        while (std::chrono::steady_clock::now() < late_enough) std::this_thread::yield();
      }
      EXPECT_EQ(ranks[rank]->Finish(part.collective(), nullptr), absl::OkStatus());
      EXPECT_EQ(part.variable(), std::vector<float>(OneRowEach::kRows * kColumns, 1 + 2 + 3 + 4))
          << "on rank " << rank;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Even ranks that exchange no data with the missing rank name it.
TEST(TeamCommunicatorTest, RankMissingInAnotherDomainIsNamedByAll) {
  for (const char* const domains : {"0001", "0011", "01100"}) {
    const Topology topology = DomainsOfRanks(domains);
    const int world_size = topology.world_size(), missing = world_size - 1;
    const std::vector<int64_t> counts(world_size, 10);
    for (const decltype(Collective::operation)& operation :
         std::initializer_list<decltype(Collective::operation)>{
             AllReduce{Reduction::kSum, 10}, ReduceScatter{Reduction::kSum, counts},
             AllGather{counts}, Broadcast{.count = 10, .root = missing}, Barrier{},
             ProductUpdate{}}) {
      SCOPED_TRACE(absl::StrCat(domains, ", operation ", operation.index()));
      auto ranks = ConnectDomains(topology, absl::Milliseconds(200), MemoryTransports).value();
      std::vector<absl::Status> results(world_size);
      std::vector<std::thread> threads;
      for (int rank = 0; rank < world_size; ++rank) {
        if (rank == missing) continue;
        threads.emplace_back([&, rank] {
          OneRowEach part(rank, world_size);
          std::vector<float> in(10 * world_size), out(10 * world_size);
          Collective collective = part.collective();
          if (!std::holds_alternative<ProductUpdate>(operation)) {
            collective = {.operation = operation, .in = in.data(), .out = out.data(), .name = "c"};
          }
          results[rank] = ranks[rank]->Run(collective);
        });
      }
      for (std::thread& thread : threads) thread.join();
      for (int rank = 0; rank < missing; ++rank) {
        EXPECT_EQ(results[rank].code(), absl::StatusCode::kDeadlineExceeded) << results[rank];
        ASSERT_TRUE(FailureOf(results[rank]).has_value()) << results[rank];
        EXPECT_EQ(FailureOf(results[rank])->rank, missing) << results[rank];
      }
    }
  }
}

TEST(TeamCommunicatorTest, RankThatLeavesFailsCollectivesOfOthers) {
  auto pair = CreateTeamCommunicators(2).value();
  const Collective barrier{.operation = Barrier{}, .name = "b"};
  ASSERT_EQ(pair[0]->Start(barrier, nullptr), absl::OkStatus());
  pair[1].reset();
  const absl::Status status = pair[0]->Finish(barrier, nullptr);
  EXPECT_THAT(status, IsError(absl::StatusCode::kAborted, "rank 1", "has left"));
  EXPECT_EQ(FailureOf(status), Failure{.rank = 1});
}

TEST(TeamCommunicatorTest, OnlyFirstCollectiveInFlightCanBeFinished) {
  const Collective a{.operation = Barrier{}, .name = "a"};
  const Collective b{.operation = Barrier{}, .name = "b"};
  for (const bool start : {false, true}) {
    auto one = CreateTeamCommunicators(1).value();
    if (start) {
      ASSERT_EQ(one[0]->Start(a, nullptr), absl::OkStatus());
      ASSERT_EQ(one[0]->Start(b, nullptr), absl::OkStatus());
    }
    const absl::Status status = one[0]->Finish(b, nullptr);
    EXPECT_THAT(status, IsError(absl::StatusCode::kFailedPrecondition, "barrier 'b'"));
    EXPECT_EQ(one[0]->Run(a), status);
  }
}

}  // namespace
}  // namespace mirrorflow
