// SPDX-License-Identifier: Apache-2.0
#include "framework/core/names.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PrintableTest, EscapesControlBytesAndTruncates) {
  EXPECT_EQ(Printable("layer/kernel:0"), "layer/kernel:0");
  EXPECT_EQ(Printable("Bad\nERROR fake\x1b[2J"), "Bad\\nERROR fake\\x1b[2J");
  EXPECT_EQ(Printable(std::string(1000, 'a')), std::string(200, 'a') + "…");
}

TEST(NearestNamesTest, ReturnsTheClosestFirst) {
  EXPECT_THAT(NearestNames("Relv", {"Relu6", "Relu", "MatMul"}, 3), ElementsAre("Relu", "Relu6"));
  EXPECT_THAT(NearestNames("Relv", {"Relu6", "Relu"}, 1), ElementsAre("Relu"));
}

TEST(NearestNamesTest, OmitsDistantAndVeryLongNames) {
  EXPECT_THAT(NearestNames("abc", {"xyz"}, 3), IsEmpty());
  EXPECT_THAT(NearestNames("abc", {}, 3), IsEmpty());
  EXPECT_THAT(NearestNames(std::string(101, 'a'), {std::string(100, 'a')}, 3), IsEmpty());
}

TEST(DidYouMeanTest, ListsNearestNamesEscaped) {
  EXPECT_EQ(DidYouMean("Relv", {"Relu", "Relu6"}), "; did you mean Relu?");
  EXPECT_EQ(DidYouMean("Relv", {"Relu", "Relu6"}, 2), "; did you mean Relu, Relu6?");
  EXPECT_EQ(DidYouMean("ab", {"a\n"}), "; did you mean a\\n?");
  EXPECT_EQ(DidYouMean("abc", {"xyz"}), "");
}

}  // namespace
}  // namespace mirrorflow
