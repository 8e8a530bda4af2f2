// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_SAME_SHAPE_H_
#define MIRRORFLOW_OPS_SAME_SHAPE_H_

#include "absl/strings/str_cat.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {

// Shape function of an op whose two operands and result have the same shape.
inline absl::Status SameShape(ShapeContext& c) {
  absl::StatusOr<Shape> shape = c.input(0).MergeWith(c.input(1));
  if (!shape.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        c.node().op().inputs[1].name, " must have the shape of ", c.node().op().inputs[0].name,
        "; expected ", c.input(0).ToString(), ", got ", c.input(1).ToString()));
  }
  c.set_output(0, *std::move(shape));
  return absl::OkStatus();
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_SAME_SHAPE_H_
