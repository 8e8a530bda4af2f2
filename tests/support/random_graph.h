// SPDX-License-Identifier: Apache-2.0
//
// Random programs for one device and a global batch, including training steps, to compare the
// pipeline with the reference interpreter. All computation is in double precision, or on small
// integers in float, so different summation orders agree to 1e-9, but a wrong program does not.
#ifndef MIRRORFLOW_TESTS_SUPPORT_RANDOM_GRAPH_H_
#define MIRRORFLOW_TESTS_SUPPORT_RANDOM_GRAPH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

struct RandomProgram {
  Graph graph;
  int64_t batch = 0;  // rows of the sharded feeds
  std::vector<Output> feeds;
  std::vector<Tensor> values;  // of the feeds
  std::vector<Output> fetches;
  std::vector<Operation> targets;
};

struct RandomGraphOptions {
  int num_ops = 12;
  int64_t max_batch = 9;
  // If true, also adds explicit communication: of values in the graph, and of gradients in a
  // communication hook.
  bool communicates = false;
  // If true, also adds layers of convolutional networks in inference, which compute in float.
  bool has_layers = false;
};

// Returns a random program. The same seed gives the same program.
absl::StatusOr<RandomProgram> MakeRandomProgram(uint64_t seed, const RandomGraphOptions& options);

// Returns the number of programs for a test: MIRRORFLOW_RANDOM_PROGRAMS, or `otherwise` if it is
// not set. Set it higher for a long run, and lower if a sanitizer makes programs slow.
uint64_t NumRandomPrograms(uint64_t otherwise);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_RANDOM_GRAPH_H_
