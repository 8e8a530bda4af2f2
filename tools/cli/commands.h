// SPDX-License-Identifier: Apache-2.0
//
// The commands of `mirrorflow`, except those with a folder of their own (bench, explain, launch,
// report). Each is implemented in the file of the same name.
//
// `args` are the words after the command. On error, `*code` is the exit code of the program.
#ifndef MIRRORFLOW_TOOLS_CLI_COMMANDS_H_
#define MIRRORFLOW_TOOLS_CLI_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// `mirrorflow checkpoint DIR`: lists the checkpoints in a directory and verifies every byte of
// them. Returns DataLoss if one is damaged.
absl::Status ListAndCheckCheckpoints(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow coordinator`: runs the coordination service of one job in a separate process. Serves
// until all workers have left without a failure; after a failure, serves them again when they
// restart. Also sets `*code` on success.
absl::Status Coordinator(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow data FILE|FOLDER …`: prints what a dataset made from these files contains, its first
// rows, and the reading speed.
absl::Status ShowData(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow devices`: prints one line for each device that a strategy can name, with the reason
// if a GPU cannot be used, and the devices that MirroredStrategy uses by default.
absl::Status Devices(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow inspect GRAPH`: prints a summary of the graph (layers and parameters) and of the step
// as compiled for --replicas and --global_batch_size (memory and collectives). --fetch and --target
// select the step; by default, it computes the whole graph.
//
//   --all     also prints the graph in text form, node counts by op, shardings, collectives and
//             memory regions
//   --pass    prints the graph before and after that compiler pass instead
//   --output  converts the file, which must be valid, and prints nothing; with --replicas, writes
//             a graph with the nodes of all replicas of the step (ReplicatedGraph)
absl::Status Inspect(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow ops [NAME …]`: without names, lists all ops, one per line; with names, prints what
// the registries hold on these ops: signature, attributes, gradient, sharding, kernels.
//
//   --markdown=DIR  writes the same as one page for each file of ops/, and an index README.md; a
//                   test compares them with docs/ops
absl::Status ShowOps(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow run`: runs steps of a graph file on tensors from .npy files. Runs on one device or,
// with --replicas or --logical_gpus, under MirroredStrategy; feeds and fetches are global tensors
// either way. Any tensor can be fed, and only nodes that the fetches and targets need are run.
// Without --fetch and --target, lists the graph's feeds, variables, fetches and targets.
absl::Status Run(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow status HOST:PORT`: asks the coordination service at that address for the state of the
// job, and prints a summary and a line for each worker. Requires the job's name, secret and
// certificates. Gives up after 10 s.
absl::Status ShowStatus(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_CLI_COMMANDS_H_
