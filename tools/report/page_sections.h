// SPDX-License-Identifier: Apache-2.0
//
// The head of the report, and its tables. Each function returns HTML, empty without contents.
#ifndef MIRRORFLOW_TOOLS_REPORT_PAGE_SECTIONS_H_
#define MIRRORFLOW_TOOLS_REPORT_PAGE_SECTIONS_H_

#include <string>
#include <vector>

#include "tools/report/charts.h"
#include "tools/report/run_data.h"

namespace mirrorflow {

// A line about the run.
std::string Subtitle(const RunData& run);
// Its most important figures.
std::string Tiles(const RunData& run, const std::vector<Chart>& charts);
// How each replica spends the step.
std::string ReplicaTable(const StepTimeline& timeline);
// The time of kernels by op, of all replicas.
std::string OpTable(const StepTimeline& timeline);
// The number of parameters and the size of checkpoints.
std::string MemorySection(const RunData& run);
// Checkpoints, and the events of the training.
std::string EventSection(const RunData& run);
// Hyperparameters, and the first line of the log.
std::string FactsSection(const RunData& run);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_PAGE_SECTIONS_H_
