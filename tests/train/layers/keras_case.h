// SPDX-License-Identifier: Apache-2.0
//
// Compares layers with stored Keras results (tests/references/make_layer_cases.py).
#ifndef MIRRORFLOW_TESTS_TRAIN_LAYERS_KERAS_CASE_H_
#define MIRRORFLOW_TESTS_TRAIN_LAYERS_KERAS_CASE_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

// A layer input. Its first dimension is the batch, whose size is unknown in the graph.
struct KerasInput {
  KerasInput(Shape shape) : shape(std::move(shape)) {}  // NOLINT: implicit; random values
  KerasInput(Shape shape, int64_t limit) : shape(std::move(shape)), limit(limit) {}

  Shape shape;
  int64_t limit = 0;  // if not 0, the values are random int32 numbers below this limit
};

struct KerasCase {
  std::string name;
  std::vector<KerasInput> inputs;
  std::function<Output(const Scope&, const std::vector<Output>& x)> build;
};

// Replaces the random factors of all dropouts in the graph, and returns y: the i-th dropout that
// was built multiplies its input by factors[i].
Output WithFactors(const Scope& scope, Output y, const std::vector<Output>& factors);

// Reads a family's stored arrays. The keys are array names.
absl::StatusOr<std::map<std::string, Tensor>> ReadKerasFamily(const std::string& family);

// Runs the case on the operands of make_layer_cases.py. Returns the differences from the stored
// output and gradients, one per line.
std::string DifferenceFromKeras(const KerasCase& c, const std::map<std::string, Tensor>& stored,
                                int replicas);

// Fails the test for each case that differs from Keras on 1 or 3 replicas, and for each stored case
// that is not in `cases`.
void ExpectMatchesKeras(const std::string& family, const std::vector<KerasCase>& cases);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_TRAIN_LAYERS_KERAS_CASE_H_
