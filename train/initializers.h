// SPDX-License-Identifier: Apache-2.0
//
// Initial values of variables, with Keras' names and defaults:
//
//   layers::Dense(root, x, 128, ops::Relu, {.kernel_initializer = initializers::HeNormal()});
//
// Random values depend on the seed of the session and on the name of the variable.
#ifndef MIRRORFLOW_TRAIN_INITIALIZERS_H_
#define MIRRORFLOW_TRAIN_INITIALIZERS_H_

#include <functional>

#include "framework/graph/scope.h"

namespace mirrorflow {

// Adds the initial value of a variable with this shape and dtype to a graph.
using Initializer = std::function<Output(const Scope&, const Shape&, DataType)>;

// Numbers must be finite and inside their ranges, or creating the variable is an InvalidArgument
// error that names the number.
namespace initializers {

Initializer Zeros();
Initializer Ones();
// `value` may be infinite, as the start of a running minimum, but not NaN.
Initializer Constant(double value);
// `gain` on the diagonal, 0 elsewhere. InvalidArgument unless the variable is a matrix.
Initializer Identity(double gain = 1);

// Normal with this mean and standard deviation, which is at least 0.
Initializer RandomNormal(double stddev = 0.05, double mean = 0);
// The same, drawn again where it is more than two standard deviations away from the mean.
Initializer TruncatedNormal(double stddev = 0.05, double mean = 0);
// Uniform in [minval, maxval), where minval <= maxval.
Initializer RandomUniform(double minval = -0.05, double maxval = 0.05);

// The inputs and outputs of a weight [in, out], or of a filter [height, width, in, out], where
// they are multiplied by height * width. `kAverage` is the mean of both.
enum class Fan { kIn, kOut, kAverage };
enum class Distribution { kTruncatedNormal, kUntruncatedNormal, kUniform };

struct VarianceScalingOptions {
  double scale = 1;
  Fan mode = Fan::kIn;
  Distribution distribution = Distribution::kTruncatedNormal;
};

// Variance scale / fan: a normal distribution with that variance, truncated at two standard
// deviations or not, or a uniform one in [-limit, limit], limit = sqrt(3 * scale / fan).
// Errors:   InvalidArgument for a scale that is not positive.
Initializer VarianceScaling(const VarianceScalingOptions& options = {});

// VarianceScaling with scale 1 and the average fan.
// Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
// networks", 2010.
Initializer GlorotNormal();
Initializer GlorotUniform();
// VarianceScaling with scale 2 and the fan of inputs.
// Source: He et al., "Delving deep into rectifiers", 2015.
Initializer HeNormal();
Initializer HeUniform();
// VarianceScaling with scale 1 and the fan of inputs.
// Source: LeCun et al., "Efficient BackProp", 1998.
Initializer LecunNormal();
Initializer LecunUniform();

// `gain` times a random matrix whose columns, or rows if there are fewer, are orthonormal. All
// dimensions but the last count as rows. It takes time proportional to rows * columns * the smaller
// of the two.
// Errors:   InvalidArgument for a variable of less than two dimensions.
// Source:   Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear
//           neural networks", 2014.
Initializer Orthogonal(double gain = 1);

}  // namespace initializers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_INITIALIZERS_H_
