// SPDX-License-Identifier: Apache-2.0
//
// Element types. Their values are TensorFlow's (types.proto), so serialised graphs need no
// conversion.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_DTYPE_H_
#define MIRRORFLOW_FRAMEWORK_CORE_DTYPE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

enum DataType : int {
  DT_INVALID = 0,
  DT_FLOAT = 1,
  DT_DOUBLE = 2,
  DT_INT32 = 3,
  DT_UINT8 = 4,
  DT_INT16 = 5,
  DT_INT8 = 6,
  DT_STRING = 7,
  DT_COMPLEX64 = 8,
  DT_INT64 = 9,
  DT_BOOL = 10,
  DT_BFLOAT16 = 14,
  DT_UINT16 = 17,
  DT_COMPLEX128 = 18,
  DT_HALF = 19,
  DT_RESOURCE = 20,
  DT_VARIANT = 21,
  DT_UINT32 = 22,
  DT_UINT64 = 23,
};

// Returns TensorFlow's name for the dtype (`float`, `int32`, …); `invalid` for DT_INVALID and
// unknown values.
absl::string_view DataTypeName(DataType dtype);
// Returns the dtype called `name`, or InvalidArgument if there is none.
absl::StatusOr<DataType> ParseDataType(absl::string_view name);
// Returns true if `number` is the value of an enumerator other than DT_INVALID.
bool IsKnownDataType(int number);

// Returns the bytes per element; 0 if elements have no fixed size (string, resource, variant).
size_t DataTypeSize(DataType dtype);
bool IsFloating(DataType dtype);
bool IsInteger(DataType dtype);

// Carries a C++ type as a value, for generic lambdas.
template <typename T>
struct TypeTag {
  using type = T;
};

constexpr DataType DataTypeOf(TypeTag<float>) { return DT_FLOAT; }
constexpr DataType DataTypeOf(TypeTag<double>) { return DT_DOUBLE; }
constexpr DataType DataTypeOf(TypeTag<int32_t>) { return DT_INT32; }
constexpr DataType DataTypeOf(TypeTag<int64_t>) { return DT_INT64; }
constexpr DataType DataTypeOf(TypeTag<uint8_t>) { return DT_UINT8; }
constexpr DataType DataTypeOf(TypeTag<uint32_t>) { return DT_UINT32; }
constexpr DataType DataTypeOf(TypeTag<uint64_t>) { return DT_UINT64; }
constexpr DataType DataTypeOf(TypeTag<bool>) { return DT_BOOL; }
// Returns the enumerator for a C++ type: DataTypeOf<float>() == DT_FLOAT.
template <typename T>
constexpr DataType DataTypeOf() {
  return DataTypeOf(TypeTag<T>());
}

// The only switch over dtypes. Calls fn(TypeTag<T>()) for a dtype that kernels compute in and
// returns its result; returns `otherwise` for every other dtype.
template <typename Fn, typename R>
R DispatchDataType(DataType dtype, Fn&& fn, R otherwise) {
  switch (dtype) {
    case DT_FLOAT:
      return fn(TypeTag<float>());
    case DT_DOUBLE:
      return fn(TypeTag<double>());
    case DT_INT32:
      return fn(TypeTag<int32_t>());
    case DT_INT64:
      return fn(TypeTag<int64_t>());
    case DT_UINT8:
      return fn(TypeTag<uint8_t>());
    case DT_BOOL:
      return fn(TypeTag<bool>());
    default:
      return otherwise;
  }
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_DTYPE_H_
