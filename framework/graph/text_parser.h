// SPDX-License-Identifier: Apache-2.0
//
// Parses the text form of graphs (text_form.h) and of the values in it. Every error gives the line
// and column, what was expected and what was found. No text can do worse than cause an error,
// however deep its nesting or large its numbers.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_TEXT_PARSER_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_TEXT_PARSER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"
#include "framework/graph/attr_value.h"
#include "framework/graph/graph.h"
#include "framework/graph/graph_limits.h"
#include "framework/graph/op_registry.h"

namespace mirrorflow {

// Returns the graph, with the shapes of all nodes inferred. Nodes may come in any order. Comments
// are lines that start with `#` and text that follows ` #` after a node. InvalidArgument with up to
// 20 errors, one per line; ResourceExhausted for more nodes than the limits allow. Memory use is
// linear in the text: no construct repeats a value or calls a function.
absl::StatusOr<Graph> ParseGraph(absl::string_view text, const OpRegistry& registry,
                                 const GraphLimits& limits = {});

// `3`, `0.5`, `true`, `"SAME"`, `float`, `<2,?>`, `<*>`, `float<2>{1.0, 2.0}`, `@fn{a=1}`, `[1, 2]`
absl::StatusOr<AttrValue> ParseAttrValue(absl::string_view text);

// `{T=float, transpose_a=true}`; the empty text is the empty map.
absl::StatusOr<AttrMap> ParseAttrMap(absl::string_view text);

// `float<2,2>{1, 2.5, nan, -inf}`, `int32<>{3}`. Floating-point elements may be written as
// integers.
absl::StatusOr<Tensor> ParseTensorLiteral(absl::string_view text);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_TEXT_PARSER_H_
