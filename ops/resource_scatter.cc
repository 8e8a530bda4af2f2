// SPDX-License-Identifier: Apache-2.0
#include "ops/resource_scatter.h"

#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::Status ScatterShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(CheckHandle(c));
  const Shape &whole = c.handle_shape(0), &indices = c.input(1), &updates = c.input(2);
  if (whole.unknown_rank()) return absl::OkStatus();
  if (whole.rank() == 0) {
    return absl::InvalidArgumentError(
        "the variable must have at least one dimension, got a scalar");
  }
  if (indices.unknown_rank() || updates.unknown_rank() || updates.rank() == 0) {
    return absl::OkStatus();
  }
  Shape expected = indices;
  for (const int64_t d : whole.dims().subspan(1)) expected.AddDim(d);
  return CheckShape(expected, updates, "updates must be a scalar or have a row of variable ",
                    whole.ToString(), " for each of indices ", indices.ToString());
}

struct Row {
  const char* name;
  const char* doc;
  const char* dtype;
};

constexpr char kNumbers[] = "dtype: {half, bfloat16, float, double, int32, int64, uint8}";

constexpr Row kRows[] = {
    {"ResourceScatterAdd", "variable[indices] += updates", kNumbers},
    {"ResourceScatterDiv", "variable[indices] /= updates", kNumbers},
    {"ResourceScatterMax", "variable[indices] = max(variable[indices], updates)", kNumbers},
    {"ResourceScatterMin", "variable[indices] = min(variable[indices], updates)", kNumbers},
    {"ResourceScatterMul", "variable[indices] *= updates", kNumbers},
    {"ResourceScatterSub", "variable[indices] -= updates", kNumbers},
    {"ResourceScatterUpdate", "variable[indices] = updates", "dtype: type"},
};

}  // namespace

void RegisterResourceScatter(OpRegistry& ops) {
  for (const Row& row : kRows) {
    ops.Define(row.name)
        .Doc(row.doc)
        .Input("resource: resource")
        .Input("indices: Tindices")
        .Input("updates: dtype")
        .Attr(row.dtype)
        .Attr("Tindices: {int32, int64}")
        .Role(OpRole::kWrite)
        .Traits(kStateful)
        .Shape(ScatterShape)
        .Sharding(ReplicatedSharding)
        .NoGradient("a write has no outputs");
  }
}

namespace ops {

Operation ResourceScatterAdd(const Scope& scope, Output handle, Output indices, Output updates) {
  return Build(scope, "ResourceScatterAdd", {handle, indices, updates}).Op();
}
Operation ResourceScatterSub(const Scope& scope, Output handle, Output indices, Output updates) {
  return Build(scope, "ResourceScatterSub", {handle, indices, updates}).Op();
}
Operation ResourceScatterMul(const Scope& scope, Output handle, Output indices, Output updates) {
  return Build(scope, "ResourceScatterMul", {handle, indices, updates}).Op();
}
Operation ResourceScatterDiv(const Scope& scope, Output handle, Output indices, Output updates) {
  return Build(scope, "ResourceScatterDiv", {handle, indices, updates}).Op();
}
Operation ResourceScatterMin(const Scope& scope, Output handle, Output indices, Output updates) {
  return Build(scope, "ResourceScatterMin", {handle, indices, updates}).Op();
}
Operation ResourceScatterMax(const Scope& scope, Output handle, Output indices, Output updates) {
  return Build(scope, "ResourceScatterMax", {handle, indices, updates}).Op();
}
Operation ResourceScatterUpdate(const Scope& scope, Output handle, Output indices, Output updates) {
  return Build(scope, "ResourceScatterUpdate", {handle, indices, updates}).Op();
}

}  // namespace ops
}  // namespace mirrorflow
