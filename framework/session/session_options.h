// SPDX-License-Identifier: Apache-2.0
//
// SessionOptions: the options of a session. Strategies set them from their own options.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_SESSION_OPTIONS_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_SESSION_OPTIONS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "framework/compiler/compile_options.h"

namespace mirrorflow {

struct SessionOptions {
  // Seed of the random ops that have no seed attribute.
  uint64_t seed = 0;
  // Maximum size, in bytes, of a gradient bucket: the gradients that one all-reduce carries. If 0,
  // the size depends on the link between memory domains or, with a single domain, on the device.
  int64_t bucket_bytes = 0;
  // A run fails with DeadlineExceeded if it takes longer than this, or waits longer than this for
  // other runs. A CPU checks the deadline between kernels and never interrupts a kernel.
  absl::Duration step_timeout = absl::Minutes(10);
  // How long to wait for connections to workers that are ready to connect.
  absl::Duration connect_timeout = absl::Minutes(5);
  // How long to wait for a worker that is alive but not ready, for instance because it is loading
  // data or compiling.
  absl::Duration prepare_timeout = absl::Minutes(30);
  // If true, pins each replica to its own cores.
  bool pin_threads = true;
  // Limit for the total size, in bytes, of the variables, the forms that one step reads, the
  // intermediate values of all runs in progress on all local devices, and their fetches on the
  // host. A step that exceeds the limit by itself fails with ResourceExhausted before it allocates
  // anything. A run that exceeds it only together with other runs waits for them to finish.
  int64_t max_bytes = int64_t{1} << 60;
  // The number of compiled steps that the session caches; it evicts the least recently used one. A
  // step has one entry for each combination of feed shapes and replicas' row counts that it runs
  // with. An evicted step is recompiled on its next use.
  int max_cached_steps = 128;
  // Maximum number of concurrent runs of steps that write no variables; 0 means one for each CPU
  // that the process may use. Sessions with several replicas or on GPUs run one step at a time.
  int max_concurrent_runs = 0;
  CompileOptions compile = {};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_SESSION_OPTIONS_H_
