// SPDX-License-Identifier: Apache-2.0
//
// Random changes of graphs from outside, and what a stranger's graph can do: run.
#ifndef MIRRORFLOW_TESTS_SUPPORT_MUTATE_GRAPH_H_
#define MIRRORFLOW_TESTS_SUPPORT_MUTATE_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "framework/proto/graph.pb.h"

namespace mirrorflow {

// The same changes for the same seed, in every process.
class GraphMutator {
 public:
  explicit GraphMutator(uint64_t seed) : random_(seed) {}

  size_t Below(size_t n) { return n == 0 ? 0 : random_() % n; }

  // A few bytes changed, removed or repeated. `bytes` is not empty.
  std::string Bytes(std::string bytes);
  // A few nodes of the graph or of a function changed: stays a GraphDef, and so comes further.
  void Message(proto::GraphDef& def);

 private:
  void Number(proto::AttrValue& value);

  std::mt19937_64 random_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_MUTATE_GRAPH_H_
