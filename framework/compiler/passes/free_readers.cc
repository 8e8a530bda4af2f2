// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/passes/free_readers.h"

namespace mirrorflow {

absl::StatusOr<bool> FreeReaders::Run(Compilation& c) {
  const bool changed = !c.reader_edges.empty();
  for (const auto& [reader, write] : c.reader_edges) c.graph.RemoveControlEdge(reader, write);
  c.reader_edges.clear();
  return changed;
}

}  // namespace mirrorflow
