// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_SUMMARY_TENSOR_VALUES_H_
#define MIRRORFLOW_TRAIN_SUMMARY_TENSOR_VALUES_H_

#include <cstdint>

#include "absl/types/span.h"
#include "framework/core/reduced_float.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// Calls `fn(double)` for each element in row-major order. Returns false, without a call, for a
// dtype that is not a real number.
template <typename Fn>
bool ForEachValue(const Tensor& tensor, Fn&& fn) {
  if (IsReducedFloat(tensor.dtype())) {
    const bool is_half = tensor.dtype() == DT_HALF;
    const auto* const bits = reinterpret_cast<const uint16_t*>(tensor.raw());
    for (const uint16_t b : absl::MakeConstSpan(bits, tensor.num_elements())) {
      fn(static_cast<double>(is_half ? HalfFormat::ToFloat(b) : BFloat16Format::ToFloat(b)));
    }
    return true;
  }
  auto visit = [&](auto tag) {
    for (const auto value : tensor.flat<typename decltype(tag)::type>()) {
      fn(static_cast<double>(value));
    }
    return true;
  };
  return DispatchDataType(tensor.dtype(), visit, false);
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_SUMMARY_TENSOR_VALUES_H_
