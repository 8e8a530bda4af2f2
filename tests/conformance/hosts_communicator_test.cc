// SPDX-License-Identifier: Apache-2.0
//
// Tests communicators of hosts that are connected over TCP.
#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "framework/core/status.h"
#include "framework/runtime/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/conformance/connect_domains.h"
#include "tests/conformance/connect_hosts.h"

namespace mirrorflow {
namespace {

INSTANTIATE_TEST_SUITE_P(, CommunicatorConformance, testing::ValuesIn(HostsCases(Network::kTcp)),
                         ConformanceCaseName);
// These suites do not apply, because only a session forwards a failure on one host to the others.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorFailures);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorAborts);

// Adds aᵀ · b to a variable, where b has one column.
class OuterProduct final : public ProductUpdateRule {
 public:
  explicit OuterProduct(float* variable) : variable_(variable) {}
  void Apply(absl::Span<const ProductRows> parts, int64_t first, int64_t last) override {
    for (const ProductRows& part : parts) {
      for (int64_t k = 0; k < part.count; ++k) {
        const float* const a = static_cast<const float*>(part.a) + k * kRows;
        for (int64_t i = first; i < last; ++i) {
          variable_[i] += a[i] * static_cast<const float*>(part.b)[k];
        }
      }
    }
  }
  static constexpr int64_t kRows = 40;

 private:
  float* const variable_;
};

TEST(HostsProductUpdateTest, WorkersOnHostShareRowsFromOtherHosts) {
  const Topology topology = DomainsOfRanks("0111010");
  auto hosts = ConnectHosts(topology, Network::kTcp, absl::Seconds(50));
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  const int world_size = topology.world_size();
  constexpr int64_t kRows = OuterProduct::kRows;
  float want = 0;
  std::vector<int64_t> counts;
  for (int rank = 0; rank < world_size; ++rank) {
    counts.push_back(rank % 3);
    want += static_cast<float>(counts[rank] * (1 + rank));
  }
  std::vector<std::shared_ptr<std::byte>> memory;
  for (int rank = 0; rank < world_size; ++rank) {
    auto allocated = hosts->memory[rank]->Allocate(kRows * sizeof(float));
    ASSERT_TRUE(allocated.ok()) << allocated.status();
    memory.push_back(*std::move(allocated));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      float* const variable = reinterpret_cast<float*>(memory[rank].get());
      std::byte* const variables[] = {memory[rank].get()};
      OuterProduct rule(variable);
      for (int round = 1; round <= 20; ++round) {
        const std::vector<float> left(counts[rank] * kRows, static_cast<float>(round));
        const std::vector<float> right(counts[rank], static_cast<float>(1 + rank));
        std::fill_n(variable, kRows, 0.0f);
        const Collective barrier = {.operation = Barrier{}, .name = "filled"};
        EXPECT_EQ(hosts->ranks[rank]->Run(barrier), absl::OkStatus());
        EXPECT_EQ(hosts->ranks[rank]->Run({.operation = ProductUpdate{.right = right.data(),
                                                                      .counts = counts,
                                                                      .rows = kRows,
                                                                      .row_bytes = sizeof(float),
                                                                      .variables = variables,
                                                                      .rule = &rule},
                                           .in = left.data(),
                                           .name = "u"}),
                  absl::OkStatus());
        EXPECT_EQ(std::vector<float>(variable, variable + kRows),
                  std::vector<float>(kRows, static_cast<float>(round) * want))
            << "round " << round << " on rank " << rank;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace mirrorflow
