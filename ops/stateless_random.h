// SPDX-License-Identifier: Apache-2.0
//
// Random tensors whose seeds are operands. Equal operands give equal results, which match
// TensorFlow's on a CPU bit for bit. An element depends only on the operands and on its index in
// the global tensor, so the result does not depend on the number of replicas.
#ifndef MIRRORFLOW_OPS_STATELESS_RANDOM_H_
#define MIRRORFLOW_OPS_STATELESS_RANDOM_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// A position in a random stream: a key [1] and a counter [2], both uint64.
struct KeyCounter {
  Output key;
  Output counter;
};

// StatelessRandomGetKeyCounter: the position for a pair of seeds, int32 or int64 [2].
KeyCounter StatelessRandomGetKeyCounter(const Scope& scope, Output seed);
// StatelessRandomGetAlg: the number of the algorithm, which is 1 (Philox).
Output StatelessRandomGetAlg(const Scope& scope);

// Shapes:   `shape`, a vector, must be known when the step is compiled; the result has that shape.
//           `seed` is [2], int32 or int64; alg, minval and maxval are scalars.
// Errors:   InvalidArgument at run time if alg is neither 1 (Philox) nor 3 (automatic), or if
//           minval is not below maxval.
// Gradient: none.
// Source:   Philox4x32-10 (Salmon et al., SC 2011); Box-Muller for the normal distribution.

// Uniform in [0, 1), in a floating-point dtype.
Output StatelessRandomUniform(const Scope& scope, Output shape, Output seed, DataType dtype);
Output StatelessRandomUniformV2(const Scope& scope, Output shape, const KeyCounter& from,
                                Output alg, DataType dtype);
// Normal with mean 0 and standard deviation 1.
Output StatelessRandomNormal(const Scope& scope, Output shape, Output seed, DataType dtype);
Output StatelessRandomNormalV2(const Scope& scope, Output shape, const KeyCounter& from, Output alg,
                               DataType dtype);
// Like StatelessRandomNormal, but values beyond two standard deviations are skipped.
Output StatelessTruncatedNormal(const Scope& scope, Output shape, Output seed, DataType dtype);
Output StatelessTruncatedNormalV2(const Scope& scope, Output shape, const KeyCounter& from,
                                  Output alg, DataType dtype);
// Uniform in [minval, maxval), in their dtype: int32 or int64; V2 also takes uint32 and uint64.
Output StatelessRandomUniformInt(const Scope& scope, Output shape, Output seed, Output minval,
                                 Output maxval);
Output StatelessRandomUniformIntV2(const Scope& scope, Output shape, const KeyCounter& from,
                                   Output alg, Output minval, Output maxval);
// Uniform over all values of int32, int64, uint32 or uint64.
Output StatelessRandomUniformFullInt(const Scope& scope, Output shape, Output seed, DataType dtype);
Output StatelessRandomUniformFullIntV2(const Scope& scope, Output shape, const KeyCounter& from,
                                       Output alg, DataType dtype);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_STATELESS_RANDOM_H_
