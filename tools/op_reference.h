// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_OP_REFERENCE_H_
#define MIRRORFLOW_TOOLS_OP_REFERENCE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// Implements `mirrorflow ops [NAME…]`. Without a name, lists all ops in one line each; with names,
// prints what the registries know of these ops: signature, attributes, gradient, sharding, kernels.
// `args` are the words after `ops`. On error, `*code` is the exit code of the program.
//
//   --markdown=DIR  writes the same as pages, one for each file of ops/, and an index README.md;
//                   docs/ops holds them, and a test compares
absl::Status ShowOps(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_OP_REFERENCE_H_
