// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/progress_format.h"

#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

constexpr absl::string_view kHead = "Epoch  3/10   412/937";

TEST(FormatTest, ClocksShowWholeSeconds) {
  EXPECT_EQ(FormatClock(absl::Milliseconds(9'999)), "0:09");
  EXPECT_EQ(FormatClock(absl::Seconds(754)), "12:34");
  EXPECT_EQ(FormatClock(absl::Seconds(3'723)), "1:02:03");
  EXPECT_EQ(FormatClock(absl::Seconds(360'000)), "100:00:00");
  EXPECT_EQ(FormatClock(absl::Seconds(-5)), "0:00");
}

TEST(FormatTest, NumbersHaveThreeDigitsAndNoExponent) {
  EXPECT_EQ(FormatThreeDigits(0.01823), "0.0182");
  EXPECT_EQ(FormatThreeDigits(1.823), "1.82");
  EXPECT_EQ(FormatThreeDigits(18.23), "18.2");
  EXPECT_EQ(FormatThreeDigits(182.3), "182");
  EXPECT_EQ(FormatThreeDigits(1823.4), "1823");
  EXPECT_EQ(FormatThreeDigits(0.9997), "1.00");
  EXPECT_EQ(FormatThreeDigits(9.996), "10.0");
  EXPECT_EQ(FormatThreeDigits(99.96), "100");
  EXPECT_EQ(FormatThreeDigits(0), "0.00");
}

TEST(FormatTest, CountsHaveUnits) {
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(999.7), "1.00k");
  EXPECT_EQ(FormatCount(56'300), "56.3k");
  EXPECT_EQ(FormatCount(1'200'000), "1.20M");
  EXPECT_EQ(FormatCount(2.5e9), "2.50G");
}

TEST(FormatTest, MetricsHaveFourDigits) {
  EXPECT_EQ(FormatMetric(0.31274), "0.3127");
  EXPECT_EQ(FormatMetric(12), "12");
  EXPECT_EQ(FormatMetric(1e-7), "1e-07");
  EXPECT_EQ(FormatMetric(std::nan("")), "nan");
  EXPECT_EQ(FormatMetric(-std::nan("")), "nan");
  EXPECT_EQ(FormatMetric(-INFINITY), "-inf");
}

TEST(LogLineTest, TextAndJsonHaveSameFields) {
  const LogField fields[] = {
      LogField::Number("worker", "0"),
      {"step", "412/937", "412"},
      {"steps", "", "937"},
      LogField::String("plain", "a-b/c"),
      LogField::String("spaced", "a \"b\"\nc"),
      LogField::String("empty", ""),
      LogField::Metric("loss", 0.312749),
      LogField::Metric("acc", std::nan("")),
  };
  const absl::Time time = absl::FromUnixSeconds(1'767'614'410);
  EXPECT_EQ(TextLine(time, fields),
            "2026-01-05T12:00:10Z worker=0 step=412/937 plain=a-b/c "
            "spaced=\"a \\\"b\\\"\\nc\" loss=0.3127 acc=nan");
  const auto parsed = nlohmann::json::parse(JsonLine(time, fields), nullptr, false);
  EXPECT_EQ(parsed, nlohmann::json({{"time", "2026-01-05T12:00:10Z"},
                                    {"worker", 0},
                                    {"step", 412},
                                    {"steps", 937},
                                    {"plain", "a-b/c"},
                                    {"spaced", "a \"b\"\nc"},
                                    {"empty", ""},
                                    {"loss", 0.312749},
                                    {"acc", nullptr}}));
}

TEST(BarLineTest, BarFillsProportionally) {
  EXPECT_EQ(BarLine(kHead, 412, 937, "  18.2 ms/step", 80),
            "Epoch  3/10   412/937 [########------------]  44%  18.2 ms/step");
  EXPECT_EQ(BarLine("", 0, 10, "", 80), " [--------------------]   0%");
  EXPECT_EQ(BarLine("", 10, 10, "", 80), " [####################] 100%");
  EXPECT_EQ(BarLine("", 0, 0, "", 80), " [####################] 100%");
}

TEST(BarLineTest, BarIsFullOnlyAtTotal) {
  EXPECT_EQ(BarLine("", 9'999, 10'000, "", 80), " [###################-]  99%");
  EXPECT_EQ(BarLine("", 12, 10, "", 80), " [####################] 100%")
      << "more steps than the total";
}

TEST(BarLineTest, UnknownTotalHasNoBar) {
  EXPECT_EQ(BarLine("412/?", 412, std::nullopt, "  elapsed 0:09", 80), "412/?  elapsed 0:09");
}

TEST(BarLineTest, StaysNarrowerThanTerminal) {
  for (int columns = 1; columns < 100; ++columns) {
    const std::string line = BarLine(kHead, 412, 937, "  18.2 ms/step  eta 0:09", columns);
    EXPECT_LE(line.size(), static_cast<size_t>(std::max(columns - 1, 1))) << columns;
  }
  EXPECT_EQ(BarLine(kHead, 412, 937, "  18.2 ms/step", 54),
            "Epoch  3/10   412/937 [####------]  44%  18.2 ms/step");
  EXPECT_EQ(BarLine(kHead, 412, 937, "  18.2 ms/step", 48),
            "Epoch  3/10   412/937  44%  18.2 ms/step");
  EXPECT_EQ(BarLine(kHead, 412, 937, "  18.2 ms/step", 32), "Epoch  3/10   412/937  44%  18.");
}

}  // namespace
}  // namespace mirrorflow
