// SPDX-License-Identifier: Apache-2.0
#include "tools/report/charts.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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

TEST(StepsPerSecondTest, RateBetweenPoints) {
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

}  // namespace
}  // namespace mirrorflow
