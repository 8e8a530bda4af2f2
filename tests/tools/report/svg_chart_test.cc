// SPDX-License-Identifier: Apache-2.0
#include "tools/report/svg_chart.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/report/well_formed.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

TEST(WellFormedTest, ReportsMalformedXml) {
  EXPECT_EQ(WellFormed("<a x=\"1\"><b/>&lt;</a>"), "");
  EXPECT_NE(WellFormed("<a><b></a>"), "");
  EXPECT_NE(WellFormed("<a>"), "");
  EXPECT_NE(WellFormed("<a>R&D</a>"), "");
  EXPECT_NE(WellFormed("<a x=\"1>"), "");
}

TEST(RoundTicksTest, ReturnsRoundNumbersWithinRange) {
  EXPECT_THAT(RoundTicks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(RoundTicks(-0.3, 0.31, 6),
              ElementsAre(testing::DoubleNear(-0.2, 1e-9), 0, testing::DoubleNear(0.2, 1e-9)));
  EXPECT_THAT(RoundTicks(7, 7, 5), ElementsAre(7));
  EXPECT_LE(RoundTicks(-1e308, 1e308, 5).size(), 10u);
  EXPECT_LE(RoundTicks(0, 5e-324, 5).size(), 10u);
}

TEST(HtmlTextTest, EscapesMarkupAndRepairsBytes) {
  EXPECT_EQ(HtmlText("<b a=\"1\">R&D</b> ü"), "&lt;b a=&quot;1&quot;&gt;R&amp;D&lt;/b&gt; ü");
  EXPECT_EQ(HtmlText(std::string("a\0b\x1b\xff", 5)), "a b \xef\xbf\xbd");
}

TEST(HtmlTextTest, LongTextIsCut) {
  EXPECT_EQ(HtmlText("abc", 3), "abc");
  EXPECT_EQ(HtmlText("abcd", 3), "abc…");
  EXPECT_EQ(HtmlText("<<<", 5), "&lt;&lt;…");
  EXPECT_EQ(HtmlText(std::string(kMaxHtmlBytes + 1, 'a')).size(), kMaxHtmlBytes + 3);
}

TEST(GroupedBarsTest, HasBarForEachValue) {
  const std::string svg =
      GroupedBars("steps <by> \"model\" & replicas", "less is better", {"ours", "theirs", "others"},
                  {{"mlp 64\n1 replica", {1, 1.25, 0}}, {"cnn 64\n2 replicas", {1, 3.5, 200}}}, 8);
  EXPECT_EQ(WellFormed(svg), "");
  EXPECT_EQ(CountOf(svg, "class=\"bar\""), 5);  // one value is missing
  EXPECT_EQ(CountOf(svg, "class=\"legend\""), 3);
  for (const char* text : {">1.25<", ">3.50<", ">200<", ">mlp 64<", ">2 replicas<"}) {
    EXPECT_EQ(CountOf(svg, text), 1) << text;
  }
}

TEST(GroupedBarsTest, CutsBarAboveMaximum) {
  const std::string svg = GroupedBars("", "", {"a"}, {{"x", {8}}, {"y", {800}}}, 8);
  EXPECT_EQ(CountOf(svg, "height=\"260.0\""), 2);
}

TEST(GroupedBarsTest, EmptyChartIsWellFormed) {
  EXPECT_EQ(WellFormed(GroupedBars("", "", {}, {}, 8)), "");
}

TEST(TimelineTest, HasBoxForEachSpan) {
  const std::string svg = Timeline("a step", {"replica 0", "replica 1"}, {"kernel", "collective"},
                                   {{0, 0, 0, 1.5, "MatMul <a&b>"}, {1, 1, 0.5, 2, "AllReduce"}});
  EXPECT_EQ(WellFormed(svg), "");
  EXPECT_EQ(CountOf(svg, "class=\"span\""), 2);
  EXPECT_EQ(CountOf(svg, "MatMul &lt;a&amp;b&gt;: 1.500 ms"), 1);
  // Each box takes three quarters of the width: the first from the left edge, the second up to the
  // right edge.
  EXPECT_EQ(CountOf(svg, "x=\"190.00\" y=\"74.0\" width=\"585.00\""), 1);
  EXPECT_EQ(CountOf(svg, "x=\"385.00\" y=\"108.0\" width=\"585.00\""), 1);
}

TEST(TimelineTest, OverlappingSpansAreStacked) {
  const std::string svg =
      Timeline("", {"row"}, {"kind"}, {{0, 0, 0, 2, "a"}, {0, 0, 1, 3, "b"}, {0, 0, 2, 4, "c"}});
  EXPECT_EQ(CountOf(svg, "height=\"13.0\""), 3);
  EXPECT_EQ(CountOf(svg, "y=\"74.0\" width=\"390.00\""), 2);
  EXPECT_EQ(CountOf(svg, "y=\"87.0\" width=\"390.00\""), 1);
}

TEST(TimelineTest, EmptyTimelineIsWellFormed) {
  EXPECT_EQ(WellFormed(Timeline("", {}, {}, {})), "");
}

}  // namespace
}  // namespace mirrorflow
