// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench allreduce`: an all-reduce of two replicas, of one process (C11) or of two, on
// one host (C13) or on two (C14).
#ifndef MIRRORFLOW_TOOLS_BENCH_ALL_REDUCE_H_
#define MIRRORFLOW_TOOLS_BENCH_ALL_REDUCE_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"
#include "tools/namespaces.h"

namespace mirrorflow {

// Measures sizes from 4 bytes to 25 MB over --transport, in turns with Gloo's algorithms on the
// same cores and --hosts. Goals are against the fastest of these.
absl::Status BenchAllReduce(Report* report);
absl::Status CheckAllReduceFlags();
absl::Status CheckAllReduceWorkers();

// The same over a given transport: between threads, between processes that share memory, and over
// TCP between two namespaces.
absl::Status BenchAllReduceOfThreads(Report* report);
absl::Status BenchAllReduceOfProcesses(Report* report);
absl::Status BenchAllReduceOverTcp(const Link& link, Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_ALL_REDUCE_H_
