// SPDX-License-Identifier: Apache-2.0
//
// Accesses the elements of a tensor as plain numbers, in their stored form: two floats for a
// complex64, and the bits of a half or bfloat16 as a uint16. Covers dtypes that no kernel computes
// in. The text form prints and parses these numbers, and the typed lists of a TensorProto hold
// them.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_TENSOR_ELEMENTS_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_TENSOR_ELEMENTS_H_

#include "absl/types/span.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// Like DispatchDataType, but covers every dtype with fixed-size elements.
template <typename Fn, typename R>
R DispatchStoredType(DataType dtype, Fn&& fn, R otherwise) {
  switch (dtype) {
    case DT_COMPLEX64:
      return fn(TypeTag<float>());
    case DT_COMPLEX128:
      return fn(TypeTag<double>());
    case DT_INT8:
      return fn(TypeTag<int8_t>());
    case DT_INT16:
      return fn(TypeTag<int16_t>());
    case DT_UINT16:
    case DT_HALF:
    case DT_BFLOAT16:
      return fn(TypeTag<uint16_t>());
    case DT_UINT32:
      return fn(TypeTag<uint32_t>());
    case DT_UINT64:
      return fn(TypeTag<uint64_t>());
    default:
      return DispatchDataType(dtype, std::forward<Fn>(fn), std::move(otherwise));
  }
}

// Returns how many plain numbers store one element.
inline int NumbersPerElement(DataType dtype) {
  return dtype == DT_COMPLEX64 || dtype == DT_COMPLEX128 ? 2 : 1;
}

// Returns the numbers of `tensor`. T must be the type that DispatchStoredType passes for its dtype.
template <typename T>
absl::Span<T> StoredNumbers(const Tensor& tensor) {
  return absl::MakeSpan(reinterpret_cast<T*>(tensor.raw()), tensor.bytes() / sizeof(T));
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_TENSOR_ELEMENTS_H_
