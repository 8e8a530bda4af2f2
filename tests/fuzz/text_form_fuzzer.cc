// SPDX-License-Identifier: Apache-2.0
//
// Reads a graph in text form or rejects it. A graph that has been read must round-trip through its
// text.
#include "framework/core/status.h"
#include "framework/graph/text_form.h"
#include "ops/registry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<Graph> graph = ParseGraph(text, AllOps());
  if (!graph.ok()) {
    MF_CHECK(graph.status().code() != absl::StatusCode::kInternal);
    return 0;
  }
  const std::string printed = GraphToText(*graph);
  const absl::StatusOr<Graph> again = ParseGraph(printed, AllOps());
  MF_CHECK(again.ok() && GraphToText(*again) == printed);
  return 0;
}
