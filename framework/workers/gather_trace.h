// SPDX-License-Identifier: Apache-2.0
//
// GatherTrace merges the traces of all workers into that of worker 0.
#ifndef MIRRORFLOW_FRAMEWORK_WORKERS_GATHER_TRACE_H_
#define MIRRORFLOW_FRAMEWORK_WORKERS_GATHER_TRACE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/trace.h"
#include "framework/workers/clock_offset.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

// Adds the traces of all other workers to that of worker 0, on the clock of worker 0, and records
// the clock offsets and their errors. The traces of the other workers do not change. `passages` are
// the times of this worker at barriers that all workers have passed. All workers must call it under
// the same `name`; each call needs a new one.
absl::Status GatherTrace(absl::string_view name, absl::Span<const Passage> passages,
                         WorkerGroup& workers, MonotonicTime deadline, TraceWriter* trace);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_WORKERS_GATHER_TRACE_H_
