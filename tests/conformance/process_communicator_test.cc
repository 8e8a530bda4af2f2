// SPDX-License-Identifier: Apache-2.0
//
// Tests communicators between workers that are processes on this host: through shared memory, over
// UCX and over TCP.
#include <signal.h>

#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/conformance/process_ranks.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

ConformanceCase CaseOf(const char* name, CollectiveKind kind) {
  return {.backend = name, .connect = [kind](int world_size, absl::Duration timeout) {
            return ConnectProcesses(world_size, kind, timeout);
          }};
}
const ConformanceCase kSharedMemory =
    CaseOf("ProcessesWithSharedMemory", CollectiveKind::kSharedMemory);
// One domain per rank, so domain order equals rank order.
const ConformanceCase kUcx = CaseOf("ProcessesOverUcx", CollectiveKind::kUcx);
const ConformanceCase kTcp = CaseOf("ProcessesOverTcp", CollectiveKind::kTcp);

// Returns a backend's cases at three world sizes. Other tests cover the domain exchange at every
// size, without starting processes.
std::vector<ConformanceCase> AtThreeWorldSizes(const ConformanceCase& backend) {
  std::vector<ConformanceCase> cases = AtEveryWorldSize(backend);
  std::erase_if(cases, [](const ConformanceCase& c) {
    return c.world_size != 2 && c.world_size != 3 && c.world_size != 7;
  });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, CommunicatorConformance,
                         testing::ValuesIn(AtEveryWorldSize(kSharedMemory)), ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(Ucx, CommunicatorConformance, testing::ValuesIn(AtThreeWorldSizes(kUcx)),
                         ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(Tcp, CommunicatorConformance, testing::ValuesIn(AtThreeWorldSizes(kTcp)),
                         ConformanceCaseName);
// Only for shared memory: over UCX and TCP, the session forwards failures to the other workers.
INSTANTIATE_TEST_SUITE_P(SharedMemory, CommunicatorFailures,
                         testing::ValuesIn(AtEveryWorldSizeAboveOne(kSharedMemory)),
                         ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(SharedMemory, CommunicatorAborts,
                         testing::ValuesIn(AtEveryWorldSizeAboveOne(kSharedMemory)),
                         ConformanceCaseName);

TEST(ProcessTeamTest, KilledProcessIsNamedByOthersAfterTimeout) {
  auto ranks = ConnectProcesses(3, CollectiveKind::kSharedMemory, absl::Milliseconds(300)).value();
  kill(ProcessOf(*ranks[1]), SIGKILL);
  std::vector<absl::Status> results(3);
  std::vector<std::thread> threads;
  for (const int rank : {0, 2}) {
    threads.emplace_back([&, rank] {
      float memory[10] = {};
      results[rank] = ranks[rank]->Run(
          {.operation = AllReduce{Reduction::kSum, 10}, .in = memory, .out = memory, .name = "a"});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(results[0], IsError(absl::StatusCode::kDeadlineExceeded, "by rank 1"));
  EXPECT_EQ(results[2], results[0]);
}

}  // namespace
}  // namespace mirrorflow
