// SPDX-License-Identifier: Apache-2.0
#include "framework/core/end_requests.h"

#include <signal.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using Kind = EndRequests::Kind;

TEST(EndRequestsTest, SecondTermSoonAfterTheFirstIsTheSameRequest) {
  const MonotonicTime start = MonotonicTime::Now();
  const absl::Duration soon = absl::Milliseconds(4999), late = absl::Seconds(5);
  const absl::Duration moment = absl::Milliseconds(1);
  const struct {
    std::vector<std::pair<int, absl::Duration>> signals;  // each with its time after `start`
    std::vector<Kind> kinds;
  } cases[] = {
      {{{SIGTERM, {}}, {SIGTERM, {}}}, {Kind::kFirst, Kind::kRepeated}},
      {{{SIGTERM, {}}, {SIGTERM, soon}}, {Kind::kFirst, Kind::kRepeated}},
      {{{SIGTERM, {}}, {SIGTERM, late}}, {Kind::kFirst, Kind::kSecond}},
      {{{SIGTERM, {}}, {SIGTERM, moment}, {SIGTERM, 2 * moment}},
       {Kind::kFirst, Kind::kRepeated, Kind::kSecond}},
      {{{SIGTERM, {}}, {SIGINT, moment}}, {Kind::kFirst, Kind::kSecond}},
      {{{SIGINT, {}}, {SIGINT, moment}}, {Kind::kFirst, Kind::kSecond}},
      {{{SIGINT, {}}, {SIGTERM, moment}}, {Kind::kFirst, Kind::kSecond}},
  };
  for (const auto& c : cases) {
    EndRequests requests;
    for (size_t i = 0; i < c.signals.size(); ++i) {
      EXPECT_EQ(requests.Take(c.signals[i].first, start + c.signals[i].second), c.kinds[i]) << i;
    }
  }
}

// The kernel can deliver signals to several threads of a process at once.
TEST(EndRequestsTest, SignalsToSeveralThreadsAtOnceAreOneRequest) {
  for (int round = 0; round < 500; ++round) {
    EndRequests requests;
    std::atomic<int> ready{0};
    Kind kinds[2];
    const auto take = [&](int i) {
      ++ready;
      while (ready < 2) {
      }
      kinds[i] = requests.Take(SIGTERM);
    };
    std::thread other(take, 1);
    take(0);
    other.join();
    EXPECT_THAT(kinds, testing::UnorderedElementsAre(Kind::kFirst, Kind::kRepeated)) << round;
  }
}

}  // namespace
}  // namespace mirrorflow
