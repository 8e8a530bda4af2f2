// SPDX-License-Identifier: Apache-2.0
//
// The values that a step takes from files on the command line: its feeds (--feed) and its variables
// (--variables).
#ifndef MIRRORFLOW_TOOLS_FLAGS_STEP_INPUTS_H_
#define MIRRORFLOW_TOOLS_FLAGS_STEP_INPUTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"
#include "framework/session/session.h"
#include "tools/flags/step_selection.h"

namespace mirrorflow {

// A tensor named on the command line, and its file.
struct NamedFile {
  std::string flag;  // as on the command line, for error messages
  std::string name;
  std::string path;  // may be empty
  Output output = {};
};

// Splits each of `values`, the value of --`flag`, into NAME and FILE at the first `=`.
std::vector<NamedFile> NamedFiles(absl::string_view flag, const std::vector<std::string>& values);
// Finds the tensors in `graph`. Returns InvalidArgument, naming the flag, if one does not exist.
absl::Status FindOutputs(const Graph& graph, std::vector<NamedFile>& files);

// Returns the files that --feed names, or InvalidArgument, naming the flag, if one is malformed.
absl::StatusOr<std::vector<NamedFile>> FeedsFromFlags();
// Reads the values of the feeds. Returns the errors of ReadNpy, and InvalidArgument if a dtype
// differs from the tensor's.
absl::StatusOr<std::vector<Tensor>> ReadFeeds(const std::vector<NamedFile>& feeds);

// Loads the variables from the file that --variables names, if any. Unless --partial_variables is
// set, requires all variables that the step reads, except optimizer state and variables that are
// synchronised on read. Optimizer state has initial values in a Mirrorflow graph. TensorFlow graphs
// do not mark optimizer state, so it is required for them.
absl::Status LoadVariablesFromFlags(const StepSelection& step, Session& session);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_STEP_INPUTS_H_
