// SPDX-License-Identifier: Apache-2.0
//
// Compares layers with stored results of Keras (tests/references/make_layer_cases.py).
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

// An input of a layer. Its first dimension is the batch, whose size the graph does not know.
struct KerasInput {
  KerasInput(Shape shape) : shape(std::move(shape)) {}  // NOLINT: random numbers
  KerasInput(Shape shape, int64_t limit) : shape(std::move(shape)), limit(limit) {}

  Shape shape;
  int64_t limit = 0;  // if not 0, the values are int32 below it
};

struct KerasCase {
  std::string name;
  std::vector<KerasInput> inputs;
  std::function<Output(const Scope&, const std::vector<Output>& x)> build;
};

// Replaces the random factors of each dropout below y, in the order in which they were built:
// multiplies the dropout's input by factors[i]. Returns y.
Output WithFactors(const Scope& scope, Output y, const std::vector<Output>& factors);

// Reads the stored arrays of a family, by name.
absl::StatusOr<std::map<std::string, Tensor>> ReadKerasFamily(const std::string& family);

// Runs the case and returns the differences from the stored output and gradients, one per line. The
// operands are those of make_layer_cases.py.
std::string DifferenceFromKeras(const KerasCase& c, const std::map<std::string, Tensor>& stored,
                                int replicas);

// Adds a failure for each case that differs on 1 or 3 replicas, and for each stored case that is
// not in `cases`.
void ExpectMatchesKeras(const std::string& family, const std::vector<KerasCase>& cases);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_TRAIN_LAYERS_KERAS_CASE_H_
