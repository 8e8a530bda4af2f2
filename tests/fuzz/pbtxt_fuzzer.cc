// SPDX-License-Identifier: Apache-2.0
//
// Reads a GraphDef in protobuf's text format and converts it to a graph, or rejects it with an
// error that names its path.
#include "absl/strings/match.h"
#include "framework/core/status.h"
#include "framework/graph/graph_file.h"
#include "ops/registry.h"
#include "tests/fuzz/in_memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  const InMemoryFile file(data, size, ".pbtxt");
  const absl::StatusOr<Graph> graph =
      ReadGraphFile(file.path(), AllOps(), {.max_nodes = 10000, .max_bytes = 16 << 20});
  if (graph.ok()) {
    MF_CHECK(graph->num_nodes() <= 10000);
  } else {
    MF_CHECK(graph.status().code() != absl::StatusCode::kInternal);
    MF_CHECK(absl::StartsWith(graph.status().message(), file.path()));
  }
  return 0;
}
