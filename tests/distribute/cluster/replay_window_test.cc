// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/replay_window.h"

#include <cstdint>
#include <random>
#include <set>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

constexpr uint64_t kWindow = 1024;

TEST(ReplayWindowTest, NumbersOutOfOrderCountOnce) {
  for (const uint64_t spread : {3, 100, 1023, 1024, 5000}) {
    std::mt19937_64 random(spread);
    ReplayWindow window;
    std::set<uint64_t> seen;
    for (uint64_t i = 1; i < 20'000; ++i) {
      const uint64_t sequence = i + random() % spread;
      const uint64_t highest = seen.empty() ? 0 : *seen.rbegin();
      const bool is_new = sequence + kWindow > highest && !seen.contains(sequence);
      ASSERT_EQ(window.Add(sequence), is_new) << sequence << " after " << highest;
      if (is_new) seen.insert(sequence);
    }
  }
}

TEST(ReplayWindowTest, JumpForgetsAllEarlierNumbers) {
  ReplayWindow window;
  EXPECT_TRUE(window.Add(0));
  EXPECT_FALSE(window.Add(0));
  EXPECT_TRUE(window.Add(7));
  EXPECT_TRUE(window.Add(~uint64_t{0}));
  EXPECT_FALSE(window.Add(7));
  EXPECT_TRUE(window.Add(~uint64_t{0} - kWindow + 1));
  EXPECT_FALSE(window.Add(~uint64_t{0} - kWindow));
}

}  // namespace
}  // namespace mirrorflow
