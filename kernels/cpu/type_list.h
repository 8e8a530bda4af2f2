// SPDX-License-Identifier: Apache-2.0
//
// The tables of kernel families name the dtypes of each row by a list of C++ types.
#ifndef MIRRORFLOW_KERNELS_CPU_TYPE_LIST_H_
#define MIRRORFLOW_KERNELS_CPU_TYPE_LIST_H_

#include <cstdint>
#include <type_traits>

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

template <typename... Ts>
struct TypeList {};

using FloatingTypes = TypeList<float, double>;
using IntegerTypes = TypeList<int32_t, int64_t, uint8_t>;
using SignedTypes = TypeList<float, double, int32_t, int64_t>;
using NumericTypes = TypeList<float, double, int32_t, int64_t, uint8_t>;
using AllTypes = TypeList<float, double, int32_t, int64_t, uint8_t, bool>;
using BoolTypes = TypeList<bool>;

// What make(TypeTag<T>()) makes for the T of the list that `dtype` is; Unimplemented if it is none.
template <typename... Ts, typename Make>
absl::StatusOr<KernelPlan> ForType(TypeList<Ts...>, DataType dtype, Make make) {
  absl::StatusOr<KernelPlan> plan = UnsupportedDataType(dtype);
  ((dtype == DataTypeOf<Ts>() ? void(plan = make(TypeTag<Ts>())) : void()), ...);
  return plan;
}

// A signed integer as the unsigned one of its size, in which arithmetic wraps around by definition;
// every other number as it is.
template <typename T>
constexpr auto Wrapping(T x) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(x);
  } else {
    return x;
  }
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_TYPE_LIST_H_
