// SPDX-License-Identifier: Apache-2.0
//
// Updates of some rows of a variable: what TensorFlow makes of the gradient of an embedding.
#ifndef MIRRORFLOW_OPS_RESOURCE_SCATTER_H_
#define MIRRORFLOW_OPS_RESOURCE_SCATTER_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterResourceScatter(OpRegistry& ops);

namespace ops {

// ResourceScatterAdd: variable[indices[i]] += updates[i] for each i, in order; an index may be
// there several times. Likewise Sub, Mul, Div, Min and Max, and Update, where the last one counts.
// Shapes:   updates [indices…, variable behind the first dimension…], or a scalar for all of them.
// Errors:   InvalidArgument for an index out of range; then nothing is written.
// Sharding: every replica updates with the indices of all of them.
Operation ResourceScatterAdd(const Scope& scope, Output handle, Output indices, Output updates);
Operation ResourceScatterSub(const Scope& scope, Output handle, Output indices, Output updates);
Operation ResourceScatterMul(const Scope& scope, Output handle, Output indices, Output updates);
Operation ResourceScatterDiv(const Scope& scope, Output handle, Output indices, Output updates);
Operation ResourceScatterMin(const Scope& scope, Output handle, Output indices, Output updates);
Operation ResourceScatterMax(const Scope& scope, Output handle, Output indices, Output updates);
Operation ResourceScatterUpdate(const Scope& scope, Output handle, Output indices, Output updates);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_RESOURCE_SCATTER_H_
