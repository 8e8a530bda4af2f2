// SPDX-License-Identifier: Apache-2.0
//
// Includes the builders of all ops, which are functions in namespace mirrorflow::ops. A builder
// adds a node to the graph of `scope` and returns its outputs (or, for an op that runs only for its
// effect, an Operation):
//
//   Output y = ops::Relu(scope, ops::MatMul(scope, x, w));
//
// Names, attributes and defaults are TensorFlow's; a struct of options holds the attributes that
// have defaults. docs/ops has a page with the schema, sharding, gradient and kernels of each op.
//
// After an error, such as operands whose shapes do not match, a builder adds nothing and returns
// invalid outputs, as does every later builder on the same graph. Strategy::NewSession returns the
// first error, with the node's name, so a program need not check every call; Scope::status()
// returns it earlier. Some errors occur only when a step is compiled, because shapes are unknown
// before, or when it runs ("at run time" below). Step::Run returns these.
//
// Some operands, such as shapes, axes and permutations, must be "known when the step is compiled":
// they are constants, or are computed from constants, from the shapes of other values (ops::Shape)
// or from ops::NumReplicas, but not from the values of feeds or variables. If such an operand is
// not known then, Step::Run returns Unimplemented, naming the node.
//
// In the comments of builders, x [B,C] is an operand with these dimensions, R is the rank of the
// operand, and dy is the gradient of the result. `Sharding` matters only under a strategy; most ops
// need no such line.
#ifndef MIRRORFLOW_OPS_ALL_OPS_H_
#define MIRRORFLOW_OPS_ALL_OPS_H_

#include "ops/activation.h"
#include "ops/add_n.h"
#include "ops/arg_max.h"
#include "ops/assert.h"
#include "ops/attention.h"
#include "ops/avg_pool.h"
#include "ops/batch_norm.h"
#include "ops/bias_add.h"
#include "ops/binary.h"
#include "ops/binary_math.h"
#include "ops/bitcast.h"
#include "ops/bitwise.h"
#include "ops/broadcast_gradient.h"
#include "ops/cast.h"
#include "ops/check_numerics.h"
#include "ops/clip_by_value.h"
#include "ops/collectives.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/control_flow/control_flow.h"
#include "ops/control_flow/optional.h"
#include "ops/control_flow/tensor_list.h"
#include "ops/conv2d.h"
#include "ops/cumulative.h"
#include "ops/depthwise_conv2d.h"
#include "ops/dynamic_stitch.h"
#include "ops/einsum.h"
#include "ops/gather.h"
#include "ops/gather_nd.h"
#include "ops/gelu.h"
#include "ops/gradients.h"
#include "ops/identity.h"
#include "ops/l2_loss.h"
#include "ops/layer_norm.h"
#include "ops/list_diff.h"
#include "ops/matmul.h"
#include "ops/matrix_diag.h"
#include "ops/max_pool.h"
#include "ops/mirror_pad.h"
#include "ops/one_hot.h"
#include "ops/operators.h"
#include "ops/random.h"
#include "ops/reduction.h"
#include "ops/replica_index.h"
#include "ops/reshape.h"
#include "ops/resource_scatter.h"
#include "ops/reverse.h"
#include "ops/select.h"
#include "ops/shape_ops.h"
#include "ops/slice.h"
#include "ops/softmax.h"
#include "ops/softmax_xent.h"
#include "ops/space_to_batch.h"
#include "ops/split.h"
#include "ops/stateless_random.h"
#include "ops/strided_slice.h"
#include "ops/tile.h"
#include "ops/top_k.h"
#include "ops/transpose.h"
#include "ops/unary.h"
#include "ops/unary_grad.h"
#include "ops/unary_math.h"
#include "ops/update.h"
#include "ops/variable.h"

#endif  // MIRRORFLOW_OPS_ALL_OPS_H_
