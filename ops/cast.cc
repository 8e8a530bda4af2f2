// SPDX-License-Identifier: Apache-2.0
#include "ops/cast.h"

#include "absl/strings/str_cat.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

bool IsIndex(DataType dtype) { return dtype == DT_INT32 || dtype == DT_INT64; }

absl::Status CastShape(ShapeContext& c) {
  const DataType from = c.attr<DataType>("SrcT"), to = c.attr<DataType>("DstT");
  if (c.attr<bool>("Truncate") && IsFloating(from) && IsFloating(to) &&
      DataTypeSize(from) > DataTypeSize(to)) {
    return absl::UnimplementedError(
        absl::StrCat("attribute 'Truncate' is not supported for casts from ", DataTypeName(from),
                     " to ", DataTypeName(to), "; expected false, got true"));
  }
  c.set_output(0, c.input(0));
  // Propagates shapes, which are often cast between the two index types.
  if (IsIndex(from) && IsIndex(to) && c.input_info(0).as_shape.has_value()) {
    c.set_output_as_shape(0, *c.input_info(0).as_shape);
  }
  return absl::OkStatus();
}

// The op is linear only if the cast does not round: between equal dtypes and to a wider
// floating-point type. Casts of integers are not linear, because a sum can wrap around in one dtype
// but not in the other.
absl::StatusOr<ShardingRule> CastSharding(const ShardContext& c) {
  const DataType from = c.node().attr<DataType>("SrcT"), to = c.node().attr<DataType>("DstT");
  const bool widens = IsFloating(from) && IsFloating(to) && DataTypeSize(from) < DataTypeSize(to);
  const bool linear = from == to || widens;
  return linear ? JointlyLinearSharding(c) : ElementwiseSharding(c);
}

absl::StatusOr<std::vector<Output>> CastGrad(const GradContext& c) {
  const DataType from = c.op.attr<DataType>("SrcT"), to = c.op.attr<DataType>("DstT");
  if (!IsFloating(from) || !IsFloating(to)) return std::vector<Output>{Output()};
  return std::vector<Output>{ops::Cast(c.scope, c.dy[0], from)};
}

}  // namespace

void RegisterCast(OpRegistry& ops) {
  ops.Define("Cast")
      .Doc("y = x, converted to dtype DstT")
      .Input("x: SrcT")
      .Output("y: DstT")
      .Attr("SrcT: {half, bfloat16, float, double, int32, int64, uint8, uint32, uint64, bool}")
      .Attr("DstT: {half, bfloat16, float, double, int32, int64, uint8, uint32, uint64, bool}")
      .Attr("Truncate: bool = false")
      .Traits(kElementwise)
      .Shape(CastShape)
      .Sharding(CastSharding)
      .Gradient(CastGrad);
}

namespace ops {

Output Cast(const Scope& scope, Output x, DataType dtype, const CastOptions& options) {
  return Build(scope, "Cast", {x}).Attr("DstT", dtype).Attr("Truncate", options.truncate).One();
}

Output CastTo(const Scope& scope, Output x, DataType dtype) {
  return x.dtype() == dtype ? x : Cast(scope, x, dtype);
}

}  // namespace ops
}  // namespace mirrorflow
