// SPDX-License-Identifier: Apache-2.0
//
// Random tensors. An element depends on its index in the global tensor, the step, the op's name and
// the seed, and on nothing else: not on the number of replicas, nor on who computes it.
#ifndef MIRRORFLOW_OPS_RANDOM_H_
#define MIRRORFLOW_OPS_RANDOM_H_

#include <cstdint>

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterRandom(OpRegistry& ops);

namespace ops {

struct RandomOptions {
  // Where one of them is not 0 they stand in for the session's seed.
  int64_t seed = 0;
  int64_t seed2 = 0;
};

// Shapes:   shape [R], a constant when a plan is made.
// Dtypes:   float, double.
// Source:   Philox4x32-10 (Salmon et al., SC 2011), Box and Muller for the normal ones. The numbers
//           are not TensorFlow's.
// In [0, 1).
Output RandomUniform(const Scope& scope, Output shape, DataType dtype,
                     const RandomOptions& options = {});
// Mean 0, standard deviation 1.
Output RandomStandardNormal(const Scope& scope, Output shape, DataType dtype,
                            const RandomOptions& options = {});
// The same; values beyond two standard deviations are drawn anew.
Output TruncatedNormal(const Scope& scope, Output shape, DataType dtype,
                       const RandomOptions& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_RANDOM_H_
