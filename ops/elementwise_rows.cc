// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise_rows.h"

#include "framework/core/status.h"
#include "framework/graph/list_info.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {
namespace {

absl::Status UnaryShape(ShapeContext& c) {
  c.set_output(0, c.input(0));
  if (c.node().output_dtype(0) == DT_VARIANT) {
    ListInfo list = ListInput(c, 0);
    list.common = Tensor();
    SetList(c, 0, list);
  }
  return absl::OkStatus();
}

absl::Status BinaryShape(ShapeContext& c) {
  const Shape &x = c.input(0), &y = c.input(1);
  const absl::StatusOr<Shape> both = BroadcastShapes(x, y);
  const bool any_shapes =
      c.node().has_attr("incompatible_shape_error") && !c.attr<bool>("incompatible_shape_error");
  if (!any_shapes) {
    if (!both.ok()) return both.status();
    c.set_output(0, *both);
  } else if (!both.ok()) {
    c.set_output(0, Shape());  // operands that do not broadcast compare unequal as a whole
  } else if (x.IsFullyDefined() && y.IsFullyDefined()) {
    c.set_output(0, *both);
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterUnaryRows(OpRegistry& ops, absl::Span<const UnaryRow> rows) {
  for (const UnaryRow& row : rows) {
    OpBuilder op = ops.Define(row.name);
    op.Doc(row.doc).Input(row.input).Output(row.output);
    if (row.dtypes != nullptr) op.Attr(row.dtypes);
    if (row.attr != nullptr) op.Attr(row.attr);
    op.Traits(kElementwise | row.traits).Shape(UnaryShape).Sharding(row.sharding);
    op.Gradient(row.gradient).NoGradient(row.no_gradient);
    op.MaxUlps(row.max_ulps);
    if (row.role != OpRole::kNone) op.Role(row.role);
  }
}

void RegisterBinaryRows(OpRegistry& ops, absl::Span<const BinaryRow> rows) {
  for (const BinaryRow& row : rows) {
    OpBuilder op = ops.Define(row.name);
    const bool typed = row.dtypes != nullptr;
    op.Doc(row.doc).Input(typed ? row.x : "x: bool").Input(typed ? row.y : "y: bool");
    const bool is_bool = row.result == BinaryRow::Result::kBool;
    op.Output(is_bool ? "z: bool" : row.z);
    if (typed) op.Attr(row.dtypes);
    if (row.attr != nullptr) op.Attr(row.attr);
    op.Traits(kElementwise | row.traits).Shape(BinaryShape).Sharding(row.sharding);
    op.Gradient(row.gradient).NoGradient(is_bool ? "the output is bool" : row.no_gradient);
  }
}

}  // namespace mirrorflow
