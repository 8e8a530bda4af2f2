// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes graph files. The name determines the format: `.pbtxt` and `.pb.txt` are
// GraphDefs (TensorFlow's format) as text, other `.txt` files the text form
// (framework/graph/text_form.h), and all others binary GraphDefs.
//
//   MF_ASSIGN_OR_RETURN(Graph graph, ReadGraphFile("model.pb", AllOps()));
//   const Output images = graph.FindNode("images")->output(0);
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_FILE_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_FILE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/graph/graph.h"
#include "framework/graph/graph_limits.h"
#include "framework/graph/op_registry.h"

namespace mirrorflow {

// Reads a graph file. `registry` must contain the ops in the graph that steps need: AllOps(), or
// Extensions::ops() if some are user-defined. Text may be UTF-8 or UTF-16, with the line endings of
// any operating system. Every error starts with the path, and a parse error also gives the
// position. Returns InvalidArgument, naming the kind, for a file of another kind (a SavedModel, an
// ONNX model, a git LFS pointer), and ResourceExhausted for a file, or a graph in it, that exceeds
// the limits. A truncated file is an error, never a smaller graph, with one exception: a GraphDef
// truncated between two nodes looks like the output of an old program, which wrote no versions.
absl::StatusOr<Graph> ReadGraphFile(absl::string_view path, const OpRegistry& registry,
                                    const GraphLimits& limits = {});

// Writes the graph and replaces an existing file atomically; on error, the file is unchanged.
absl::Status WriteGraphFile(const Graph& graph, absl::string_view path);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_FILE_H_
