// SPDX-License-Identifier: Apache-2.0
//
// Penalties on the values of variables, to be added to a loss:
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

// Adds the penalty on a value to a graph. The penalty is a scalar.
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
  bool columns = false;  // compare columns instead of rows
};
// factor * mean of |cos(a, b)| over all pairs of different rows a and b.
// Errors:   InvalidArgument unless the value is a matrix with at least two rows.
Regularizer OrthogonalRegularizer(const OrthogonalOptions& options = {});

}  // namespace regularizers

// Returns the handles of the trainable variables whose name, after the last slash, is `name`:
// `kernel` finds dense/kernel and conv2d/kernel.
std::vector<Output> TrainableVariablesNamed(const Graph& graph, absl::string_view name);

struct RegularizationOptions {
  // Handles of the variables to penalise. Empty: TrainableVariablesNamed(graph, "kernel"), at the
  // time of the call.
  std::vector<Output> variables = {};
  std::string name = "regularization";
};

// Returns the sum of the penalties on the variables, a float scalar, to be added to the loss. Call
// it after the layers have been built.
// Errors:   InvalidArgument if there are no variables.
Output RegularizationLoss(const Scope& scope, const Regularizer& regularizer,
                          const RegularizationOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_REGULARIZERS_H_
