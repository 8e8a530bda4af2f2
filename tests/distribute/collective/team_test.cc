// SPDX-License-Identifier: Apache-2.0
//
// Tests the two-phase work of a local team. The conformance suite covers the other functions.
#include "distribute/collective/team.h"

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "distribute/collective/local_team.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using Ranks = absl::Span<const TeamMemory>;

constexpr int kRanks = 3;

class Halves final : public TeamWork {
 public:
  std::string ToString() const override { return "two halves"; }
};

// A member of the team, and its offer of one piece of work.
struct Member {
  LocalTeam& team;
  const Halves work = {};
  const TeamOffer offer = {.fingerprint = 1, .work = &work, .name = "halves", .sequence = 4};
};

std::vector<absl::Status> OnEach(LocalTeams& teams,
                                 const std::function<absl::Status(Member&)>& work) {
  std::vector<absl::Status> results(teams.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < teams.size(); ++rank) {
    threads.emplace_back([&, rank] {
      Member member{.team = *teams[rank]};
      results[rank] = member.team.Start(member.offer);
      if (results[rank].ok()) results[rank] = work(member);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

absl::Status Nothing(Ranks) { return absl::OkStatus(); }

TEST(TeamMeetTest, SecondHalfBeginsAfterFirstHalvesOfAllRanks) {
  auto teams = CreateThreadTeam(kRanks).value();
  std::atomic<int> halves{0};
  // More pieces of work than slots, so slots are reused.
  for (int round = 1; round <= LocalTeam::kMaxInFlight + 10; ++round) {
    const auto results = OnEach(teams, [&](Member& member) -> absl::Status {
      MF_RETURN_IF_ERROR(member.team.Meet(member.offer, [&](Ranks) {
        if (member.team.rank() == round % kRanks) std::this_thread::yield();
        halves.fetch_add(1);
        return absl::OkStatus();
      }));
      EXPECT_EQ(halves.load(), round * kRanks);
      return member.team.Finish(member.offer, Nothing);
    });
    ASSERT_THAT(results, testing::Each(absl::OkStatus())) << "round " << round;
  }
}

TEST(TeamMeetTest, ErrorInEitherHalfFailsAllRanks) {
  for (const bool in_first : {true, false}) {
    auto teams = CreateThreadTeam(kRanks).value();
    const auto results = OnEach(teams, [&](Member& member) -> absl::Status {
      const auto half = [&](bool fails) {
        return fails && member.team.rank() == 1 ? absl::DataLossError("disk on fire")
                                                : absl::OkStatus();
      };
      MF_RETURN_IF_ERROR(member.team.Meet(member.offer, [&](Ranks) { return half(in_first); }));
      return member.team.Finish(member.offer, [&](Ranks) { return half(!in_first); });
    });
    for (const absl::Status& status : results) {
      EXPECT_THAT(status, IsError(absl::StatusCode::kDataLoss, "two halves", "disk on fire"));
      EXPECT_EQ(status, results[0]);
    }
    EXPECT_EQ(FailureOf(results[0]), (Failure{.rank = 1, .sequence = 4, .name = "halves"}));
  }
}

TEST(TeamMeetTest, RankThatDoesNotMeetIsNamedByAllAfterTimeout) {
  auto teams = CreateThreadTeam(kRanks, {.timeout = absl::Milliseconds(100)}).value();
  std::atomic<int> failed{0};
  const auto results = OnEach(teams, [&](Member& member) {
    if (member.team.rank() == 2) {
      while (failed.load() < 2) std::this_thread::yield();
    }
    const absl::Status status = member.team.Meet(member.offer, Nothing);
    failed.fetch_add(1);
    return status;
  });
  for (const absl::Status& status : results) {
    EXPECT_THAT(status,
                IsError(absl::StatusCode::kDeadlineExceeded, "two halves", "first half by rank 2"));
  }
}

TEST(TeamMeetTest, AbortBetweenHalvesFailsAllRanks) {
  auto teams = CreateThreadTeam(kRanks).value();
  const auto results = OnEach(teams, [&](Member& member) -> absl::Status {
    MF_RETURN_IF_ERROR(member.team.Meet(member.offer, Nothing));
    if (member.team.rank() == 0) member.team.Abort(absl::CancelledError("no more"));
    return member.team.Finish(member.offer, Nothing);
  });
  EXPECT_THAT(results, testing::Each(IsError(absl::StatusCode::kCancelled, "no more")));
}

TEST(TeamMeetTest, MeetWithoutStartFails) {
  auto teams = CreateThreadTeam(1).value();
  const Member member{.team = *teams[0]};
  EXPECT_THAT(teams[0]->Meet(member.offer, Nothing),
              IsError(absl::StatusCode::kFailedPrecondition, "two halves"));
}

}  // namespace
}  // namespace mirrorflow
