// SPDX-License-Identifier: Apache-2.0
//
// Tests ranks and workers whose collectives differ, over in-memory worker groups.
#include "distribute/collective/collective_agreement.h"

#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/cluster/memory_worker_group.h"
#include "tests/support/forwarding_worker_group.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Not;

constexpr int kWorkers = 3;

Collective Sum(absl::string_view name, int sequence, int64_t count = 10) {
  return {.operation = AllReduce{Reduction::kSum, count}, .name = name, .sequence = sequence};
}

// Counts the exchanges between workers.
class Counting final : public ForwardingWorkerGroup {
 public:
  using ForwardingWorkerGroup::ForwardingWorkerGroup;
  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view name, std::string value,
                                                     MonotonicTime deadline) override {
    ++count_;
    return ForwardingWorkerGroup::AllGather(name, std::move(value), deadline);
  }
  int count() const { return count_; }

 private:
  int count_ = 0;
};

// Returns a step of `count` collectives. The collective with index `odd`, if any, differs.
std::vector<Collective> StepOf(int count, int odd = -1) {
  std::vector<Collective> step;
  for (int i = 0; i < count; ++i) step.push_back(Sum(i == odd ? "odd" : "a", i));
  return step;
}

// Workers with one rank each.
class CollectiveAgreementTest : public testing::Test {
 protected:
  CollectiveAgreementTest() { Connect(); }

  // Connects the workers again.
  void Connect() {
    Topology topology;
    for (int w = 0; w < kWorkers; ++w) topology.replicas.push_back({.worker = w, .domain = w});
    agreements_.clear();
    counted_.clear();
    groups_ = CreateMemoryWorkerGroups(kWorkers);
    for (int w = 0; w < kWorkers; ++w) {
      const int rank[] = {w};
      counted_.push_back(std::make_unique<Counting>(*groups_[w]));
      agreements_.push_back(
          std::make_unique<CollectiveAgreement>(topology, rank, counted_[w].get()));
    }
  }

  absl::Status Check(int worker, const Collective& c, absl::string_view how = "",
                     absl::Duration timeout = absl::Seconds(60)) {
    return agreements_[worker]->Check(0, c, how, MonotonicTime::Now() + timeout);
  }
  // Calls work(worker) for all workers concurrently. Returns the results by worker.
  static std::vector<absl::Status> OnEach(const std::function<absl::Status(int worker)>& work) {
    std::vector<absl::Status> statuses(kWorkers);
    std::vector<std::thread> threads;
    for (int w = 0; w < kWorkers; ++w) {
      threads.emplace_back([&, w] { statuses[w] = work(w); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }
  // Announces `step` and runs `started`, by default the whole step.
  absl::Status Run(int worker, const std::vector<Collective>& step, absl::string_view how = "",
                   std::optional<std::vector<Collective>> started = std::nullopt) {
    std::vector<const Collective*> announced;
    for (const Collective& c : step) announced.push_back(&c);
    agreements_[worker]->BeginStep(0);
    agreements_[worker]->Announce(0, announced);
    for (const Collective& c : started.value_or(step)) {
      MF_RETURN_IF_ERROR(Check(worker, c, how));
    }
    return absl::OkStatus();
  }
  // Runs `count` equal collectives on all workers.
  void Agree(uint64_t count) {
    for (const absl::Status& status : OnEach([&](int w) {
           absl::Status status;
           for (uint64_t i = 0; i < count && status.ok(); ++i) status = Check(w, Sum("a", 0));
           return status;
         })) {
      ASSERT_EQ(status, absl::OkStatus());
    }
  }

  std::vector<std::unique_ptr<MemoryWorkerGroup>> groups_;
  std::vector<std::unique_ptr<Counting>> counted_;
  std::vector<std::unique_ptr<CollectiveAgreement>> agreements_;
};

TEST_F(CollectiveAgreementTest, EqualCollectivesAgree) {
  Agree(2 * CollectiveAgreement::kInterval + 1);
}

// The first run takes one exchange and later runs take none, however many collectives the step has.
TEST_F(CollectiveAgreementTest, StepTakesOneExchange) {
  const auto exchanges = [&](const std::function<absl::Status(int)>& work) {
    const int before = counted_[0]->count();
    EXPECT_THAT(OnEach(work), Each(absl::OkStatus()));
    return counted_[0]->count() - before;
  };
  Agree(CollectiveAgreement::kInterval);  // workers compare hashes only rarely after this
  const auto run = [&](int count, absl::string_view how) {
    return exchanges([&, count, how](int w) { return Run(w, StepOf(count), how); });
  };
  EXPECT_EQ(run(300, ""), 1);
  EXPECT_EQ(run(300, ""), 0);
  EXPECT_EQ(run(10, ""), 1);
  EXPECT_EQ(run(300, "captured"), 1);
  EXPECT_EQ(run(10, ""), 0);
}

// NCCL would mix up the data of workers that read different variables.
TEST_F(CollectiveAgreementTest, UnannouncedCollectivesAreComparedEachTime) {
  Agree(20);
  EXPECT_EQ(counted_[0]->count(), 20);
  for (const absl::Status& status :
       OnEach([&](int w) { return Check(w, Sum(w == 0 ? "a" : "b", 0)); })) {
    EXPECT_THAT(status,
                IsError(absl::StatusCode::kInvalidArgument, "worker 1 (rank 1) has", "'b'"));
  }
}

// If one worker's first step differs, no worker starts it.
TEST_F(CollectiveAgreementTest, EveryWorkerLearnsFirstDifferenceOfStep) {
  const std::vector<Collective> usual = StepOf(6);
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
  for (size_t i = 0; i < std::size(odd); ++i) {
    Connect();
    const absl::string_view text = texts[i];
    std::vector<Collective> other = usual;
    other[4] = odd[i];
    const auto statuses = OnEach([&](int w) { return Run(w, w == 1 ? other : usual); });
    for (const absl::Status& status : statuses) {
      EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "worker 0 (rank 0) has",
                                  "all-reduce 'a' of 10",
                                  absl::StrCat("worker 1 (rank 1) has `collective 5",
                                               " since they connected = ", text)));
      EXPECT_EQ(FailureOf(status)->rank, 1);
    }
  }
}

TEST_F(CollectiveAgreementTest, StepWithMoreCollectivesIsReported) {
  for (const absl::Status& status : OnEach([&](int w) { return Run(w, StepOf(w == 2 ? 4 : 3)); })) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "worker 2 (rank 2)",
                                "collective 3 of its step"));
  }
}

