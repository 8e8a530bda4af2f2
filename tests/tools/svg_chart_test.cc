// SPDX-License-Identifier: Apache-2.0
#include "tools/report/svg_chart.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

int Count(const std::string& text, absl::string_view part) {
  return static_cast<int>(absl::StrSplit(text, part).operator std::vector<std::string>().size()) -
         1;
}

// Returns the first error in `xml`, or "". Supports what our SVGs contain: elements, attributes in
// double quotes, and four named entities.
std::string WellFormed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t i = 0; i < xml.size(); ++i) {
    if (xml[i] == '&') {
      const size_t end = xml.find(';', i);
      const std::string entity = xml.substr(i + 1, end - i - 1);
      if (entity != "amp" && entity != "lt" && entity != "gt" && entity != "quot") {
        return absl::StrCat("a bare & at ", i);
      }
    }
    if (xml[i] == '>') return absl::StrCat("a bare > at ", i);
    if (xml[i] != '<') continue;
    const size_t end = xml.find('>', i);
    if (end == std::string::npos) return "an element without an end";
    const std::string tag = xml.substr(i + 1, end - i - 1);
    if (Count(tag, "\"") % 2 != 0 || Count(tag, "<") != 0) return absl::StrCat("in <", tag);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return absl::StrCat("<", tag, ">");
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    i = end;
  }
  return open.empty() ? "" : absl::StrCat(open.back(), " stays open");
}

TEST(WellFormedTest, ReportsMalformedXml) {
  EXPECT_EQ(WellFormed("<a x=\"1\"><b/>&lt;</a>"), "");
  EXPECT_NE(WellFormed("<a><b></a>"), "");
  EXPECT_NE(WellFormed("<a>"), "");
  EXPECT_NE(WellFormed("<a>R&D</a>"), "");
  EXPECT_NE(WellFormed("<a x=\"1>"), "");
}

TEST(GroupedBarsTest, HasBarForEachValue) {
  const std::string svg =
      GroupedBars("steps <by> \"model\" & replicas", "less is better", {"ours", "theirs", "others"},
                  {{"mlp 64\n1 replica", {1, 1.25, 0}}, {"cnn 64\n2 replicas", {1, 3.5, 200}}}, 8);
  EXPECT_EQ(WellFormed(svg), "");
  EXPECT_EQ(Count(svg, "class=\"bar\""), 5);  // one value is missing
  EXPECT_EQ(Count(svg, "class=\"legend\""), 3);
  for (const char* text : {">1.25<", ">3.50<", ">200<", ">mlp 64<", ">2 replicas<"}) {
    EXPECT_EQ(Count(svg, text), 1) << text;
  }
}

TEST(GroupedBarsTest, CutsBarAboveMaximum) {
  const std::string svg = GroupedBars("", "", {"a"}, {{"x", {8}}, {"y", {800}}}, 8);
  EXPECT_EQ(Count(svg, "height=\"260.0\""), 2);
}

TEST(GroupedBarsTest, EmptyChartIsWellFormed) {
  EXPECT_EQ(WellFormed(GroupedBars("", "", {}, {}, 8)), "");
}

TEST(TimelineTest, HasBoxForEachSpan) {
  const std::string svg = Timeline("a step", {"replica 0", "replica 1"}, {"kernel", "collective"},
                                   {{0, 0, 0, 1.5, "MatMul <a&b>"}, {1, 1, 0.5, 2, "AllReduce"}});
  EXPECT_EQ(WellFormed(svg), "");
  EXPECT_EQ(Count(svg, "class=\"span\""), 2);
  EXPECT_EQ(Count(svg, "MatMul &lt;a&amp;b&gt;: 1.500 ms"), 1);
  // Each box has three quarters of the width: the first from the left, the second up to the right.
  EXPECT_EQ(Count(svg, "x=\"190.00\" y=\"74.0\" width=\"585.00\""), 1);
  EXPECT_EQ(Count(svg, "x=\"385.00\" y=\"108.0\" width=\"585.00\""), 1);
}

TEST(TimelineTest, OverlappingSpansAreStacked) {
  const std::string svg =
      Timeline("", {"row"}, {"kind"}, {{0, 0, 0, 2, "a"}, {0, 0, 1, 3, "b"}, {0, 0, 2, 4, "c"}});
  EXPECT_EQ(Count(svg, "height=\"13.0\""), 3);
  EXPECT_EQ(Count(svg, "y=\"74.0\" width=\"390.00\""), 2);
  EXPECT_EQ(Count(svg, "y=\"87.0\" width=\"390.00\""), 1);
}

TEST(TimelineTest, EmptyTimelineIsWellFormed) {
  EXPECT_EQ(WellFormed(Timeline("", {}, {}, {})), "");
}

}  // namespace
}  // namespace mirrorflow
