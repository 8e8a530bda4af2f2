// SPDX-License-Identifier: Apache-2.0
//
// Arranges a run's series as charts, and draws them for the report page.
#ifndef MIRRORFLOW_TOOLS_REPORT_CHARTS_H_
#define MIRRORFLOW_TOOLS_REPORT_CHARTS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/report/run_data.h"

namespace mirrorflow {

struct LineSeries {
  std::string name;
  const std::vector<Point>* points;
};

// Draws values over steps as SVG, to be embedded in an HTML page. The page sets the colours through
// the classes `axis`, `grid`, `line`, `raw`, `dot` and `hit`, and through the variables --c0 …
// --c5, which the series use in turn. Lines have gaps at non-finite values. For series of more than
// 200 points, draws an exponential moving average over the raw values. If `may_be_logarithmic`,
// values that span at least two decades have a logarithmic axis.
std::string LineChart(absl::string_view title, const std::vector<LineSeries>& series,
                      bool may_be_logarithmic = false);

// The number of variables --c0, --c1, …
inline constexpr size_t kChartColours = 6;

// A chart of series that measure the same quantity, such as the training and validation losses.
struct Chart {
  enum Section { kLosses, kMetrics, kLearningRate, kThroughput, kMemory };
  Section section;
  std::string title;
  std::vector<LineSeries> lines;
};

inline constexpr const char* kSectionTitles[] = {"Losses", "Metrics", "Learning rate", "Throughput",
                                                 "Memory"};

// Arranges all series by section. Names follow Keras and PyTorch conventions:
//   loss, val_loss          →  loss: training, validation
//   loss/train, loss/test   →  loss: train, test
//   train/epoch_loss, …     →  epoch_loss: train, …
// The series must outlive the charts.
std::vector<Chart> ChartsOf(const std::map<std::string, std::vector<Point>>& series);

// Returns the steps per second between the points of the longest series with times, or nothing if
// no series has times.
std::vector<Point> StepsPerSecond(const std::map<std::string, std::vector<Point>>& series);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_CHARTS_H_
