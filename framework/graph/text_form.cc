// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/text_form.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/graph/creation_scope.h"
#include "framework/graph/graph_assembler.h"
#include "framework/graph/literal_parser.h"
#include "framework/graph/variable_handle.h"

namespace mirrorflow {
namespace {

AttrMap ShownAttrs(const Node& node, bool omit_defaults) {
  AttrMap shown;
  for (const auto& [name, value] : node.attrs()) {
    if (name == kCreationScopeAttr) continue;
    const AttrDef* def = omit_defaults ? node.op().FindAttr(name) : nullptr;
    if (def == nullptr || def->default_value != value) shown.emplace(name, value);
  }
  return shown;
}

// Accepts a comment or the end of the line.
absl::Status ExpectEndOfLine(LiteralParser& line) {
  return line.NextIs('#') || line.AtEnd() ? absl::OkStatus()
                                          : line.Expected("a comment or the end of the line");
}

// Parses `@fn = "serialized FunctionDef"`, or the library's gradients, which have no name.
absl::Status ParseFunction(LiteralParser& line, FunctionLibrary* functions) {
  MF_RETURN_IF_ERROR(line.Expect('@'));
  MF_ASSIGN_OR_RETURN(const std::string name, line.FunctionName());
  MF_RETURN_IF_ERROR(line.Expect('='));
  MF_ASSIGN_OR_RETURN(std::string value, line.QuotedString());
  MF_RETURN_IF_ERROR(ExpectEndOfLine(line));
  if (!name.empty()) return functions->Add(name, std::move(value));
  functions->set_gradients(std::move(value));
  return absl::OkStatus();
}

// Parses `name = Op(in0, in1:1, ^control) {attr=value, …}`.
absl::StatusOr<NodeRecord> ParseNode(LiteralParser& line) {
  NodeRecord record;
  MF_ASSIGN_OR_RETURN(record.name, line.Word("a node name"));
  MF_RETURN_IF_ERROR(line.Expect('='));
  MF_ASSIGN_OR_RETURN(record.op, line.Word("an op name"));
  MF_RETURN_IF_ERROR(line.Expect('('));
  if (!line.Consume(')')) {
    do {
      MF_ASSIGN_OR_RETURN(record.inputs.emplace_back(), line.Input());
    } while (line.Consume(','));
    if (!line.Consume(')')) return line.Expected("',' or ')'");
  }
  if (line.NextIs('{')) {
    MF_ASSIGN_OR_RETURN(record.attrs, line.Attrs());
  }
  MF_RETURN_IF_ERROR(ExpectEndOfLine(line));
  return record;
}

}  // namespace

std::string StrategyOfVariable(const Node& node) {
  const auto scope = node.attrs().find(kCreationScopeAttr);
  if (scope == node.attrs().end()) return "";
  const std::string* strategy = scope->second.get_if<std::string>();
  if (strategy == nullptr || strategy->empty()) return "";
  return absl::StrCat("in the scope of ", *strategy);
}

std::string GraphToText(const Graph& graph, const TextOptions& options) {
  std::string text;
  for (const auto& [name, function_def] : graph.functions().functions()) {
    absl::StrAppend(&text, AttrValue(FunctionRef{name, {}}).ToString(), " = \"",
                    absl::CHexEscape(function_def), "\"\n");
  }
  if (!graph.functions().gradients().empty()) {
    absl::StrAppend(&text, "@ = \"", absl::CHexEscape(graph.functions().gradients()), "\"\n");
  }
  const absl::StatusOr<std::vector<Node*>> order = TopologicalOrder(graph);
  for (const Node* node : order.ok() ? *order : graph.Nodes()) {
    const std::string attrs =
        AttrMapToString(ShownAttrs(*node, options.omit_defaults), options.max_elements);
    absl::StrAppend(&text, node->CallString(), attrs.empty() ? "" : " ", attrs);
    const std::string comment = options.comment ? options.comment(*node) : "";
    if (!comment.empty()) {
      absl::StrAppend(&text, "  # ", absl::StrReplaceAll(comment, {{"\n", " "}}));
    }
    text += '\n';
  }
  return text;
}

absl::StatusOr<Graph> ParseGraph(absl::string_view text, const OpRegistry& registry,
                                 const GraphLimits& limits) {
  std::vector<NodeRecord> records;
  FunctionLibrary functions;
  ErrorList errors;
  int number = 0;
  for (absl::string_view row : absl::StrSplit(text, '\n')) {
    LiteralParser line(row, ++number);
    if (line.AtEnd() || line.NextIs('#')) continue;
    if (line.NextIs('@')) {
      const absl::Status status = ParseFunction(line, &functions);
      if (!status.ok()) errors.Add(status.message());
      continue;
    }
    absl::StatusOr<NodeRecord> record = ParseNode(line);
    if (!record.ok()) {
      errors.Add(record.status().message());
      continue;
    }
    if (static_cast<int64_t>(records.size()) == limits.max_nodes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "line ", number, ": ", Printable(record->op), "(", Printable(record->name),
          "): the graph is too large; expected at most ", limits.max_nodes, " nodes, got more"));
    }
    record->where = absl::StrCat("line ", number, ": ");
    records.push_back(*std::move(record));
  }
  // Stops here, because a line that cannot be parsed would cause errors for all users of its node.
  MF_RETURN_IF_ERROR(errors.ToStatus());
  return AssembleGraph(std::move(records), std::move(functions), registry);
}

}  // namespace mirrorflow
