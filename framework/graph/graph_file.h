// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes graph files. The name determines the format: `.pbtxt` and `.pb.txt` are
// GraphDefs as text, other `.txt` files the text form, and all others binary GraphDefs.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_FILE_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_FILE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/graph/graph.h"
#include "framework/graph/graph_limits.h"
#include "framework/graph/op_registry.h"

namespace mirrorflow {

// Every error begins with the path, and a parse error also gives the position. A file of another
// kind (a SavedModel, an ONNX model, a git LFS pointer) is InvalidArgument, and the error names the
// kind. A truncated file is an error, never a smaller graph, with one exception: a GraphDef
// truncated between two nodes looks like one without versions, as old programs write.
// ResourceExhausted for a file, or a graph in it, that exceeds the limits. Text may be UTF-8 or
// UTF-16, with the line endings of any operating system.
absl::StatusOr<Graph> ReadGraphFile(absl::string_view path, const OpRegistry& registry,
                                    const GraphLimits& limits = {});

// Replaces the file atomically; on error, an existing file is unchanged.
absl::Status WriteGraphFile(const Graph& graph, absl::string_view path);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_FILE_H_
