// SPDX-License-Identifier: Apache-2.0
//
// Ranks and workers whose collectives differ, over memory worker groups.
#include "distribute/collective/collective_agreement.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/cluster/memory_worker_group.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::Not;

constexpr int kWorkers = 3;

Collective Sum(absl::string_view name, int sequence, int64_t count = 10) {
  return {.operation = AllReduce{Reduction::kSum, count}, .name = name, .sequence = sequence};
}

// Workers of one rank each.
class CollectiveAgreementTest : public testing::Test {
 protected:
  CollectiveAgreementTest() {
    Topology topology;
    for (int w = 0; w < kWorkers; ++w) topology.replicas.push_back({.worker = w, .domain = w});
    for (int w = 0; w < kWorkers; ++w) {
      const int rank[] = {w};
      agreements_.push_back(
          std::make_unique<CollectiveAgreement>(topology, rank, groups_[w].get()));
    }
  }

  absl::Status Check(int worker, const Collective& c, absl::string_view how = "",
                     absl::Duration timeout = absl::Seconds(60)) {
    return agreements_[worker]->Check(0, c, how, MonotonicTime::Now() + timeout);
  }
  // Returns the results by worker.
  static std::vector<absl::Status> OnEach(const std::function<absl::Status(int worker)>& work) {
    std::vector<absl::Status> statuses(kWorkers);
    std::vector<std::thread> threads;
    for (int w = 0; w < kWorkers; ++w) {
      threads.emplace_back([&, w] { statuses[w] = work(w); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }
  // Runs equal collectives on all workers.
  void Agree(uint64_t count) {
    for (const absl::Status& status : OnEach([&](int w) {
           absl::Status status;
           for (uint64_t i = 0; i < count && status.ok(); ++i) status = Check(w, Sum("a", 0));
           return status;
         })) {
      ASSERT_EQ(status, absl::OkStatus());
    }
  }

  std::vector<std::unique_ptr<MemoryWorkerGroup>> groups_ = CreateMemoryWorkerGroups(kWorkers);
  std::vector<std::unique_ptr<CollectiveAgreement>> agreements_;
};

TEST_F(CollectiveAgreementTest, EqualCollectivesAgree) {
  Agree(2 * CollectiveAgreement::kInterval + 1);
}

TEST_F(CollectiveAgreementTest, EveryWorkerLearnsWhatEachRankHas) {
  Agree(2);
  const Collective odd[] = {
      Sum("b", 4),
      Sum("a", 5),
      Sum("a", 4, 9),
      {.operation = AllReduce{Reduction::kMax, 10}, .name = "a", .sequence = 4},
      {.operation = AllReduce{Reduction::kSum, 10}, .dtype = DT_INT32, .name = "a", .sequence = 4},
      {.operation = Broadcast{.count = 10, .root = 0}, .name = "a", .sequence = 4},
  };
  const char* const texts[] = {
      "all-reduce 'b' of 10 float (sum), collective 4",
      "all-reduce 'a' of 10 float (sum), collective 5",
      "all-reduce 'a' of 9 float (sum), collective 4",
      "all-reduce 'a' of 10 float (max), collective 4",
      "all-reduce 'a' of 10 int32 (sum), collective 4",
      "broadcast 'a' of 10 float (root 0), collective 4",
  };
  uint64_t number = 2;
  for (size_t i = 0; i < std::size(odd); ++i) {
    ++number;
    for (const absl::Status& status :
         OnEach([&](int w) { return Check(w, w == 1 ? odd[i] : Sum("a", 4)); })) {
      // Once the ranks have differed, they differ for ever.
      EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument,
                                  absl::StrCat("at collective ", number, " since"),
                                  "ranks 0, 2 have", absl::StrCat("rank 1 has ", texts[i])));
      EXPECT_EQ(FailureOf(status)->rank, 1);
    }
  }
}

TEST_F(CollectiveAgreementTest, CapturedCollectiveDoesNotMeetAnother) {
  for (const absl::Status& status :
       OnEach([&](int w) { return Check(w, Sum("a", 0), w == 2 ? "captured" : ""); })) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "rank 2 has all-reduce 'a'",
                                "captured"));
  }
}

