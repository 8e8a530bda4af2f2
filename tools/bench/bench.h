// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_BENCH_BENCH_H_
#define MIRRORFLOW_TOOLS_BENCH_BENCH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// Implements `mirrorflow bench WHAT`; `args` are the words after `bench`.
//   step       one training step of --model with --batch_size examples per replica on --replicas
//   gates      all performance goals, including those against other frameworks, as one table
//   allreduce  an all-reduce of two replicas, against Gloo
//   overhead   the cost of a step and of a node that compute almost nothing; allocations of a step
//   serving    requests per second and latency of inference, beside other frameworks
//   compile    time from a graph to plans, by nodes and by replicas
//   graphs     time from a file of many nodes to a result
//   startup    time from process start to the end of the first step, ours and the peers'
//   memory     peak memory of such a process
//   peer       the process that `startup` and `memory` start: trains and reports its progress
// --json=FILE also writes one JSON object per line to the file.
// On error, `*code` is the exit code of the program.
absl::Status Bench(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_BENCH_H_
