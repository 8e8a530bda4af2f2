// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/reduce_in_rank_order.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "framework/core/reduced_float.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

constexpr int kRanks = 3;

using Halves = std::vector<uint16_t>;

// Reduces `parts` into separate memory or, if `in_place`, over the first part.
Halves Reduced(Reduction reduction, DataType dtype, std::vector<Halves> parts, bool in_place) {
  const int64_t n = static_cast<int64_t>(parts[0].size());
  Halves other(n);
  std::vector<const void*> in;
  for (const Halves& part : parts) in.push_back(part.data());
  std::vector<void*> out = {in_place ? parts[0].data() : other.data()};
  ReduceInRankOrder(reduction, dtype, in, out, n);
  return in_place ? parts[0] : other;
}

TEST(ReduceInRankOrder, ReducedPrecisionAccumulatesInFloatAndRoundsOnce) {
  for (const bool in_place : {false, true}) {
    // In half precision, 2048 + 1 rounds to 2048, so adding the ones one at a time would lose both.
    const Halves sum = Reduced(
        Reduction::kSum, DT_HALF,
        {{HalfFormat::FromFloat(2048)}, {HalfFormat::FromFloat(1)}, {HalfFormat::FromFloat(1)}},
        in_place);
    EXPECT_EQ(HalfFormat::ToFloat(sum[0]), 2050);
  }
}

TEST(ReduceInRankOrder, ReducedPrecisionMatchesReductionInFloat) {
  constexpr int64_t kCount = 10007;  // more than a block, and not a multiple of the vector length
  for (const DataType dtype : {DT_HALF, DT_BFLOAT16}) {
    std::vector<Halves> parts(kRanks);
    for (int r = 0; r < kRanks; ++r) {
      for (int64_t i = 0; i < kCount; ++i) {
        parts[r].push_back(ReducedFrom(dtype, static_cast<float>((i * 37 + r * 101) % 501 - 250)));
      }
    }
    for (const Reduction reduction :
         {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kMin}) {
      ASSERT_TRUE(CanReduce(reduction, dtype));
      for (const bool in_place : {false, true}) {
        const Halves got = Reduced(reduction, dtype, parts, in_place);
        for (int64_t i = 0; i < kCount; ++i) {
          float a[kRanks];
          for (int r = 0; r < kRanks; ++r) a[r] = ReducedToFloat(dtype, parts[r][i]);
          float want = a[0] + a[1] + a[2];
          if (reduction == Reduction::kMean) want *= 1.0f / kRanks;
          if (reduction == Reduction::kMax) want = std::max({a[0], a[1], a[2]});
          if (reduction == Reduction::kMin) want = std::min({a[0], a[1], a[2]});
          ASSERT_EQ(got[i], ReducedFrom(dtype, want)) << ReductionName(reduction) << " at " << i;
        }
      }
    }
    EXPECT_FALSE(CanReduce(Reduction::kAll, dtype));
  }
}

}  // namespace
}  // namespace mirrorflow
