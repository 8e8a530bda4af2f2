// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/back_off.h"

#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

constexpr absl::Duration kFirst = absl::Milliseconds(100), kLongest = absl::Milliseconds(500);

TEST(BackOffTest, PausesDoubleUpToLongest) {
  BackOff back_off(kFirst, kLongest);
  for (int round = 0; round < 2; ++round) {
    for (const int longest : {100, 200, 400, 500, 500}) {
      const absl::Duration whole = absl::Milliseconds(longest);
      EXPECT_THAT(back_off.Next(), AllOf(Ge(whole / 2), Le(whole)));
    }
    back_off.Reset();
  }
}

TEST(BackOffTest, PausesOfTwoCallersDiffer) {
  const auto pauses = [] {
    BackOff back_off(kFirst, kLongest);
    std::vector<absl::Duration> all(8);
    for (absl::Duration& pause : all) pause = back_off.Next();
    return all;
  };
  EXPECT_NE(pauses(), pauses());
}

}  // namespace
}  // namespace mirrorflow
