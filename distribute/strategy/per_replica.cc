// SPDX-License-Identifier: Apache-2.0
//
// Strategy::Reduce and Strategy::Gather: one value out of the replicas' values, on the host.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/strategy/strategy.h"
#include "framework/core/reduced_float.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

absl::Status CheckAlike(absl::Span<const Tensor> values, int free_axis) {
  if (values.empty()) return absl::InvalidArgumentError("no value to reduce or gather");
  auto comparable = [&](const Tensor& t) {
    Shape shape = t.shape();
    if (free_axis >= 0 && free_axis < shape.rank()) shape.set_dim(free_axis, 0);
    return shape;
  };
  for (const Tensor& value : values) {
    if (value.dtype() != values[0].dtype() || comparable(value) != comparable(values[0])) {
      return absl::InvalidArgumentError(
          absl::StrCat("the replicas' values must be alike, got ", DataTypeName(values[0].dtype()),
                       values[0].shape().ToString(), " and ", DataTypeName(value.dtype()),
                       value.shape().ToString()));
    }
  }
  return absl::OkStatus();
}

template <typename T>
void ReduceInto(Reduction reduction, const T* from, int64_t n, T* to) {
  for (int64_t i = 0; i < n; ++i) {
    switch (reduction) {
      case Reduction::kMax:
        to[i] = std::max(to[i], from[i]);
        break;
      case Reduction::kMin:
        to[i] = std::min(to[i], from[i]);
        break;
      default:
        to[i] = static_cast<T>(to[i] + from[i]);
    }
  }
}

// half and bfloat16 are reduced in float and rounded once.
absl::StatusOr<Tensor> ReduceInFloat(Reduction reduction, absl::Span<const Tensor> per_replica) {
  const DataType dtype = per_replica[0].dtype();
  std::vector<Tensor> wide;
  for (const Tensor& value : per_replica) {
    MF_ASSIGN_OR_RETURN(Tensor in_float, Tensor::Allocate(DT_FLOAT, value.shape()));
    const auto* bits = reinterpret_cast<const uint16_t*>(value.raw());
    for (int64_t i = 0; i < value.num_elements(); ++i) {
      in_float.data<float>()[i] = ReducedToFloat(dtype, bits[i]);
    }
    wide.push_back(std::move(in_float));
  }
  MF_ASSIGN_OR_RETURN(const Tensor reduced, Strategy::Reduce(reduction, wide));
  MF_ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(dtype, reduced.shape()));
  auto* bits = reinterpret_cast<uint16_t*>(result.raw());
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    bits[i] = ReducedFrom(dtype, reduced.data<float>()[i]);
  }
  return result;
}

}  // namespace

absl::StatusOr<Tensor> Strategy::Reduce(Reduction reduction, absl::Span<const Tensor> per_replica) {
  MF_RETURN_IF_ERROR(CheckAlike(per_replica, -1));
  const bool supported = reduction == Reduction::kSum || reduction == Reduction::kMean ||
                         reduction == Reduction::kMax || reduction == Reduction::kMin;
  const DataType dtype = per_replica[0].dtype();
  const bool is_number = IsFloating(dtype) || dtype == DT_INT32 || dtype == DT_INT64;
  if (!supported || !is_number) {
    return absl::InvalidArgumentError(
        absl::StrCat("the replicas' values: expected floating, int32 or int64 and sum, mean, "
                     "max or min, got ",
                     DataTypeName(dtype), " and ", ReductionName(reduction)));
  }
  if (IsReducedFloat(dtype)) return ReduceInFloat(reduction, per_replica);
  MF_ASSIGN_OR_RETURN(Tensor result, per_replica[0].Clone());
  DispatchDataType(
      result.dtype(),
      [&](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (!std::is_same_v<T, bool>) {
          const int64_t n = result.num_elements();
          for (size_t r = 1; r < per_replica.size(); ++r) {
            ReduceInto(reduction, per_replica[r].data<T>(), n, result.data<T>());
          }
          if (reduction == Reduction::kMean) {
            for (T& v : result.flat<T>())
              v = static_cast<T>(v / static_cast<T>(per_replica.size()));
          }
        }
        return true;
      },
      false);
  return result;
}

absl::StatusOr<Tensor> Strategy::Gather(absl::Span<const Tensor> per_replica, int axis) {
  MF_RETURN_IF_ERROR(CheckAlike(per_replica, axis));
  Shape shape = per_replica[0].shape();
  if (axis < 0 || axis >= shape.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis must be in [0, ", shape.rank(), "), got ", axis));
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
