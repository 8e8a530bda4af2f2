// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/compilation.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/core/hash.h"
#include "framework/graph/text_form.h"

namespace mirrorflow {

void ShardingTable::Set(const Output& output, Sharding sharding) {
  const size_t id = output.node->id();
  if (IsReplicated(sharding) && (id >= rows_.size() || rows_[id].empty())) return;  // the default
  if (id >= rows_.size()) rows_.resize(output.node->id() + 1);
  if (rows_[id].empty()) rows_[id].resize(output.node->num_outputs());
  rows_[id][output.index] = sharding;
}

bool IsSplit(const Output& feed, const Shape& shape) {
  if (shape.rank() == 0) return false;
  if (!feed.node->has_attr("shape")) return true;
  const Shape& declared = feed.node->attr<Shape>("shape");
  return declared.unknown_rank() || (declared.rank() > 0 && declared.dim(0) == kUnknownDim);
}

bool Compilation::IsFetched(const Output& value) const {
  return absl::c_linear_search(fetches, value);
}

void Compilation::ReplaceValue(Output from, Output to) {
  graph.ReplaceUses(from, to);
  absl::c_replace(fetches, from, to);
}

void Compilation::ReplaceOperation(Node* from, Node* to) {
  graph.ReplaceControlUses(from, to);
  absl::c_replace(targets, from, to);
  absl::c_replace(collectives, from, to);
  for (auto& [reader, write] : reader_edges) {
    if (reader == from) reader = to;
    if (write == from) write = to;
  }
}

void Compilation::ReplaceNode(Node* node, const Output& value) {
  for (Node* control : node->control_inputs()) graph.AddControlEdge(control, value.node);
  ReplaceValue(node->output(0), value);
  ReplaceOperation(node, value.node);
}

bool Compilation::RemoveDeadNodes() {
  std::vector<Node*> wanted = targets;
  // Unused feeds are kept, because they are part of the signature.
  for (const Output& feed : feeds) wanted.push_back(feed.node);
  for (const Output& fetch : fetches) wanted.push_back(fetch.node);
  if (!graph.RemoveUnneeded(wanted)) return false;
  std::erase_if(bodies, [&](const auto& of_node) { return graph.node(of_node.first) == nullptr; });
  return true;
}

bool Compilation::Communicates(const Node& node) const {
  if (IsCollective(node)) return true;
  const auto it = bodies.find(node.id());
  return it != bodies.end() &&
         absl::c_any_of(it->second, [](const auto& body) { return !body->collectives.empty(); });
}

namespace {

std::string ToText(const Compilation& state) {
  const auto comment_on = [&state](const Node& node) {
    std::string comment;
    for (int i = 0; i < node.num_outputs(); ++i) {
      const Output output = node.output(i);
      if (output.dtype() == DT_RESOURCE) continue;
      absl::StrAppend(&comment, i > 0 ? "; " : "", state.values().shape(output).ToString(), " ",
                      ShardingToString(state.shardings.at(output)));
    }
    return comment;
  };
  std::string text = GraphToText(state.graph, {.omit_defaults = true, .comment = comment_on});
  for (const auto& [id, bodies] : state.bodies) {
    for (size_t i = 0; i < bodies.size(); ++i) {
      absl::StrAppend(&text, "# ", state.graph.node(id)->name(), ", function ", i, ":\n",
                      ToText(*bodies[i]));
    }
  }
  return text;
}

}  // namespace

std::string Compilation::ToString(int max_elements) const {
  return GraphToText(graph, {.omit_defaults = true, .max_elements = max_elements});
}

std::string Program::ToString() const { return ToText(state); }

uint64_t Program::Fingerprint() const { return StableHash(ToString()); }

}  // namespace mirrorflow
