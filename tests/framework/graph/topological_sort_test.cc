// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/topological_sort.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Sorts items; inputs[i] lists the inputs of item i.
TopologicalSort Sort(const std::vector<std::vector<int>>& inputs) {
  return SortTopologically(static_cast<int>(inputs.size()),
                           [&](int item, absl::FunctionRef<void(int)> visit) {
                             for (int input : inputs[item]) visit(input);
                           });
}

std::string Text(const TopologicalSort& sort) {
  return CycleToString(sort.cycle, [](int item) { return absl::StrCat("n", item); });
}

TEST(TopologicalSortTest, KeepsNumericOrderIfInputsAllow) {
  EXPECT_THAT(Sort({{}, {}, {}}).order, ElementsAre(0, 1, 2));
  EXPECT_THAT(Sort({{2}, {}, {}, {0}}).order, ElementsAre(1, 2, 0, 3));
}

TEST(TopologicalSortTest, HandlesInputUsedTwice) {
  EXPECT_THAT(Sort({{1, 1}, {2, 2}, {}}).order, ElementsAre(2, 1, 0));
}

TEST(TopologicalSortTest, ReturnsEmptyOrderForNoItems) {
  EXPECT_THAT(Sort({}).order, IsEmpty());
  EXPECT_THAT(Sort({}).cycle, IsEmpty());
}

TEST(TopologicalSortTest, FindsCycleWithoutItemsThatDependOnIt) {
  // The edges are 0 -> 1 <-> 2 -> 3.
  const TopologicalSort sort = Sort({{}, {0, 2}, {1}, {2}});
  EXPECT_THAT(sort.order, ElementsAre(0));
  EXPECT_EQ(Text(sort), "n1 -> n2 -> n1");
}

TEST(TopologicalSortTest, FindsItemThatDependsOnItself) {
  EXPECT_EQ(Text(Sort({{}, {1}})), "n1 -> n1");
}

TEST(TopologicalSortTest, PrintsFirstTenItemsOfLongCycle) {
  constexpr int kItems = 100000;
  std::vector<std::vector<int>> inputs(kItems);
  for (int i = 0; i < kItems; ++i) inputs[i] = {(i + kItems - 1) % kItems};
  const TopologicalSort sort = Sort(inputs);
  EXPECT_EQ(sort.cycle.size(), kItems);
  EXPECT_EQ(Text(sort),
            "n0 -> n1 -> n2 -> n3 -> n4 -> n5 -> n6 -> n7 -> n8 -> n9 -> … (100000 in all) -> n0");
}

}  // namespace
}  // namespace mirrorflow
