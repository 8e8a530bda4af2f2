// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_REPORT_CHARTS_H_
#define MIRRORFLOW_TOOLS_REPORT_CHARTS_H_

#include <map>
#include <string>
#include <vector>

#include "tools/report/line_chart.h"
#include "tools/report/run_data.h"

namespace mirrorflow {

// A chart of the series that measure the same, such as the losses of training and of validation.
struct Chart {
  enum Section { kLosses, kMetrics, kLearningRate, kThroughput, kMemory };
  Section section;
  std::string title;
  std::vector<LineSeries> lines;
};

inline constexpr const char* kSectionTitles[] = {"Losses", "Metrics", "Learning rate", "Throughput",
                                                 "Memory"};

// Arranges all series by section. Names follow the conventions of Keras and PyTorch:
//   loss, val_loss          →  loss: training, validation
//   loss/train, loss/test   →  loss: train, test
//   train/epoch_loss, …     →  epoch_loss: train, …
// The series must outlive the charts.
std::vector<Chart> ChartsOf(const std::map<std::string, std::vector<Point>>& series);

// Steps per second between the points of the longest series with times; empty without one.
std::vector<Point> StepsPerSecond(const std::map<std::string, std::vector<Point>>& series);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_CHARTS_H_
