// SPDX-License-Identifier: Apache-2.0
//
// Variables with an initial value, and the values that networks start from.
#ifndef MIRRORFLOW_TRAIN_VARIABLE_H_
#define MIRRORFLOW_TRAIN_VARIABLE_H_

#include <functional>
#include <vector>

#include "framework/graph/scope.h"

namespace mirrorflow {

// Makes the initial value of a variable of this shape.
using Initializer = std::function<Output(const Scope&, const Shape&, DataType)>;

namespace initializers {

Initializer Zeros();
Initializer Ones();
Initializer Constant(double value);
// Normal with this standard deviation.
Initializer RandomNormal(double deviation);
// Uniform in [-limit, limit], limit = sqrt(6 / (fan_in + fan_out)).
// Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
// networks", 2010.
Initializer GlorotUniform();
// Normal with standard deviation sqrt(2 / fan_in), cut at two standard deviations.
// Source: He et al., "Delving deep into rectifiers", 2015.
Initializer HeNormal();
// Uniform in [-limit, limit], limit = sqrt(6 / fan_in). Source: the same.
Initializer HeUniform();

}  // namespace initializers

// The attribute of the handle of a variable that optimizers leave alone.
inline constexpr char kNotTrainableAttr[] = "_not_trainable";

// The attribute of the handle of a variable that every step of training moves, as it does a moving
// average: the output (`node:1`) that is its value after the step.
inline constexpr char kNextValueAttr[] = "_next_value";

struct Variable {
  Output handle;
  Output value;  // its value before the step
};

// When the copies of a variable are brought together (TensorFlow's VariableSynchronization).
enum class VariableSynchronization {
  kOnWrite,  // all copies are equal after every step
  // Each replica adds to its own copy, and a read sees the sum of all (aggregation SUM): gradients
  // accumulated over several steps, metrics. Assignments only, and no optimizer may update it.
  kOnRead,
};

struct VariableOptions {
  // False: optimizers leave it alone.
  bool trainable = true;
  VariableSynchronization synchronization = VariableSynchronization::kOnWrite;
};

// A variable called `name` in `scope`, which starts as `initializer` makes it. It is mirrored if it
// is created inside a strategy's scope().
Variable CreateVariable(const Scope& scope, absl::string_view name, const Shape& shape,
                        const Initializer& initializer, DataType dtype = DT_FLOAT,
                        const VariableOptions& options = {});

// The handles of all trainable variables of the graph, in order of creation.
std::vector<Output> TrainableVariables(const Graph& graph);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_VARIABLE_H_
