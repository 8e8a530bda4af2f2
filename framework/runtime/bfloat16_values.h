// SPDX-License-Identifier: Apache-2.0
//
// Whole arrays between float32 and bfloat16 (reduced_float.h).
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_BFLOAT16_VALUES_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_BFLOAT16_VALUES_H_

#include <cstdint>

namespace mirrorflow {

// Rounds to nearest, ties to even. `to` has 2 `count` bytes.
void NarrowToBFloat16(const float* from, int64_t count, void* to);

void WidenBFloat16(const void* from, int64_t count, float* to);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_BFLOAT16_VALUES_H_
