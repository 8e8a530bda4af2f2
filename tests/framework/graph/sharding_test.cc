// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/sharding.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ShardingTest, PrintsEachState) {
  EXPECT_EQ(ShardingToString(Replicated{}), "replicated");
  EXPECT_EQ(ShardingToString(Sharded{1, 0, 4}), "sharded(a1, dim 0, x4)");
  EXPECT_EQ(ShardingToString(Partial{Reduction::kSum}), "partial(sum)");
  EXPECT_EQ(ShardingToString(PerReplica{}), "per-replica");
}

TEST(ShardingTest, ShardingsAreEqualOnlyIfAxisDimensionAndFactorAre) {
  const Sharding sharding = Sharded{0, 0, 1};
  EXPECT_EQ(sharding, Sharding(Sharded{0, 0, 1}));
  EXPECT_NE(sharding, Sharding(Sharded{1, 0, 1}));
  EXPECT_NE(sharding, Sharding(Sharded{0, 1, 1}));
  EXPECT_NE(sharding, Sharding(Sharded{0, 0, 2}));
  EXPECT_NE(Sharding(Partial{Reduction::kSum}), Sharding(Partial{Reduction::kMax}));
  EXPECT_NE(Sharding(Replicated{}), Sharding(PerReplica{}));
}

TEST(ReductionTest, NamesParseBackToSameReduction) {
  for (Reduction reduction : {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kMin,
                              Reduction::kAll, Reduction::kAny}) {
    const absl::StatusOr<Reduction> parsed = ParseReduction(ReductionName(reduction));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, reduction);
  }
  EXPECT_THAT(ParseReduction("total").status(),
              IsError(absl::StatusCode::kInvalidArgument, "unknown reduction 'total'"));
}

TEST(ParseShardingTermsTest, SplitsInputsAndOutputs) {
  const auto terms = ParseShardingTerms("mk,kn->mn", {{2, 3}, {3, 4}}, {{2, 4}});
  ASSERT_TRUE(terms.ok()) << terms.status();
  EXPECT_THAT(terms->inputs, ElementsAre("mk", "kn"));
  EXPECT_THAT(terms->outputs, ElementsAre("mn"));
}

TEST(ParseShardingTermsTest, AcceptsScalarsWildcardsAndNoInputs) {
  const auto reduced = ParseShardingTerms("b,*->", {{5}, {1, 2, 3}}, {{}});
  ASSERT_TRUE(reduced.ok()) << reduced.status();
  EXPECT_THAT(reduced->inputs, ElementsAre("b", "*"));
  EXPECT_THAT(reduced->outputs, ElementsAre(""));
  const auto differs = ParseShardingTerms("b,~->~", {{5}, {2, 3}}, {{4}});
  ASSERT_TRUE(differs.ok()) << differs.status();
  EXPECT_THAT(differs->outputs, ElementsAre("~"));
  const auto made = ParseShardingTerms("->b", {}, {{5}});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->inputs, IsEmpty());
}

TEST(ParseShardingTermsTest, ErrorNamesMismatchedTerm) {
  EXPECT_THAT(ParseShardingTerms("m->m", {{2, 3}}, {{2}}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "'m->m'", "term 'm'", "shape [2,3]"));
  EXPECT_THAT(ParseShardingTerms("m->m", {{2}, {2}}, {{2}}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "expected 2 terms", "got 'm'"));
  EXPECT_THAT(ParseShardingTerms("m,n", {{2}}, {{2}}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "'m,n'", "expected one '->'"));
  EXPECT_THAT(ParseShardingTerms("m->n->m", {{2}}, {{2}}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "'m->n->m'", "expected one '->'"));
}

}  // namespace
}  // namespace mirrorflow
