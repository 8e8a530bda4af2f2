// SPDX-License-Identifier: Apache-2.0
//
// Reads a GraphDef and, unless it is rejected, compiles and runs all of it on one or two replicas,
// with a small memory budget and a deadline.
#include <google/protobuf/stubs/logging.h>

#include "framework/core/status.h"
#include "framework/graph/graph_def.h"
#include "ops/registry.h"
#include "tests/support/mutate_graph.h"
#include "tests/support/run_all.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  const google::protobuf::LogSilencer silencer;  // protobuf logs non-UTF-8 strings
  proto::GraphDef def;
  if (!def.ParseFromArray(data, static_cast<int>(size))) return 0;
  constexpr int64_t kMaxBytes = 16 << 20;
  const absl::StatusOr<Graph> graph =
      FromGraphDef(def, AllOps(), {.max_nodes = 10000, .max_bytes = kMaxBytes});
  absl::Status status = graph.status();
  if (graph.ok()) {
    // The input selects one or two replicas, so each input runs only once.
    status = RunAll(*graph, {.replicas = 1 + def.node_size() % 2,
                             .max_bytes = kMaxBytes,
                             .step_timeout = absl::Seconds(5)});
  }
  MF_CHECK(status.code() != absl::StatusCode::kInternal);
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Random bytes are seldom a valid GraphDef, so every other mutation changes the parsed message
// instead.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  using namespace mirrorflow;
  const google::protobuf::LogSilencer silencer;
  proto::GraphDef def;
  if (seed % 2 == 0 && def.ParseFromArray(data, static_cast<int>(size))) {
    GraphMutator(seed).Message(def);
    if (def.ByteSizeLong() <= max_size && def.SerializeToArray(data, static_cast<int>(max_size))) {
      return def.ByteSizeLong();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
