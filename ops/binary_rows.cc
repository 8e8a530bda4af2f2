// SPDX-License-Identifier: Apache-2.0
#include "ops/binary_rows.h"

#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

absl::Status BinaryShape(ShapeContext& c) {
  const Shape &x = c.input(0), &y = c.input(1);
  const absl::StatusOr<Shape> both = BroadcastShapes(x, y);
  const bool any_shapes =
      c.node().has_attr("incompatible_shape_error") && !c.attr<bool>("incompatible_shape_error");
  if (!any_shapes) {
    if (!both.ok()) return both.status();
    c.set_output(0, *both);
  } else if (!both.ok()) {
    c.set_output(0, Shape());  // the operands are unequal as a whole
  } else if (x.IsFullyDefined() && y.IsFullyDefined()) {
    c.set_output(0, *both);
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterBinaryRows(OpRegistry& ops, absl::Span<const BinaryRow> rows) {
  for (const BinaryRow& row : rows) {
    OpBuilder op = ops.Define(row.name);
    const bool typed = row.dtypes != nullptr;
    op.Doc(row.doc).Input(typed ? row.x : "x: bool").Input(typed ? row.y : "y: bool");
    op.Output(row.result == BinaryRow::Result::kBool ? "z: bool" : row.z);
    if (typed) op.Attr(row.dtypes);
    if (row.attr != nullptr) op.Attr(row.attr);
    op.Traits(kElementwise | row.traits).Shape(BinaryShape).Sharding(row.sharding);
    op.Gradient(row.gradient).NoGradient(row.no_gradient);
  }
}

}  // namespace mirrorflow
