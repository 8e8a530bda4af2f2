// SPDX-License-Identifier: Apache-2.0
//
// The report of `mirrorflow explain`, as text and as JSON.
#ifndef MIRRORFLOW_TOOLS_EXPLAIN_EXPLAIN_REPORT_H_
#define MIRRORFLOW_TOOLS_EXPLAIN_EXPLAIN_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/runtime/plan.h"
#include "tools/bench/predict_exchange.h"
#include "tools/bench/statistics.h"
#include "tools/explain/calibrate.h"
#include "tools/explain/divide_cores.h"
#include "tools/explain/step_memory.h"

namespace mirrorflow {

// A compiled step with the predicted and measured times of its instructions.
struct Explanation {
  std::string name;
  int replicas = 1;  // per worker
  int threads = 1;   // per replica
  int workers = 1;
  std::string transport = "shared_memory";                    // between workers
  std::optional<ExchangePrediction> exchange = std::nullopt;  // set if workers exchange messages
  int64_t batch_size = 1;                                     // per replica
  const Plan* plan = nullptr;                                 // the first replica's plan
  Machine machine;
  std::vector<double> predicted_ns;                 // by instruction
  std::string not_run;                              // why the step was not run; empty if it was
  Timing measured;                                  // timing of the whole step
  std::vector<double> fastest_ns;                   // by instruction; empty if the step was not run
  std::optional<StepMemory> memory = std::nullopt;  // set if it is to be shown
  Host host;                                        // for which `divisions` are predicted
  std::vector<CoreDivision> divisions;              // with the same global batch; may be empty
};

// Prints the explanation as tables. Long tables show only the most expensive rows; the op table
// also shows the sum of the other rows.
void PrintExplanation(const Explanation& e);

// Returns one JSON object per line: the step, then each op (`op`), each node of the critical path
// (`node`) and each division of a host's cores (`threads_per_replica`).
std::string ExplanationJson(const Explanation& e);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_EXPLAIN_REPORT_H_
