// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/shard_pieces.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

TEST(ShardTest, ShardsAreDisjointWholeCacheLinesAndCoverRange) {
  for (const int64_t count : {0, 1, 15, 16, 17, 1000}) {
    for (const int size : {1, 2, 3, 7}) {
      int64_t next = 0;
      for (int i = 0; i < size; ++i) {
        const Shard shard = ShardOf(count, /*element_bytes=*/4, i, size);
        EXPECT_EQ(shard.first, next);
        EXPECT_TRUE(shard.first % 16 == 0 || shard.count == 0);
        next = shard.end();
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace mirrorflow
