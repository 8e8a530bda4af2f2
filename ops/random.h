// SPDX-License-Identifier: Apache-2.0
//
// Random tensors. An element depends only on the seed, the op's name, the step and the element's
// index in the global tensor, not on the number of replicas or on which replica computes it.
#ifndef MIRRORFLOW_OPS_RANDOM_H_
#define MIRRORFLOW_OPS_RANDOM_H_

#include <cstdint>

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

struct RandomOptions {
  // If either seed is not 0, these two seeds replace the seed of the strategy's options.
  int64_t seed = 0;
  int64_t seed2 = 0;
};

// Shapes:   `shape`, a vector, must be known when the step is compiled; the result has that shape.
// Dtypes:   half, bfloat16, float, double.
// Source:   Philox4x32-10 (Salmon et al., SC 2011); Box-Muller for the normal distribution. The
//           values differ from TensorFlow's.
// Gradient: none.
// Uniform in [0, 1).
Output RandomUniform(const Scope& scope, Output shape, DataType dtype,
                     const RandomOptions& options = {});
// Normal with mean 0 and standard deviation 1.
Output RandomStandardNormal(const Scope& scope, Output shape, DataType dtype,
                            const RandomOptions& options = {});
// Like RandomStandardNormal, but redraws values beyond two standard deviations.
Output TruncatedNormal(const Scope& scope, Output shape, DataType dtype,
                       const RandomOptions& options = {});

// Dropout: sets each element of x to 0 with probability `rate`, and divides all other elements by 1
// - rate. Like TensorFlow's tf.nn.dropout, it is built from other ops. The mask does not depend on
// the number of replicas. The op applies dropout whenever it runs, and ForInference
// (train/inference.h) keeps it: use layers::Dropout, which ForInference removes, in models that are
// also evaluated or served.
// Dtypes:   half, bfloat16, float, double.
// Errors:   InvalidArgument unless 0 <= rate < 1. A rate of 0 returns x itself.
Output Dropout(const Scope& scope, Output x, double rate, const RandomOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_RANDOM_H_
