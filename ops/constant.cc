// SPDX-License-Identifier: Apache-2.0
#include "ops/constant.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/reduced_float.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::Status ConstShape(ShapeContext& c) {
  const Tensor& value = c.attr<Tensor>("value");
  const DataType dtype = c.attr<DataType>("dtype");
  if (!value.has_value() || value.dtype() != dtype) {
    return absl::InvalidArgumentError(absl::StrCat("attribute 'value' must have dtype ",
                                                   DataTypeName(dtype), ", got ",
                                                   DataTypeName(value.dtype())));
  }
  c.set_constant(0, value);
  return absl::OkStatus();
}

// Returns true if T, an integer type, can represent the number exactly.
template <typename T>
bool IsWhole(double value) {
  // This is the largest T plus one, a power of two and therefore exact.
  const double limit = std::ldexp(1.0, std::numeric_limits<T>::digits);
  return value >= static_cast<double>(std::numeric_limits<T>::lowest()) && value < limit &&
         value == std::trunc(value);
}

}  // namespace

void RegisterConstant(OpRegistry& ops) {
  ops.Define("Const")
      .Doc("output = the attribute `value`")
      .Output("output: dtype")
      .Attr("value: tensor")
      .Attr("dtype: type")
      .Role(OpRole::kConstant)
      .Shape(ConstShape)
      .Sharding(ReplicatedSharding)  // a user that needs only some rows takes a local slice
      .NoGradient("it has no inputs");
}

namespace ops {

Output Const(const Scope& scope, Tensor value) {
  const DataType dtype = value.dtype();
  return Build(scope, "Const").Attr("value", std::move(value)).Attr("dtype", dtype).One();
}

Output ScalarConst(const Scope& scope, DataType dtype, double value) {
  Tensor scalar;
  if (IsReducedFloat(dtype)) {
    absl::StatusOr<Tensor> reduced = Tensor::Allocate(dtype, mirrorflow::Shape());
    if (reduced.ok()) {
      *reinterpret_cast<uint16_t*>(reduced->raw()) = ReducedFrom(dtype, value);
      return Const(scope, *std::move(reduced));
    }
  }
  DispatchDataType(
      dtype,
      [&]<typename T>(TypeTag<T>) {
        if (std::is_floating_point_v<T> || IsWhole<T>(value)) {
          scalar = Tensor::Scalar(static_cast<T>(value));
        }
        return true;
      },
      false);
  if (scalar.has_value()) return Const(scope, std::move(scalar));
  scope.Fail(absl::InvalidArgumentError(
      absl::StrCat("a scalar of dtype ", DataTypeName(dtype), " cannot hold ", value)));
  return Output();
}

Output OperandConst(const Scope& scope, absl::string_view operand, int64_t value) {
  return ScalarConst(scope.ForOperand(operand), DT_INT32, static_cast<double>(value));
}

Output VectorConst(const Scope& scope, absl::Span<const int64_t> values, DataType dtype) {
  if (dtype == DT_INT64) return Const(scope, Tensor::Vector<int64_t>(values));
  for (int64_t v : values) {
    if (dtype == DT_INT32 && v == static_cast<int32_t>(v)) continue;
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("a vector of dtype ", DataTypeName(dtype), " cannot hold ", v)));
    return Output();
  }
  return Const(scope, Tensor::Vector<int32_t>(std::vector<int32_t>(values.begin(), values.end())));
}

}  // namespace ops
}  // namespace mirrorflow
