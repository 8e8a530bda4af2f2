// SPDX-License-Identifier: Apache-2.0
#include "ops/unary_rows.h"

#include "framework/graph/list_info.h"
#include "ops/registry.h"

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

}  // namespace

void RegisterUnaryRows(OpRegistry& ops, absl::Span<const UnaryRow> rows) {
  for (const UnaryRow& row : rows) {
    OpBuilder op = ops.Define(row.name);
    op.Doc(row.doc).Input(row.input).Output(row.output);
    if (row.dtypes != nullptr) op.Attr(row.dtypes);
    if (row.attr != nullptr) op.Attr(row.attr);
    op.Traits(kElementwise | row.traits).Shape(UnaryShape).Sharding(row.sharding);
    op.Gradient(row.gradient).NoGradient(row.no_gradient);
    if (row.role != OpRole::kNone) op.Role(row.role);
  }
}

}  // namespace mirrorflow
