// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/passes/drop_reader_edges.h"

namespace mirrorflow {

absl::StatusOr<bool> DropReaderEdges::Run(Compilation& c) {
  const bool changed = !c.reader_edges.empty();
  for (const auto& [reader, write] : c.reader_edges) c.graph.RemoveControlEdge(reader, write);
  c.reader_edges.clear();
  return changed;
}

}  // namespace mirrorflow
