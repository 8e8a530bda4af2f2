// SPDX-License-Identifier: Apache-2.0
//
// Lists of C++ types. Kernel tables use them to name the dtypes of each row.
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

// Returns make(TypeTag<T>()) for the type T in the list that has this dtype, or Unimplemented if
// the list has no such type.
template <typename... Ts, typename Make>
absl::StatusOr<KernelPlan> ForType(TypeList<Ts...>, DataType dtype, Make make) {
  absl::StatusOr<KernelPlan> plan = UnsupportedDataType(dtype);
  ((dtype == DataTypeOf<Ts>() ? void(plan = make(TypeTag<Ts>())) : void()), ...);
  return plan;
}

// Like ForType, for float and double in ops whose statistics have dtype U. Returns Unimplemented
// unless U is T.
template <typename Make>
absl::StatusOr<KernelPlan> ForFloatingType(const KernelContext& c, Make make) {
  const DataType t = c.attr<DataType>("T"), u = c.attr<DataType>("U");
  if (t != u) return UnsupportedDataType(u);
  return ForType(FloatingTypes(), t, make);
}

// Returns a function that registers a CPU kernel: add("Relu", factory).
inline auto AddTo(KernelRegistry& kernels) {
  return
      [&kernels](const char* op, KernelFactory factory) { kernels.Register(op, "CPU", factory); };
}

// Converts a signed integer to the unsigned type of the same size, whose arithmetic wraps around by
// definition. Returns values of other types unchanged.
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
