// SPDX-License-Identifier: Apache-2.0
//
// The report's head and tables. Each function returns HTML, or an empty string if there is nothing
// to show.
#ifndef MIRRORFLOW_TOOLS_REPORT_PAGE_SECTIONS_H_
#define MIRRORFLOW_TOOLS_REPORT_PAGE_SECTIONS_H_

#include <string>
#include <vector>

#include "tools/report/charts.h"
#include "tools/report/run_data.h"

namespace mirrorflow {

// Returns a line with the strategy, devices, precision and times of the run.
std::string Subtitle(const RunData& run);
// Returns the run's most important figures.
std::string Tiles(const RunData& run, const std::vector<Chart>& charts);
// Shows how each replica spends its time during the step.
std::string ReplicaTable(const StepTimeline& timeline);
// Shows the kernel time by op, summed over all replicas.
std::string OpTable(const StepTimeline& timeline);
// Shows the parameter count and the checkpoint sizes.
std::string MemorySection(const RunData& run);
// Lists the checkpoints and the training events.
std::string EventSection(const RunData& run);
// Lists the hyperparameters and the settings in the log's first line.
std::string FactsSection(const RunData& run);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_PAGE_SECTIONS_H_
