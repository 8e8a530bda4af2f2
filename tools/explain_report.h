// SPDX-License-Identifier: Apache-2.0
//
// What `mirrorflow explain` has to say of a step, for a person and as JSON.
#ifndef MIRRORFLOW_TOOLS_EXPLAIN_REPORT_H_
#define MIRRORFLOW_TOOLS_EXPLAIN_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "framework/runtime/plan.h"
#include "tools/calibrate.h"
#include "tools/statistics.h"

namespace mirrorflow {

// A compiled step, with what its instructions should take and what they took.
struct Explanation {
  std::string name;
  int replicas = 1;
  int64_t batch_size = 1;      // of a replica
  const Plan* plan = nullptr;  // of the first replica
  Machine machine;
  std::vector<double> predicted_ns;  // by instruction
  std::string not_run;               // why, if the step could not be run
  Timing measured;                   // of the step
  std::vector<double> fastest_ns;    // by instruction; empty if it was not run
};

// Tables; of long ones the most expensive rows, and the sum of the others.
void PrintExplanation(const Explanation& e);

// An object a line: the step, then each op (`op`), then each node of the critical path (`node`).
std::string ExplanationJson(const Explanation& e);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_REPORT_H_
