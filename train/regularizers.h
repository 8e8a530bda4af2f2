// SPDX-License-Identifier: Apache-2.0
//
// Regularizers penalise the values of variables. Add the penalty to the loss:
//
//   loss = ops::AddV2(root, loss, RegularizationLoss(root, regularizers::L2(1e-4)));
#ifndef MIRRORFLOW_TRAIN_REGULARIZERS_H_
#define MIRRORFLOW_TRAIN_REGULARIZERS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

// Adds nodes that compute the penalty for `value`, a scalar, to a graph.
using Regularizer = std::function<Output(const Scope&, Output value)>;

// Names and defaults are Keras'. Factors must be finite and at least 0; otherwise, applying the
// regularizer fails with InvalidArgument.
namespace regularizers {

// l1 * sum(|x|)
Regularizer L1(double l1 = 0.01);
// l2 * sum(x²)
Regularizer L2(double l2 = 0.01);

struct L1L2Options {
  double l1 = 0;
  double l2 = 0;
};
// l1 * sum(|x|) + l2 * sum(x²)
Regularizer L1L2(const L1L2Options& options);

struct OrthogonalOptions {
  double factor = 0.01;
  bool columns = false;  // compares columns instead of rows
};
// factor * mean of |cos(a, b)| over all pairs of different rows a and b (or columns).
// Errors:   InvalidArgument unless the value is a matrix with at least two rows (or columns).
Regularizer OrthogonalRegularizer(const OrthogonalOptions& options = {});

}  // namespace regularizers

// Returns the handles of the trainable variables whose name ends in `name` after the last slash:
// `kernel` finds dense/kernel and conv2d/kernel.
std::vector<Output> TrainableVariablesNamed(const Graph& graph, absl::string_view name);

struct RegularizationOptions {
  // Handles of the variables to penalise. If empty, those that TrainableVariablesNamed(graph,
  // "kernel") returns at the time of the call.
  std::vector<Output> variables = {};
  std::string name = "regularization";
};

// Returns the sum of the variables' penalties, a float scalar. Add it to the loss. Build the layers
// before the call.
// Errors:   InvalidArgument if there are no variables to penalise.
Output RegularizationLoss(const Scope& scope, const Regularizer& regularizer,
                          const RegularizationOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_REGULARIZERS_H_
