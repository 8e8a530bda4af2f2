// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_BENCH_H_
#define MIRRORFLOW_TOOLS_BENCH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// `mirrorflow bench WHAT`; `args` are the words after `bench`.
//   step       one training step of --model with --batch_size examples a replica on --replicas
//   gates      all goals of speed, those against other frameworks included, as one table
//   allreduce  the sum of what two replicas have, against Gloo
//   overhead   what a step and a node cost when they compute nothing, and what a step allocates
//   compile    from a graph to plans, by nodes and by replicas
//   graphs     from a file of many nodes to a result
//   startup    from the start of a process to the end of its first step, ours and the peers'
//   memory     the most memory of such a process
//   peer       what these start: trains and says so
// With --json=FILE one object a line goes there.
// `code` is set to what the program should end with if the result is an error.
absl::Status Bench(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_H_
