// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/topology.h"

#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

// Returns a topology with two workers on one host and a third on another. They have two, one and
// two replicas.
Topology ThreeWorkers() {
  return {.replicas = {
              {0, 0, "CPU:0"}, {0, 0, "CPU:1"}, {1, 0, "CPU:0"}, {2, 1, "CPU:0"}, {2, 1, "CPU:1"}}};
}

TEST(TopologyTest, NumbersRanksWorkerByWorker) {
  const Topology topology = ThreeWorkers();
  EXPECT_TRUE(topology.Check().ok()) << topology.Check();
  EXPECT_EQ(topology.world_size(), 5);
  EXPECT_EQ(topology.num_workers(), 3);
  EXPECT_EQ(topology.num_domains(), 2);
  EXPECT_EQ(topology.RanksOfWorker(2), (std::vector<int>{3, 4}));
  EXPECT_EQ(topology.RanksOfDomain(0), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(topology.ToString(),
            "worker 0: rank 0 on CPU:0 in domain 0, rank 1 on CPU:1 in domain 0; worker 1: rank 2 "
            "on CPU:0 in domain 0; worker 2: rank 3 on CPU:0 in domain 1, rank 4 on CPU:1 in "
            "domain 1");
}

TEST(TopologyTest, OneWorkerHasOneDomainOrOnePerDevice) {
  EXPECT_EQ(Topology::OneWorker({"CPU:0", "CPU:1"}, true).num_domains(), 1);
  EXPECT_EQ(Topology::OneWorker({"GPU:0", "GPU:1"}, false).num_domains(), 2);
}

TEST(TopologyTest, GapsInNumberingAreErrors) {
  struct Case {
    std::function<void(Topology*)> change;
    const char* place;
    const char* token;
  };
  const Case cases[] = {
      {[](Topology* t) { t->replicas.clear(); }, "topology:", "got none"},
      {[](Topology* t) { t->replicas[0].worker = 1; }, "topology: rank 0:", "got 1"},
      {[](Topology* t) { t->replicas[0].worker = -1; }, "topology: rank 0:", "got -1"},
      {[](Topology* t) { t->replicas[2].worker = 2; }, "topology: rank 2:", "got 2"},
      {[](Topology* t) { t->replicas[4].worker = 1; }, "topology: rank 4:", "got 1"},
      {[](Topology* t) { t->replicas[3].domain = t->replicas[4].domain = 2; },
       "topology:", "got 0 to 2"},
  };
  for (const Case& c : cases) {
    Topology topology = ThreeWorkers();
    c.change(&topology);
    EXPECT_THAT(topology.Check(), IsError(absl::StatusCode::kInvalidArgument, c.place, c.token));
  }
}

TEST(TopologyTest, DomainWithRanksOfSeveralWorkersSpansWorkers) {
  const Topology topology = ThreeWorkers();
  for (const int rank : {0, 1, 2}) EXPECT_TRUE(topology.DomainSpansWorkers(rank));
  for (const int rank : {3, 4}) EXPECT_FALSE(topology.DomainSpansWorkers(rank));
}

}  // namespace
}  // namespace mirrorflow
