// SPDX-License-Identifier: Apache-2.0
//
// The `mirrorflow` commands, except for those that have a separate folder (bench, explain, launch,
// report). Each command is implemented in the file with its name.
//
// `args` are the arguments after the command's name. On error, `*code` is the program's exit code.
#ifndef MIRRORFLOW_TOOLS_CLI_COMMANDS_H_
#define MIRRORFLOW_TOOLS_CLI_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// `mirrorflow checkpoint DIR`: lists the checkpoints in a directory and verifies all of their
// bytes. Returns DataLoss if a checkpoint is damaged.
absl::Status ListAndCheckCheckpoints(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow coordinator`: runs a job's coordination service in a separate process, until all
// workers have left without a failure. After a failure, it waits for the workers to restart and
// serves them again. Also sets `*code` on success.
absl::Status Coordinator(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow data FILE|FOLDER …`: prints what a dataset of these files contains, its first rows,
// and the reading speed.
absl::Status ShowData(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow devices`: prints one line for each device that a strategy can use, the reason why a
// GPU cannot be used, and the devices that MirroredStrategy uses by default.
absl::Status Devices(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow inspect GRAPH`: prints a summary of the graph (layers and parameters) and of the
// step, compiled for --replicas and --global_batch_size (memory and collectives). --fetch and
// --target select the step; by default, the step computes the whole graph.
//
//   --all     also prints the graph in text form, node counts by op, shardings, collectives and
//             memory regions
//   --pass    instead prints the graph before and after that compiler pass
//   --output  converts the file, which must be valid, and prints nothing; with --replicas, writes
//             a graph with the nodes of all replicas (ReplicatedGraph)
absl::Status Inspect(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow ops [NAME …]`: without names, lists all ops, one per line; with names, prints the
// registered facts about these ops: signature, attributes, gradient, sharding, kernels.
//
//   --markdown=DIR  writes these facts as one page per file in ops/, and an index README.md; a test
//                   compares them with docs/ops
absl::Status ShowOps(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow run`: runs steps of a graph file on tensors from .npy files, on one device or, with
// --replicas or --logical_gpus, under MirroredStrategy; in both cases, feeds and fetches are global
// tensors. Any tensor can be fed, and only nodes that the fetches and targets need are run. Without
// --fetch and --target, lists the graph's feeds, variables, fetches and targets.
absl::Status Run(const std::vector<std::string>& args, ExitCode* code);

// `mirrorflow status HOST:PORT`: requests the job's state from the coordination service at that
// address, and prints a summary and one line per worker. Requires the job's name, secret and
// certificates. Times out after 10 s.
absl::Status ShowStatus(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_CLI_COMMANDS_H_