// A difference between two comparisons is found at the later one.
TEST_F(CollectiveAgreementTest, DifferenceBetweenComparisonsIsFoundAtNext) {
  Agree(CollectiveAgreement::kOneByOne);
  const std::vector<absl::Status> statuses = OnEach([&](int w) {
    absl::Status status = Check(w, Sum(w == 0 ? "a" : "b", 0));
    EXPECT_EQ(status, absl::OkStatus());
    for (uint64_t n = CollectiveAgreement::kOneByOne + 1;
         n < CollectiveAgreement::kInterval && status.ok(); ++n) {
      status = Check(w, Sum("a", 0));
    }
    return status;
  });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status,
                IsError(absl::StatusCode::kInvalidArgument,
                        absl::StrCat("before collective ", CollectiveAgreement::kInterval)));
  }
}

TEST_F(CollectiveAgreementTest, WorkerThatDoesNotComeIsNamedWithItsLastCollective) {
  Agree(3);
  const std::vector<absl::Status> statuses = OnEach([&](int w) {
    return w == 1 ? absl::OkStatus() : Check(w, Sum("late", 7), "", absl::Milliseconds(50));
  });
  for (const int w : {0, 2}) {
    EXPECT_THAT(statuses[w],
                IsError(absl::StatusCode::kDeadlineExceeded, "rank 1 has not", "collective 4 since",
                        absl::StrCat("rank ", w, " has all-reduce 'late'"), "collective 7 of",
                        "rank 1: all-reduce 'a'", "collective 0 of"));
    EXPECT_EQ(FailureOf(statuses[w])->worker, 1);
    EXPECT_EQ(FailureOf(statuses[w])->name, "late");
  }
}

TEST_F(CollectiveAgreementTest, FailureOfAnotherWorkerEndsWait) {
  const absl::Status why =
      WithFailure(absl::DeadlineExceededError("rank 2: too slow"), {.rank = 2});
  std::thread other(
      [&] { groups_[1]->ReportFailure(why, MonotonicTime::InfiniteFuture()).IgnoreError(); });
  EXPECT_EQ(Check(0, Sum("a", 0)), why);
  other.join();
}

// The ranks of one worker are compared without a worker group, at every collective.
TEST(CollectiveAgreementOfOneWorkerTest, LocalRanksAreCompared) {
  const Topology topology = Topology::OneWorker(std::vector<std::string>(3), /*one_domain=*/false);
  const std::vector<int> ranks = {0, 1, 2};
  CollectiveAgreement agreement(topology, ranks, /*workers=*/nullptr);
  const auto check = [&](int rank, absl::string_view name) {
    return agreement.Check(rank, Sum(name, 3), "", MonotonicTime::InfiniteFuture());
  };
  for (int i = 0; i < 1000; ++i) {
    for (const int rank : {1, 0, 2}) ASSERT_EQ(check(rank, "a"), absl::OkStatus());
  }
  EXPECT_EQ(check(1, "a"), absl::OkStatus());
  EXPECT_EQ(check(0, "a"), absl::OkStatus());
  const absl::Status differs = check(2, "b");
  EXPECT_THAT(differs, AllOf(IsError(absl::StatusCode::kInvalidArgument, "collective 1001 ",
                                     "rank 1 has 'a'", "rank 2 has 'b'"),
                             Not(IsError(absl::StatusCode::kInvalidArgument, "rank 0"))));
}

// A rank that runs ahead of the others by more than is remembered is compared again later.
TEST(CollectiveAgreementOfOneWorkerTest, RanksMayRunAhead) {
  const Topology topology = Topology::OneWorker(std::vector<std::string>(2), /*one_domain=*/false);
  const std::vector<int> ranks = {0, 1};
  CollectiveAgreement agreement(topology, ranks, /*workers=*/nullptr);
  const auto check = [&](int rank, absl::string_view name) {
    return agreement.Check(rank, Sum(name, 0), "", MonotonicTime::InfiniteFuture());
  };
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(check(0, "a"), absl::OkStatus());
  for (int i = 0; i < 1000; ++i) {
    const absl::Status status = check(1, i == 7 ? "b" : "a");
    // It differs in the 8th, which is forgotten, and from then on.
    if (!status.ok()) {
      EXPECT_GT(i, 700);
      return;
    }
  }
  FAIL() << "the difference was not found";
}

}  // namespace
}  // namespace mirrorflow
