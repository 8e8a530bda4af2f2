// SPDX-License-Identifier: Apache-2.0
//
// Initializers compute the initial values of variables. Names and defaults are Keras':
//
//   layers::Dense(root, x, 128, ops::Relu, {.kernel_initializer = initializers::HeNormal()});
//
// Random values depend only on the session's seed and on the variable's name, so they are the same
// on any number of replicas.
#ifndef MIRRORFLOW_TRAIN_INITIALIZERS_H_
#define MIRRORFLOW_TRAIN_INITIALIZERS_H_

#include <functional>

#include "framework/graph/scope.h"

namespace mirrorflow {

// Adds nodes that compute a variable's initial value to a graph, and returns the value, which must
// have the given shape and dtype.
using Initializer = std::function<Output(const Scope&, const Shape&, DataType)>;

// Errors: if an argument is not finite or is out of range, creating the variable fails with
// InvalidArgument, naming the argument.
namespace initializers {

Initializer Zeros();
Initializer Ones();
// Sets all elements to `value`. It can be infinite, for example as the start of a running minimum,
// but not NaN.
Initializer Constant(double value);
// Sets the diagonal of a matrix to `gain` and everything else to 0.
// Errors:   InvalidArgument if the variable is not a matrix.
Initializer Identity(double gain = 1);

// Draws from the normal distribution with this mean and standard deviation (at least 0).
Initializer RandomNormal(double stddev = 0.05, double mean = 0);
// Like RandomNormal, but redraws values more than two standard deviations from the mean.
Initializer TruncatedNormal(double stddev = 0.05, double mean = 0);
// Draws from the uniform distribution on [minval, maxval), where minval <= maxval.
Initializer RandomUniform(double minval = -0.05, double maxval = 0.05);

// The divisor of the variance in VarianceScaling: the fan-in, the fan-out or their mean. A matrix
// [in, out] has fan-in `in` and fan-out `out`; for a filter [height, width, in, out], both are
// multiplied by height * width.
enum class Fan { kIn, kOut, kAverage };
enum class Distribution { kTruncatedNormal, kUntruncatedNormal, kUniform };

struct VarianceScalingOptions {
  double scale = 1;
  Fan mode = Fan::kIn;
  Distribution distribution = Distribution::kTruncatedNormal;
};

// Draws random values with mean 0 and variance scale / fan, where the fan is selected by `mode`.
// `distribution` selects a normal distribution, truncated at two standard deviations or not, or the
// uniform distribution on [-limit, limit) with limit = sqrt(3 * scale / fan).
// Errors:   InvalidArgument for a scale that is not positive.
Initializer VarianceScaling(const VarianceScalingOptions& options = {});

// VarianceScaling with scale 1 and Fan::kAverage.
// Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
// networks", 2010.
Initializer GlorotNormal();
Initializer GlorotUniform();
// VarianceScaling with scale 2 and Fan::kIn.
// Source: He et al., "Delving deep into rectifiers", 2015.
Initializer HeNormal();
Initializer HeUniform();
// VarianceScaling with scale 1 and Fan::kIn.
// Source: LeCun et al., "Efficient BackProp", 1998.
Initializer LecunNormal();
Initializer LecunUniform();

// Draws a random matrix with orthonormal columns (orthonormal rows, if it has fewer rows than
// columns) and multiplies it by `gain`. All dimensions except the last are flattened into the rows.
// Takes time proportional to rows * columns * min(rows, columns).
// Errors:   InvalidArgument for a variable with fewer than two dimensions.
// Source:   Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear
//           neural networks", 2014.
Initializer Orthogonal(double gain = 1);

}  // namespace initializers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_INITIALIZERS_H_
