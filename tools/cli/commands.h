// SPDX-License-Identifier: Apache-2.0
//
// The commands of `mirrorflow` that are not a folder of their own (bench, explain, launch, report).
// Each is in the file that has its name.
//
// `args` are the words after the command. On error, `*code` is the exit code of the program.
#ifndef MIRRORFLOW_TOOLS_CLI_COMMANDS_H_
#define MIRRORFLOW_TOOLS_CLI_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// `mirrorflow checkpoint DIR`: lists the checkpoints of a directory and checks every byte of them.
// DataLoss if one of its checkpoints is damaged.
absl::Status ListAndCheckCheckpoints(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow coordinator`: the coordination service of one job, in a process of its own. Serves
// until all workers have left without a failure. After a failure, serves them anew when they start
// again. Sets `*code` also without an error.
absl::Status Coordinator(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow data FILE|FOLDER …`: prints what a dataset of these files has, its first rows and how
// fast they are read.
absl::Status ShowData(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow devices`: prints one line for each device that a strategy can name, with the reason
// if a GPU cannot be used, and the devices that MirroredStrategy takes by default.
absl::Status Devices(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow inspect GRAPH`: prints a summary of the graph (layers and parameters) and of the step
// as compiled for --replicas and --global_batch_size (memory and collectives). The step is what
// --fetch and --target select, or everything.
//
//   --all     also prints the graph in text form, nodes by op, shardings, each collective and
//             memory regions
//   --pass    prints the graph before and after that pass of the compiler instead
//   --output  converts the file, which must be valid, and prints nothing; with --replicas it
//             writes a graph with the nodes of all replicas of the step (ReplicatedGraph)
absl::Status Inspect(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow ops [NAME …]`: without a name, lists all ops in one line each; with names, prints
// what the registries know of these ops: signature, attributes, gradient, sharding, kernels.
//
//   --markdown=DIR  writes the same as pages, one for each file of ops/, and an index README.md;
//                   docs/ops holds them, and a test compares
absl::Status ShowOps(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow run`: runs steps of a graph file on tensors from .npy files. Runs on one device or,
// with --replicas or --logical_gpus, under MirroredStrategy; feeds and fetches are global tensors
// either way. Any tensor can be fed, and only nodes that the fetches and targets need are run.
// Without fetches and targets, lists the feeds, variables, fetches and targets of the graph.
absl::Status Run(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow status HOST:PORT`: asks the coordination service of a job there which worker is
// where, and prints a summary and a line for each worker. It takes the secret, job and certificates
// of the job. Gives up after 10 s.
absl::Status ShowStatus(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_CLI_COMMANDS_H_
