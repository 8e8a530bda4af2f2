// SPDX-License-Identifier: Apache-2.0
//
// The builders of all ops, in namespace mirrorflow::ops.
#ifndef MIRRORFLOW_OPS_OPS_H_
#define MIRRORFLOW_OPS_OPS_H_

#include "ops/add_n.h"
#include "ops/arg_max.h"
#include "ops/avg_pool.h"
#include "ops/bias_add.h"
#include "ops/binary.h"
#include "ops/broadcast_gradient.h"
#include "ops/cast.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/conv2d.h"
#include "ops/dropout.h"
#include "ops/gather.h"
#include "ops/gradients.h"
#include "ops/identity.h"
#include "ops/matmul.h"
#include "ops/max_pool.h"
#include "ops/random.h"
#include "ops/reduction.h"
#include "ops/replica_index.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/shape_ops.h"
#include "ops/slice.h"
#include "ops/softmax.h"
#include "ops/softmax_xent.h"
#include "ops/strided_slice.h"
#include "ops/tile.h"
#include "ops/transpose.h"
#include "ops/unary.h"
#include "ops/unary_grad.h"
#include "ops/update.h"
#include "ops/variable.h"

#endif  // MIRRORFLOW_OPS_OPS_H_
