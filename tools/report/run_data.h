// SPDX-License-Identifier: Apache-2.0
//
// The contents of a run's files, as `mirrorflow report` shows them.
#ifndef MIRRORFLOW_TOOLS_REPORT_RUN_DATA_H_
#define MIRRORFLOW_TOOLS_REPORT_RUN_DATA_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/report/svg_chart.h"

namespace mirrorflow {

struct Point {
  int64_t step;
  double value;
  double time = 0;  // seconds since 1970, or 0 if unknown
};

// A training event: started, saved, lost, …
struct RunEvent {
  std::string time;
  std::string what;
  std::string details;
};

struct SavedCheckpoint {
  int64_t step, epoch;
  int workers, replicas;
  uint64_t bytes;
  std::string time;
};

// One step in a trace.
struct StepTimeline {
  // How a process (a replica) spends its time during the step, in milliseconds.
  struct Process {
    std::string name;
    // `in_flight`: the time during which at least one collective is in flight.
    double kernels = 0, waiting = 0, in_flight = 0;
  };
  std::string step;  // name of the step
  double ms = 0;
  std::vector<std::string> rows, kinds;
  std::vector<TimelineSpan> spans;
  std::vector<Process> processes;
  std::vector<std::pair<std::string, double>> ms_by_op;  // kernel times, the longest first
  std::vector<double> step_ms;                           // durations of all steps in the trace
  size_t spans_left_out = 0;                             // how many spans are not shown
};

struct RunData {
  using Names = std::vector<std::pair<std::string, std::string>>;

  std::map<std::string, std::vector<Point>> series;  // in ascending order of steps
  Names facts;                                       // from the first line of a log
  Names hparams;
  Names texts;
  std::vector<RunEvent> events;
  std::vector<SavedCheckpoint> checkpoints;
  std::optional<StepTimeline> timeline;
  bool finished = false;           // whether a log records the end of training
  std::vector<std::string> files;  // the files that were read
  std::vector<std::string> notes;  // describe what could not be read

  // Adds a point. Drops existing points at its step and later steps, because a run that resumes
  // from a checkpoint repeats steps.
  void AddPoint(const std::string& name, const Point& point) { AddPoint(series[name], point); }
  static void AddPoint(std::vector<Point>& points, const Point& point) {
    while (!points.empty() && points.back().step >= point.step) points.pop_back();
    points.push_back(point);
  }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_RUN_DATA_H_
