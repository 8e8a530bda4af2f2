// SPDX-License-Identifier: Apache-2.0
//
// Regularizers compute a penalty from the values of variables, such as the sum of their squares.
// Add the penalty to the loss before you pass the loss to Minimize:
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

// Adds nodes that compute the penalty for a variable's value to a graph. Returns the penalty, a
// scalar.
using Regularizer = std::function<Output(const Scope&, Output value)>;

// Names and defaults are Keras'. Each comment gives the penalty for the value x.
// Errors: InvalidArgument from RegularizationLoss if a factor is not finite or is negative.
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
  bool columns = false;  // whether to compare columns instead of rows
};
// factor * the mean of |cos(a, b)| over all pairs of different rows (or columns) a and b, where
// cos(a, b) is the cosine of the angle between them.
// Errors:   InvalidArgument unless the variable is a matrix with at least two rows (or columns).
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

// Returns the sum of the variables' penalties, a float scalar. Build the layers before the call.
// Errors:   InvalidArgument if there are no variables to penalise, and those of the regularizer.
Output RegularizationLoss(const Scope& scope, const Regularizer& regularizer,
                          const RegularizationOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_REGULARIZERS_H_
