// SPDX-License-Identifier: Apache-2.0
#include "framework/workers/agreement.h"

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/cluster/memory_worker_group.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

constexpr int kWorkers = 3;

// Runs Agree() on three workers, each with its own lines, and returns each worker's status.
std::vector<absl::Status> AgreeOn(const std::vector<std::vector<std::string>>& lines) {
  Topology topology;
  for (int w = 0; w < kWorkers; ++w) topology.replicas.push_back({.worker = w, .domain = w});
  const auto groups = CreateMemoryWorkerGroups(kWorkers);
  std::vector<absl::Status> statuses(kWorkers);
  std::vector<std::thread> threads;
  for (int w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      Agreement own;
      for (const std::string& line : lines[w]) own.AddText(line);
      statuses[w] =
          Agree(own, "step 1", topology, *groups[w], MonotonicTime::Now() + absl::Seconds(30));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST(AgreementTest, EqualLinesAgree) {
  const std::vector<std::string> lines = {"a = 1", "b = 2", "c = 3"};
  for (const absl::Status& status : AgreeOn({lines, lines, lines})) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(AgreementTest, FirstDifferenceIsReportedIdenticallyToAllWorkers) {
  // The difference may be on any line. All lines after it are equal.
  for (int at = 0; at < 9; ++at) {
    std::vector<std::vector<std::string>> lines(kWorkers);
    for (int w = 0; w < kWorkers; ++w) {
      for (int i = 0; i < 9; ++i) {
        lines[w].push_back(absl::StrCat("line ", i, w == 1 && i == at ? " odd" : ""));
      }
    }
    const auto statuses = AgreeOn(lines);
    EXPECT_THAT(statuses[0], IsError(absl::StatusCode::kInvalidArgument, "step 1:",
                                     absl::StrCat("worker 0 (rank 0) has `line ", at, "`"),
                                     absl::StrCat("worker 1 (rank 1) has `line ", at, " odd`")));
    EXPECT_EQ(FailureOf(statuses[0]), (Failure{.rank = 1, .worker = 1, .name = "step 1"}));
    EXPECT_EQ(statuses[1], statuses[0]);
    EXPECT_EQ(statuses[2], statuses[0]);
  }
}

TEST(AgreementTest, MissingWorkerIsNamed) {
  Topology topology;
  for (int w = 0; w < kWorkers; ++w) topology.replicas.push_back({.worker = w, .domain = w});
  const auto groups = CreateMemoryWorkerGroups(kWorkers);
  const MonotonicTime deadline = MonotonicTime::Now() + absl::Milliseconds(200);
  std::thread other([&] { Agree({}, "step 1", topology, *groups[2], deadline).IgnoreError(); });
  const absl::Status status = Agree({}, "step 1", topology, *groups[0], deadline);
  other.join();
  EXPECT_THAT(status, IsError(absl::StatusCode::kDeadlineExceeded,
                              "step 1:", "worker 1 did not arrive", "worker 0 timed out"));
  EXPECT_EQ(FailureOf(status), (Failure{.worker = 1, .name = "step 1"}));
}

TEST(AgreementTest, MissingLinesAreReportedAsDifference) {
  const std::vector<std::string> lines = {"a = 1", "b = 2"};
  const auto statuses = AgreeOn({lines, lines, {"a = 1"}});
  EXPECT_THAT(statuses[0],
              IsError(absl::StatusCode::kInvalidArgument, "worker 2 (rank 2)", "`nothing more`"));
  EXPECT_EQ(AgreeOn({{}, {}, {}})[0], absl::OkStatus());
}

// Expected value from FIPS 180-2, appendix B.1.
TEST(AgreementTest, PrefixHashesAreSha256OfLinesSoFar) {
  Agreement agreement;
  agreement.AddText("abc");
  EXPECT_EQ(absl::BytesToHexString(agreement.PrefixHashes()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Agreement other;
  other.AddText("abc\nabc");
  EXPECT_EQ(other.PrefixHashes().size(), 64u);
  EXPECT_NE(other.PrefixHashes().substr(0, 32), other.PrefixHashes().substr(32));
}

}  // namespace
}  // namespace mirrorflow
