// SPDX-License-Identifier: Apache-2.0
//
// Tests all-reduces around a ring of memory domains.
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/topology.h"
#include "gtest/gtest.h"
#include "tests/conformance/connect_domains.h"
#include "tests/fakes/cluster/memory_transport.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

// Only the next rank waits directly for the missing rank. The other ranks wait for sums that the
// missing rank does not pass on.
TEST(RingAllReduceTest, MissingRankIsNamedByAll) {
  constexpr int kRanks = 4;
  constexpr int64_t kCount = 100'000;
  for (int missing = 0; missing < kRanks; ++missing) {
    SCOPED_TRACE(absl::StrCat("without rank ", missing));
    const auto create = [](const Topology& topology) -> absl::StatusOr<Transports> {
      const auto network = MemoryNetwork::Create(topology);
      Transports transports;
      for (int rank = 0; rank < topology.world_size(); ++rank) {
        transports.push_back(network->TransportOf(rank));
      }
      return transports;
    };
    const auto ranks = ConnectDomains(DomainsOfEqualSize(kRanks, kRanks), absl::Milliseconds(500),
                                      create, {.ring_from = kRanks});
    ASSERT_TRUE(ranks.ok()) << ranks.status();
    std::vector<absl::Status> results(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == missing) continue;
      threads.emplace_back([&, rank] {
        std::vector<float> value(kCount);
        results[rank] = (*ranks)[rank]->Run({.operation = AllReduce{Reduction::kSum, kCount},
                                             .in = value.data(),
                                             .out = value.data(),
                                             .name = "gradient"});
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == missing) continue;
      EXPECT_THAT(results[rank], IsError(absl::StatusCode::kDeadlineExceeded, "'gradient'",
                                         absl::StrCat("from rank ", missing)));
      EXPECT_EQ(FailureOf(results[rank])->rank, missing);
    }
  }
}

}  // namespace
}  // namespace mirrorflow
