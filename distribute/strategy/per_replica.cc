// SPDX-License-Identifier: Apache-2.0
//
// Strategy::Reduce and Strategy::Gather, which combine the replicas' values on the host.
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/strategy/strategy.h"
#include "framework/core/status.h"
#include "framework/runtime/reduce_in_rank_order.h"

namespace mirrorflow {
namespace {

absl::Status CheckAlike(absl::Span<const Tensor> values, int free_axis) {
  if (values.empty()) return absl::InvalidArgumentError("expected at least one value, got none");
  auto comparable = [&](const Tensor& t) {
    Shape shape = t.shape();
    if (free_axis >= 0 && free_axis < shape.rank()) shape.set_dim(free_axis, 0);
    return shape;
  };
  for (const Tensor& value : values) {
    if (value.dtype() != values[0].dtype() || comparable(value) != comparable(values[0])) {
      return absl::InvalidArgumentError(
          absl::StrCat("the replicas' values differ; expected the same dtype and shape, got ",
                       DataTypeName(values[0].dtype()), values[0].shape().ToString(), " and ",
                       DataTypeName(value.dtype()), value.shape().ToString()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> Strategy::Reduce(Reduction reduction, absl::Span<const Tensor> per_replica) {
  MF_RETURN_IF_ERROR(CheckAlike(per_replica, -1));
  const bool supported = reduction == Reduction::kSum || reduction == Reduction::kMean ||
                         reduction == Reduction::kMax || reduction == Reduction::kMin;
  const DataType dtype = per_replica[0].dtype();
  const bool is_number = IsFloating(dtype) || dtype == DT_INT32 || dtype == DT_INT64;
  if (!supported || !is_number) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the replicas' values cannot be reduced; expected a floating-point type, int32 "
        "or int64, and sum, mean, max or min, got ",
        DataTypeName(dtype), " and ", ReductionName(reduction)));
  }
  MF_ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(dtype, per_replica[0].shape()));
  std::vector<const void*> in;
  for (const Tensor& value : per_replica) in.push_back(value.raw());
  void* const out = result.raw();
  ReduceInRankOrder(reduction, dtype, in, {&out, 1}, result.num_elements());
  return result;
}

absl::StatusOr<Tensor> Strategy::Gather(absl::Span<const Tensor> per_replica, int axis) {
  MF_RETURN_IF_ERROR(CheckAlike(per_replica, axis));
  Shape shape = per_replica[0].shape();
  if (axis < 0 || axis >= shape.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis out of range; expected a value in [0, ", shape.rank(), "), got ", axis));
  }
  int64_t outer = 1, inner = static_cast<int64_t>(DataTypeSize(per_replica[0].dtype())), total = 0;
  for (int d = 0; d < axis; ++d) outer *= shape.dim(d);
  for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape.dim(d);
  for (const Tensor& value : per_replica) total += value.shape().dim(axis);
  shape.set_dim(axis, total);
  MF_ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(per_replica[0].dtype(), shape));
  int64_t first = 0;
  for (const Tensor& value : per_replica) {
    const int64_t bytes = value.shape().dim(axis) * inner;
    for (int64_t o = 0; o < outer; ++o) {
      std::memcpy(result.raw() + (o * total + first) * inner, value.raw() + o * bytes, bytes);
    }
    first += value.shape().dim(axis);
  }
  return result;
}

}  // namespace mirrorflow
