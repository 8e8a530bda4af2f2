// SPDX-License-Identifier: Apache-2.0
//
// Ops that update selected rows of a variable. TensorFlow uses them to apply the gradient of an
// embedding.
#ifndef MIRRORFLOW_OPS_RESOURCE_SCATTER_H_
#define MIRRORFLOW_OPS_RESOURCE_SCATTER_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// ResourceScatterAdd: variable[indices[i]] += updates[i] for each i, in order; indices may repeat.
// Sub, Mul, Div, Min, Max and Update work in the same way; Update keeps the last write to a row.
// Shapes:   updates has the dimensions of indices, followed by those of the variable except the
//           first, or is one scalar for all rows.
// Errors:   InvalidArgument at run time if an index is out of range; nothing is then written.
// Sharding: every replica applies the updates of all replicas.
Operation ResourceScatterAdd(const Scope& scope, Output handle, Output indices, Output updates);
Operation ResourceScatterSub(const Scope& scope, Output handle, Output indices, Output updates);
Operation ResourceScatterMul(const Scope& scope, Output handle, Output indices, Output updates);
Operation ResourceScatterDiv(const Scope& scope, Output handle, Output indices, Output updates);
Operation ResourceScatterMin(const Scope& scope, Output handle, Output indices, Output updates);
Operation ResourceScatterMax(const Scope& scope, Output handle, Output indices, Output updates);
Operation ResourceScatterUpdate(const Scope& scope, Output handle, Output indices, Output updates);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_RESOURCE_SCATTER_H_
