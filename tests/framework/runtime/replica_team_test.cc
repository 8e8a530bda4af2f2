// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/replica_team.h"

#include <sched.h>

#include <atomic>
#include <vector>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

cpu_set_t CoresOfThisThread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

TEST(ReplicaTeam, CallsEachReplicaOnceInEveryRun) {
  for (int size : {1, 2, 5}) {
    ReplicaTeam team(size, /*pin=*/false);
    ASSERT_TRUE(team.status().ok()) << team.status();
    std::vector<std::atomic<int>> calls(size);
    for (int run = 1; run <= 100; ++run) {
      team.Run([&](int replica) { ++calls[replica]; });
      for (int r = 0; r < size; ++r) ASSERT_EQ(calls[r], run) << "replica " << r << " of " << size;
    }
  }
}

TEST(ReplicaTeam, DividesCoresAmongReplicas) {
  const cpu_set_t all = CoresOfThisThread();
  const int cores = CPU_COUNT(&all);
  for (int size : {1, 2, 3, cores, cores + 1}) {
    ReplicaTeam team(size, /*pin=*/true);
    std::vector<cpu_set_t> shares(size);
    team.Run([&](int replica) { shares[replica] = CoresOfThisThread(); });
    EXPECT_TRUE(CPU_EQUAL(&shares[0], &all)) << "the caller's thread must keep its affinity";
    cpu_set_t taken;
    CPU_ZERO(&taken);
    for (int r = 1; r < size; ++r) {
      if (size > cores) {
        EXPECT_EQ(CPU_COUNT(&shares[r]), 1);
        continue;
      }
      EXPECT_GE(CPU_COUNT(&shares[r]), cores / size);
      cpu_set_t both;
      CPU_AND(&both, &taken, &shares[r]);
      EXPECT_EQ(CPU_COUNT(&both), 0) << "two replicas share a core";
      CPU_OR(&taken, &taken, &shares[r]);
    }
  }
}

}  // namespace
}  // namespace mirrorflow
