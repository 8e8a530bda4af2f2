// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/compilation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/graph/text_form.h"

namespace mirrorflow {

void ShardingTable::Set(const Output& output, Sharding sharding) {
  const size_t id = output.node->id();
  if (IsReplicated(sharding) && (id >= rows_.size() || rows_[id].empty())) return;  // it is already
  if (id >= rows_.size()) rows_.resize(output.node->id() + 1);
  if (rows_[id].empty()) rows_[id].resize(output.node->num_outputs());
  rows_[id][output.index] = sharding;
}

void Compilation::ReplaceValue(Output from, Output to) {
  graph.ReplaceUses(from, to);
  std::replace(fetches.begin(), fetches.end(), from, to);
}

bool Compilation::RemoveDeadNodes() {
  std::vector<char> needed(graph.id_limit(), 0);
  std::vector<Node*> pending;
  auto need = [&](Node* node) {
    if (needed[node->id()]) return;
    needed[node->id()] = 1;
    pending.push_back(node);
  };
  // Feeds stay, used or not: they are the signature.
  for (const Output& feed : feeds) need(feed.node);
  for (const Output& fetch : fetches) need(fetch.node);
  for (Node* target : targets) need(target);
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    for (const Output& in : node->inputs()) need(in.node);
    for (Node* control : node->control_inputs()) need(control);
  }
  std::vector<Node*> dead;
  for (Node* node : graph.Nodes()) {
    if (!needed[node->id()]) dead.push_back(node);
  }
  // A dead node is used by dead nodes only; take those without uses first.
  std::vector<Node*> ready;
  for (Node* node : dead) {
    if (node->uses().empty()) ready.push_back(node);
  }
  while (!ready.empty()) {
    Node* node = ready.back();
    ready.pop_back();
    std::vector<Node*> inputs;
    for (const Output& in : node->inputs()) inputs.push_back(in.node);
    inputs.insert(inputs.end(), node->control_inputs().begin(), node->control_inputs().end());
    bodies.erase(node->id());
    graph.RemoveNode(node);
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    for (Node* in : inputs) {
      if (!needed[in->id()] && in->uses().empty()) ready.push_back(in);
    }
  }
  return !dead.empty();
}

bool Compilation::Communicates(const Node& node) const {
  if (node.op().role == OpRole::kCollective) return true;
  const auto it = bodies.find(node.id());
  return it != bodies.end() &&
         std::any_of(it->second.begin(), it->second.end(),
                     [](const auto& body) { return !body->collectives.empty(); });
}

namespace {

std::string ToText(const Compilation& state) {
  TextOptions options;
  options.omit_defaults = true;
  options.comment = [&state](const Node& node) {
    std::string comment;
    for (int i = 0; i < node.num_outputs(); ++i) {
      const Output output = node.output(i);
      if (output.dtype() == DT_RESOURCE) continue;
      absl::StrAppend(&comment, i > 0 ? "; " : "", state.values().shape(output).ToString(), " ",
                      ShardingToString(state.shardings.at(output)));
    }
    return comment;
  };
  std::string text = GraphToText(state.graph, options);
  for (const auto& [id, bodies] : state.bodies) {
    for (size_t i = 0; i < bodies.size(); ++i) {
      absl::StrAppend(&text, "# ", state.graph.node(id)->name(), ", function ", i, ":\n",
                      ToText(*bodies[i]));
    }
  }
  return text;
}

}  // namespace

std::string Program::ToString() const { return ToText(state); }

uint64_t Program::Fingerprint() const {
  // FNV-1a, 64 bits (Fowler, Noll, Vo).
  uint64_t hash = 14695981039346656037u;
  for (const char c : ToString()) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211u;
  }
  return hash;
}

}  // namespace mirrorflow
