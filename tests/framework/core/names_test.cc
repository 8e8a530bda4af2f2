// SPDX-License-Identifier: Apache-2.0
#include "framework/core/names.h"

#include <string>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

TEST(PrintableTest, EscapesControlBytesAndTruncates) {
  EXPECT_EQ(Printable("layer/kernel:0"), "layer/kernel:0");
  EXPECT_EQ(Printable("Bad\nERROR fake\x1b[2J"), "Bad\\nERROR fake\\x1b[2J");
  EXPECT_EQ(Printable(std::string(1000, 'a')), std::string(200, 'a') + "…");
}

TEST(DidYouMeanTest, ListsNearestNamesEscaped) {
  EXPECT_EQ(DidYouMean("Relv", {"Relu", "Relu6"}), "; did you mean Relu?");
  EXPECT_EQ(DidYouMean("Relv", {"Relu", "Relu6"}, 2), "; did you mean Relu, Relu6?");
  EXPECT_EQ(DidYouMean("ab", {"a\n"}), "; did you mean a\\n?");
}

TEST(DidYouMeanTest, ReturnsTheClosestFirst) {
  EXPECT_EQ(DidYouMean("Relv", {"Relu6", "Relu", "MatMul"}, 3), "; did you mean Relu, Relu6?");
  EXPECT_EQ(DidYouMean("Relv", {"Relu6", "Relu"}, 1), "; did you mean Relu?");
}

TEST(DidYouMeanTest, OmitsDistantAndVeryLongNames) {
  EXPECT_EQ(DidYouMean("abc", {"xyz"}, 3), "");
  EXPECT_EQ(DidYouMean("abc", {}, 3), "");
  EXPECT_EQ(DidYouMean(std::string(101, 'a'), {std::string(100, 'a')}, 3), "");
}

}  // namespace
}  // namespace mirrorflow
