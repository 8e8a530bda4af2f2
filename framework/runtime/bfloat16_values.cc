// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/bfloat16_values.h"

#include "framework/core/reduced_float.h"

namespace mirrorflow {

void NarrowToBFloat16(const float* from, int64_t count, void* to) {
  auto* const narrow = static_cast<uint16_t*>(to);
  for (int64_t i = 0; i < count; ++i) narrow[i] = BFloat16Format::FromFloat(from[i]);
}

void WidenBFloat16(const void* from, int64_t count, float* to) {
  const auto* const narrow = static_cast<const uint16_t*>(from);
  for (int64_t i = 0; i < count; ++i) to[i] = BFloat16Format::ToFloat(narrow[i]);
}

}  // namespace mirrorflow