// A worker that deviates from its announced step does not wait until the other workers notice.
TEST_F(CollectiveAgreementTest, WorkerThatDeviatesFromAnnouncedStepIsNamed) {
  const std::vector<Collective> all = StepOf(3);
  const std::vector<Collective> odd[] = {
      {all[1]}, {all[0], all[0]}, {all[0], all[2]}, StepOf(3, /*odd=*/1)};
  const char* const expected[] = {"collective 0 of its step", "collective 1 of its step",
                                  "collective 1 of its step", "all-reduce 'a' of 10 float (sum)"};
  const char* const got[] = {"collective 1 of its step", "collective 0 of its step",
                             "collective 2 of its step", "all-reduce 'odd' of 10 float (sum)"};
  for (size_t i = 0; i < std::size(odd); ++i) {
    Connect();
    Agree(8);
    ASSERT_THAT(OnEach([&](int w) { return Run(w, all); }), Each(absl::OkStatus()));
    const auto statuses = OnEach([&](int w) {
      return w == 1 ? Run(w, all, "", odd[i]) : Run(w, all, "", std::vector<Collective>());
    });
    EXPECT_EQ(statuses[0], absl::OkStatus());
    EXPECT_THAT(statuses[1], IsError(absl::StatusCode::kInvalidArgument, "ranks 0, 2 have",
                                     expected[i], "rank 1 has", got[i]));
    EXPECT_EQ(FailureOf(statuses[1])->rank, 1);
  }
}

TEST_F(CollectiveAgreementTest, SkippedCollectiveIsReportedInNextStep) {
  const std::vector<Collective> all = StepOf(3);
  Agree(8);
  ASSERT_THAT(OnEach([&](int w) { return Run(w, all); }), Each(absl::OkStatus()));
  ASSERT_EQ(Run(1, all, "", {{all[0], all[1]}}), absl::OkStatus());
  EXPECT_THAT(Run(1, all), IsError(absl::StatusCode::kInvalidArgument, "at collective 14 ",
                                   "rank 1 has ended", "without starting 1"));
}

