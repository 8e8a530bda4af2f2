// SPDX-License-Identifier: Apache-2.0
//
// Initial values of variables, with Keras' names and defaults:
//
//   layers::Dense(root, x, 128, ops::Relu, {.kernel_initializer = initializers::HeNormal()});
//
// Random values depend on the session's seed and on the name of the variable.
#ifndef MIRRORFLOW_TRAIN_INITIALIZERS_H_
#define MIRRORFLOW_TRAIN_INITIALIZERS_H_

#include <functional>

#include "framework/graph/scope.h"

namespace mirrorflow {

// Adds the initial value of a variable of this shape and dtype to a graph.
using Initializer = std::function<Output(const Scope&, const Shape&, DataType)>;

// Numbers must be finite and within their ranges. Otherwise, creating the variable fails with
// InvalidArgument, naming the number.
namespace initializers {

Initializer Zeros();
Initializer Ones();
// `value` may be infinite, for example as the start of a running minimum, but not NaN.
Initializer Constant(double value);
// `gain` on the diagonal, 0 elsewhere. InvalidArgument unless the variable is a matrix.
Initializer Identity(double gain = 1);

// Normal distribution with this mean and standard deviation, which must be at least 0.
Initializer RandomNormal(double stddev = 0.05, double mean = 0);
// RandomNormal, but redraws values more than two standard deviations from the mean.
Initializer TruncatedNormal(double stddev = 0.05, double mean = 0);
// Uniform in [minval, maxval), where minval <= maxval.
Initializer RandomUniform(double minval = -0.05, double maxval = 0.05);

// The number of inputs and outputs of a weight [in, out], or of a filter [height, width, in, out],
// for which both are multiplied by height * width. `kAverage` is their mean.
enum class Fan { kIn, kOut, kAverage };
enum class Distribution { kTruncatedNormal, kUntruncatedNormal, kUniform };

struct VarianceScalingOptions {
  double scale = 1;
  Fan mode = Fan::kIn;
  Distribution distribution = Distribution::kTruncatedNormal;
};

// Random values with variance scale / fan: from a normal distribution, truncated at two standard
// deviations or not, or uniform in [-limit, limit] with limit = sqrt(3 * scale / fan).
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

// `gain` times a random matrix with orthonormal columns or, if it has fewer rows than columns,
// orthonormal rows. All dimensions but the last count as rows. Takes time proportional to
// rows * columns * min(rows, columns).
// Errors:   InvalidArgument for a variable with fewer than two dimensions.
// Source:   Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear
//           neural networks", 2014.
Initializer Orthogonal(double gain = 1);

}  // namespace initializers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_INITIALIZERS_H_
