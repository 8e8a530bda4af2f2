// SPDX-License-Identifier: Apache-2.0
#include "tools/report/charts.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/report/well_formed.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Formats each chart as `section: title: line, line`.
std::vector<std::string> ChartsOfNames(const std::vector<std::string>& names) {
  std::map<std::string, std::vector<Point>> series;
  for (const std::string& name : names) series[name] = {{1, 1}};
  std::vector<std::string> texts;
  for (const Chart& chart : ChartsOf(series)) {
    std::string text = absl::StrCat(kSectionTitles[chart.section], ": ", chart.title, ":");
    for (const LineSeries& line : chart.lines) absl::StrAppend(&text, " ", line.name);
    texts.push_back(text);
  }
  return texts;
}

TEST(ChartsOfTest, NamesOfKerasShareAChart) {
  EXPECT_THAT(
      ChartsOfNames({"accuracy", "loss", "val_accuracy", "val_loss"}),
      ElementsAre("Losses: loss: training validation", "Metrics: accuracy: training validation"));
  EXPECT_THAT(ChartsOfNames({"train/epoch_loss", "validation/epoch_loss"}),
              ElementsAre("Losses: epoch_loss: train validation"));
}

TEST(ChartsOfTest, NamesOfPyTorchShareAChart) {
  EXPECT_THAT(ChartsOfNames({"Loss/test", "Loss/train", "layers/0/grad"}),
              ElementsAre("Losses: Loss: test train", "Metrics: layers/0/grad: layers/0/grad"));
}

TEST(ChartsOfTest, SectionsComeInOrder) {
  EXPECT_THAT(ChartsOfNames({"ex_per_s", "gpu_memory", "learning_rate", "loss", "lr", "top5"}),
              ElementsAre("Losses: loss: loss", "Metrics: top5: top5",
                          "Learning rate: learning_rate: learning_rate", "Learning rate: lr: lr",
                          "Throughput: ex_per_s: ex_per_s", "Memory: gpu_memory: gpu_memory"));
}

TEST(StepsPerSecondTest, ReturnsRateBetweenPoints) {
  const std::vector<Point> rates =
      StepsPerSecond({{"loss", {{0, 1, 100}, {10, 1, 102}, {20, 1, 107}, {30, 1, 107}}},
                      {"untimed", {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}}},
                      {"short", {{0, 1, 1}, {1, 1, 2}}}});
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[0].step, 10);
  EXPECT_DOUBLE_EQ(rates[0].value, 5);
  EXPECT_DOUBLE_EQ(rates[1].value, 2);
  EXPECT_THAT(StepsPerSecond({{"untimed", {{0, 1}, {1, 1}, {2, 1}}}}), IsEmpty());
  EXPECT_THAT(StepsPerSecond({}), IsEmpty());
}

// The series name is repeated at every point, so a long name must be truncated.
TEST(LineChartTest, LongNameIsNotRepeatedInFull) {
  const std::vector<Point> points = {{0, 1}, {1, 2}, {2, 3}};
  const std::string svg = LineChart("x", {{std::string(100'000, 'n'), &points}});
  EXPECT_EQ(WellFormed(svg), "");
  EXPECT_LT(svg.size(), 5'000u);
}

TEST(LineChartTest, DrawsEverySeriesInItsColour) {
  const std::vector<Point> train = {{0, 1}, {5, 2}, {10, 3}}, test = {{0, 2}, {10, 1}};
  const std::string svg = LineChart("loss <x>", {{"a & b", &train}, {"test", &test}});
  EXPECT_EQ(WellFormed(svg), "");
  EXPECT_THAT(svg, HasSubstr("aria-label=\"loss &lt;x&gt;\""));
  EXPECT_EQ(CountOf(svg, "class=\"line\""), 2);
  EXPECT_EQ(CountOf(svg, "class=\"raw\""), 0);
  EXPECT_EQ(CountOf(svg, "var(--c0)"), 1);
  EXPECT_EQ(CountOf(svg, "var(--c1)"), 1);
  EXPECT_EQ(CountOf(svg, "class=\"dot\""), 5);
  EXPECT_THAT(svg, HasSubstr("<title>a &amp; b, step 5: 2</title>"));
}

TEST(LineChartTest, LineFollowsTheValues) {
  const std::vector<Point> points = {{0, 0}, {1, 10}};
  const std::string svg = LineChart("x", {{"x", &points}});
  // The line runs from the lower left to the upper right, with margins of 5 % above and below.
  EXPECT_THAT(svg, HasSubstr("d=\"M58.0 204.7h0L548.0 19.3\""));
}

TEST(LineChartTest, WideRangeHasALogarithmicAxis) {
  const std::vector<Point> points = {{0, 0.01}, {1, 0.1}, {2, 1}};
  EXPECT_THAT(LineChart("x", {{"x", &points}}), HasSubstr("d=\"M58.0 204.7h0L303.0 187.9L"));
  const std::string svg = LineChart("x", {{"x", &points}}, /*may_be_logarithmic=*/true);
  EXPECT_THAT(svg, HasSubstr("d=\"M58.0 214.0h0L303.0 112.0L548.0 10.0\""));
  for (const char* tick : {">0.01<", ">0.1<", ">1<"}) EXPECT_THAT(svg, HasSubstr(tick));
}

TEST(LineChartTest, NonFiniteValuesAreGaps) {
  const std::vector<Point> points = {{0, 1}, {1, NAN}, {2, 2}, {3, INFINITY}, {4, 3}};
  const std::string svg = LineChart("x", {{"x", &points}});
  EXPECT_EQ(WellFormed(svg), "");
  EXPECT_EQ(CountOf(svg, "h0"), 3);
  EXPECT_EQ(CountOf(svg, "<title>"), 3);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(LineChartTest, LongSeriesIsSmoothedAndKeepsItsExtremes) {
  std::vector<Point> points;
  for (int i = 0; i < 100'000; ++i) points.push_back({i, i % 2 == 0 ? 1.0 : -1.0});
  points[54'321].value = 100;
  const std::string svg = LineChart("x", {{"x", &points}});
  EXPECT_EQ(CountOf(svg, "class=\"raw\""), 1);
  EXPECT_EQ(CountOf(svg, "class=\"line\""), 1);
  EXPECT_LT(svg.size(), 60'000u);
  // The values reach the top of the chart. Their moving average does not.
  const std::string raw = svg.substr(svg.find("class=\"raw\""));
  const size_t line = raw.find("class=\"line\"");
  EXPECT_THAT(raw.substr(0, line), HasSubstr(" 19."));
  EXPECT_THAT(raw.substr(line), Not(HasSubstr(" 19.")));
}

TEST(LineChartTest, LargeTicksHaveAUnit) {
  const std::vector<Point> points = {{0, 0}, {1, 2e9}};
  const std::string svg = LineChart("x", {{"x", &points}});
  EXPECT_THAT(svg, HasSubstr(">1.5G<"));
  EXPECT_THAT(svg, HasSubstr(">500M<"));
}

TEST(LineChartTest, AnyNumberOfPointsIsWellFormed) {
  const std::vector<Point> none = {}, one = {{7, 3}}, nan = {{1, NAN}},
                           huge = {{0, -1.7e308}, {INT64_MAX, 1.7e308}};
  for (const std::vector<Point>* points : {&none, &one, &nan, &huge}) {
    const std::string svg = LineChart("x", {{"x", points}});
    EXPECT_EQ(WellFormed(svg), "");
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
}

}  // namespace
}  // namespace mirrorflow
