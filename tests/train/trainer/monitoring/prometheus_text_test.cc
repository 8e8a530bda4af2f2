// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/monitoring/prometheus_text.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using Labels = PrometheusText::Labels;

TEST(PrometheusTextTest, GaugeAndCounterHaveHelpTypeAndLabels) {
  PrometheusText text(Labels{{"job", "mnist"}, {"worker", "3"}});
  text.AddGauge("memory_bytes", "In use.", 12.5);
  text.AddCounter("steps_total", "All steps.", 7);
  EXPECT_EQ(text.Take(),
            "# HELP memory_bytes In use.\n"
            "# TYPE memory_bytes gauge\n"
            "memory_bytes{job=\"mnist\",worker=\"3\"} 12.5\n"
            "# HELP steps_total All steps.\n"
            "# TYPE steps_total counter\n"
            "steps_total{job=\"mnist\",worker=\"3\"} 7\n");
}

TEST(PrometheusTextTest, WithoutLabelsThereAreNoBraces) {
  PrometheusText text(Labels{});
  text.AddCounter("a", "b", 0);
  EXPECT_EQ(text.Take(), "# HELP a b\n# TYPE a counter\na 0\n");
}

TEST(PrometheusTextTest, LabelsAreEscaped) {
  PrometheusText text(Labels{{"job", "a\"b\\c\nd\xff é"}});
  text.AddGauge("g", "says \"why\\\n", 1);
  EXPECT_EQ(text.Take(),
            "# HELP g says \"why\\\\\\n\n"
            "# TYPE g gauge\n"
            "g{job=\"a\\\"b\\\\c\\nd\xEF\xBF\xBD é\"} 1\n");
}

TEST(PrometheusTextTest, NumbersRoundTrip) {
  const auto written = [](double value) {
    PrometheusText text(Labels{});
    text.AddGauge("g", "", value);
    const std::string all = text.Take();
    return all.substr(all.rfind(' ') + 1);
  };
  EXPECT_EQ(written(std::nan("")), "NaN\n");
  EXPECT_EQ(written(HUGE_VAL), "+Inf\n");
  EXPECT_EQ(written(-HUGE_VAL), "-Inf\n");
  EXPECT_EQ(written(-0.25), "-0.25\n");
  EXPECT_EQ(std::stod(written(123456789.0)), 123456789.0);
  EXPECT_EQ(std::stod(written(1.0 / 3)), 1.0 / 3);
  EXPECT_EQ(std::stod(written(std::numeric_limits<double>::min())),
            std::numeric_limits<double>::min());
}

TEST(PrometheusTextTest, HistogramBucketsAreCumulativeAndEndWithInfinity) {
  PrometheusText text(Labels{{"worker", "0"}});
  text.AddHistogram("h", "Durations.", {0.5, 10}, {3, 0, 2}, 31.25);
  EXPECT_EQ(text.Take(),
            "# HELP h Durations.\n"
            "# TYPE h histogram\n"
            "h_bucket{worker=\"0\",le=\"0.5\"} 3\n"
            "h_bucket{worker=\"0\",le=\"10\"} 3\n"
            "h_bucket{worker=\"0\",le=\"+Inf\"} 5\n"
            "h_sum{worker=\"0\"} 31.25\n"
            "h_count{worker=\"0\"} 5\n");
}

}  // namespace
}  // namespace mirrorflow
