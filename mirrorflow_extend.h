// SPDX-License-Identifier: Apache-2.0
//
// Adds user-defined ops, kernels and passes without changing the library: fill an Extensions
// object and pass it to a strategy. examples/custom_op.cc shows all three.
#ifndef MIRRORFLOW_MIRRORFLOW_EXTEND_H_
#define MIRRORFLOW_MIRRORFLOW_EXTEND_H_

#include "distribute/strategy/extensions.h"     // registries and passes that a strategy takes
#include "framework/compiler/pass.h"            // passes
#include "framework/graph/gradients.h"          // gradient functions
#include "framework/graph/op_registry.h"        // definitions of ops
#include "framework/graph/shape_inference.h"    // shape functions
#include "framework/graph/sharding.h"           // sharding rules
#include "framework/runtime/kernel_registry.h"  // kernels and their factories
#include "kernels/cuda/gpu_kernel.h"            // kernels for GPUs
#include "mirrorflow.h"
#include "ops/sharding_rules.h"  // rules that many ops share

#endif  // MIRRORFLOW_MIRRORFLOW_EXTEND_H_
