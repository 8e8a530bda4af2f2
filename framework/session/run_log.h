// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_RUN_LOG_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_RUN_LOG_H_

#include <atomic>
#include <memory>

#include "framework/runtime/run_progress.h"
#include "framework/session/step_tracer.h"

namespace mirrorflow {

struct BoundStep;

// State that all runners of a session share.
struct RunLog {
  RunCounters counters;
  // The last step to run, whose values its runner's replicas still hold. Null if a variable was
  // assigned since.
  std::atomic<const BoundStep*> last_run{nullptr};
  // Null unless the session is traced. Changes only while no step runs.
  std::unique_ptr<StepTracer> tracer;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_RUN_LOG_H_
