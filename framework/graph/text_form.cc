// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/text_form.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/graph/creation_scope.h"

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

}  // namespace mirrorflow