// A step that a device replays announces its collectives but starts none.
TEST_F(CollectiveAgreementTest, ReplayedStepsStartNothing) {
  for (const absl::Status& status : OnEach([&](int w) -> absl::Status {
         MF_RETURN_IF_ERROR(Run(w, StepOf(3)));
         for (int i = 0; i < 3; ++i) {
           MF_RETURN_IF_ERROR(Run(w, StepOf(3), "", std::vector<Collective>()));
         }
         return Run(w, StepOf(4));
       })) {
    EXPECT_EQ(status, absl::OkStatus());
  }
}

// The collectives of a loop's iterations come before the remaining collectives of the step.
TEST_F(CollectiveAgreementTest, CollectivesOfLoopsArePartOfTheirStep) {
  const std::vector<Collective> step = StepOf(2), body = StepOf(2, /*odd=*/1);
  const int before = counted_[0]->count();
  EXPECT_THAT(OnEach([&](int w) -> absl::Status {
                CollectiveAgreement& own = *agreements_[w];
                const Collective* const outer[] = {&step[0], &step[1]};
                const Collective* const inner[] = {&body[0], &body[1]};
                for (int run = 0; run < 3; ++run) {
                  own.BeginStep(0);
                  own.Announce(0, outer);
                  MF_RETURN_IF_ERROR(Check(w, step[0]));
                  for (int iteration = 0; iteration < 5; ++iteration) {
                    own.Announce(0, inner);
                    for (const Collective& c : body) MF_RETURN_IF_ERROR(Check(w, c));
                  }
                  MF_RETURN_IF_ERROR(Check(w, step[1]));
                }
                return absl::OkStatus();
              }),
              Each(absl::OkStatus()));
  // One comparison per list of collectives, plus those of the 1st, 2nd, 4th, 8th, 16th and 32nd
  // collective.
  EXPECT_EQ(counted_[0]->count() - before, 2 + 6);
}

TEST_F(CollectiveAgreementTest, CapturedCollectiveDiffersFromUncapturedCollective) {
  for (const absl::Status& status :
       OnEach([&](int w) { return Run(w, StepOf(2), w == 2 ? "captured" : ""); })) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "worker 2 (rank 2) has",
                                "all-reduce 'a'", "captured"));
  }
}

// If workers run different steps that they have all compared before, the next hash comparison finds
// the difference.
TEST_F(CollectiveAgreementTest, DifferenceBetweenComparisonsIsReportedAtNextComparison) {
  const std::vector<Collective> a = {Sum("a", 0)}, b = {Sum("b", 0)};
  for (const absl::Status& status : OnEach([&](int w) {
         for (const std::vector<Collective>& step : {a, b, w == 0 ? a : b}) {
           EXPECT_EQ(Run(w, step), absl::OkStatus());
         }
         return Run(w, a);  // the fourth collective
       })) {
    EXPECT_THAT(status,
                IsError(absl::StatusCode::kInvalidArgument, "hash of the 3", "worker 1 (rank 1)"));
  }
}

TEST_F(CollectiveAgreementTest, MissingWorkerIsNamed) {
  Agree(3);
  const std::vector<absl::Status> statuses = OnEach([&](int w) {
    return w == 1 ? absl::OkStatus() : Check(w, Sum("late", 7), "", absl::Milliseconds(50));
  });
  for (const int w : {0, 2}) {
    EXPECT_THAT(statuses[w],
                IsError(absl::StatusCode::kDeadlineExceeded, "worker 1 did not arrive"));
    EXPECT_EQ(FailureOf(statuses[w])->worker, 1);
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

// If a rank runs ahead by more collectives than are remembered, the ranks are compared again at a
// later collective.
TEST(CollectiveAgreementOfOneWorkerTest, DifferenceIsDetectedAfterRankRanAhead) {
  const Topology topology = Topology::OneWorker(std::vector<std::string>(2), /*one_domain=*/false);
  const std::vector<int> ranks = {0, 1};
  CollectiveAgreement agreement(topology, ranks, /*workers=*/nullptr);
  const auto check = [&](int rank, absl::string_view name) {
    return agreement.Check(rank, Sum(name, 0), "", MonotonicTime::InfiniteFuture());
  };
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(check(0, "a"), absl::OkStatus());
  for (int i = 0; i < 1000; ++i) {
    const absl::Status status = check(1, i == 7 ? "b" : "a");
    // The ranks differ at the 8th and all later collectives. The 8th itself is no longer
    // remembered.
    if (!status.ok()) {
      EXPECT_GT(i, 700);
      return;
    }
  }
  FAIL() << "the difference was not detected";
}

}  // namespace
}  // namespace mirrorflow
