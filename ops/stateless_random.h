// SPDX-License-Identifier: Apache-2.0
//
// Random tensors from seeds that are operands: equal operands give equal numbers, TensorFlow's of
// its CPU, bit by bit. An element depends on them and on its index in the global tensor alone, so
// any number of replicas draws the same.
#ifndef MIRRORFLOW_OPS_STATELESS_RANDOM_H_
#define MIRRORFLOW_OPS_STATELESS_RANDOM_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterStatelessRandom(OpRegistry& ops);

namespace ops {

// A place in a random stream: a key [1] and a counter [2] of uint64.
struct KeyCounter {
  Output key;
  Output counter;
};

// StatelessRandomGetKeyCounter: that of two seeds [2] of int32 or int64.
KeyCounter StatelessRandomGetKeyCounter(const Scope& scope, Output seed);
// StatelessRandomGetAlg: the number of the algorithm, 1: Philox.
Output StatelessRandomGetAlg(const Scope& scope);

// Shapes:   shape [R], a constant when a plan is made; seed [2], of int32 or int64; alg, minval and
//           maxval scalars.
// Errors:   InvalidArgument at run time for an alg other than 1 (Philox) and 3 (any), and where
//           minval is not below maxval.
// Source:   Philox4x32-10 (Salmon et al., SC 2011), Box and Muller for the normal ones.

// In [0, 1), in a floating dtype.
Output StatelessRandomUniform(const Scope& scope, Output shape, Output seed, DataType dtype);
Output StatelessRandomUniformV2(const Scope& scope, Output shape, const KeyCounter& from,
                                Output alg, DataType dtype);
// Mean 0, standard deviation 1.
Output StatelessRandomNormal(const Scope& scope, Output shape, Output seed, DataType dtype);
Output StatelessRandomNormalV2(const Scope& scope, Output shape, const KeyCounter& from, Output alg,
                               DataType dtype);
// The same; values beyond two standard deviations are left out.
Output StatelessTruncatedNormal(const Scope& scope, Output shape, Output seed, DataType dtype);
Output StatelessTruncatedNormalV2(const Scope& scope, Output shape, const KeyCounter& from,
                                  Output alg, DataType dtype);
// In [minval, maxval), of int32 or int64 as they are.
Output StatelessRandomUniformInt(const Scope& scope, Output shape, Output seed, Output minval,
                                 Output maxval);
Output StatelessRandomUniformIntV2(const Scope& scope, Output shape, const KeyCounter& from,
                                   Output alg, Output minval, Output maxval);
// Of all numbers of int32, int64, uint32 or uint64.
Output StatelessRandomUniformFullInt(const Scope& scope, Output shape, Output seed, DataType dtype);
Output StatelessRandomUniformFullIntV2(const Scope& scope, Output shape, const KeyCounter& from,
                                       Output alg, DataType dtype);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_STATELESS_RANDOM_H_
