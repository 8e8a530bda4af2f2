// SPDX-License-Identifier: Apache-2.0
//
// Graphs in files. The name tells the format: `.pbtxt` and `.pb.txt` are GraphDefs as text, other
// `.txt` the text form, everything else GraphDefs in binary.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_FILE_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_FILE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/graph/graph.h"
#include "framework/graph/graph_limits.h"
#include "framework/graph/op_registry.h"

namespace mirrorflow {

// Every error begins with the path; where the file cannot be parsed it has the place as well. A
// file that was cut off is an error, never a smaller graph. ResourceExhausted for a file, or a
// graph in it, that is larger than the limits.
absl::StatusOr<Graph> ReadGraphFile(absl::string_view path, const OpRegistry& registry,
                                    const GraphLimits& limits = {});

// Replaces the file, or leaves it as it was.
absl::Status WriteGraphFile(const Graph& graph, absl::string_view path);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_FILE_H_
