// SPDX-License-Identifier: Apache-2.0
//
// Random mutations of graphs, for tests of untrusted input.
#ifndef MIRRORFLOW_TESTS_SUPPORT_MUTATE_GRAPH_H_
#define MIRRORFLOW_TESTS_SUPPORT_MUTATE_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "framework/proto/graph.pb.h"

namespace mirrorflow {

// Makes the same changes for the same seed, in every process.
class GraphMutator {
 public:
  explicit GraphMutator(uint64_t seed) : random_(seed) {}

  size_t Below(size_t n) { return n == 0 ? 0 : random_() % n; }

  // Changes, removes or repeats a few bytes. `bytes` must not be empty.
  std::string Bytes(std::string bytes);
  // Changes a few nodes of the graph or of a function. The result is still a GraphDef, so the
  // parser accepts it.
  void Message(proto::GraphDef& def);

 private:
  void Number(proto::AttrValue& value);

  std::mt19937_64 random_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_MUTATE_GRAPH_H_
