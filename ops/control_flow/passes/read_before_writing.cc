// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow/passes/read_before_writing.h"

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "ops/gather_nd.h"

namespace mirrorflow {
namespace {

bool DependsOn(const Node& node, const Node& on) {
  absl::flat_hash_set<const Node*> seen = {&node};
  std::vector<const Node*> pending = {&node};
  auto visit = [&](const Node* before) {
    if (seen.insert(before).second) pending.push_back(before);
  };
  while (!pending.empty()) {
    const Node* at = pending.back();
    pending.pop_back();
    if (at == &on) return true;
    for (const Output& in : at->inputs()) visit(in.node);
    for (const Node* control : at->control_inputs()) visit(control);
  }
  return false;
}

}  // namespace

void ReadBeforeWriting(Compilation& body) {
  constexpr size_t kManyReaders = 16;
  for (Node* writer : body.graph.Nodes()) {
    if (writer->op().name != ops::kTensorScatterUpdate) continue;
    const Output rows = StripViews(writer->input(0));
    std::vector<Node*> readers, aliases = {rows.node};
    while (!aliases.empty() && readers.size() <= kManyReaders) {
      Node* alias = aliases.back();
      aliases.pop_back();
      for (const Use& use : alias->uses()) {
        const bool reads =
            use.slot != Use::kControl &&
            (alias != rows.node || alias->output(rows.index) == use.user->input(use.slot));
        if (!reads || use.user == writer) continue;
        (use.user->op().has(kView) ? aliases : readers).push_back(use.user);
        if (readers.size() > kManyReaders) break;
      }
    }
    if (readers.size() > kManyReaders) continue;  // copying is cheaper than adding this many edges
    for (Node* reader : readers) {
      if (reader->op().name == ops::kTensorScatterUpdate || DependsOn(*reader, *writer)) continue;
      body.graph.AddControlEdge(reader, writer);
    }
  }
}

}  // namespace mirrorflow
