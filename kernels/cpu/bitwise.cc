// SPDX-License-Identifier: Apache-2.0
//
// Bitwise ops and shifts of integers on the CPU.
#include <algorithm>

#include "kernels/cpu/binary_loops.h"
#include "kernels/cpu/unary_loops.h"

namespace mirrorflow {
namespace {

// Returns the shift count, clamped to the range that C++ defines.
template <typename T>
T Bits(T y) {
  return std::clamp<T>(y, 0, 8 * sizeof(T) - 1);
}

}  // namespace

void RegisterBitwiseCpu(KernelRegistry& kernels) {
  const auto add = AddTo(kernels);
  constexpr IntegerTypes kInteger;

  add("BitwiseAnd", Binary(kInteger, [](auto x, auto y) { return x & y; }));
  add("BitwiseOr", Binary(kInteger, [](auto x, auto y) { return x | y; }));
  add("BitwiseXor", Binary(kInteger, [](auto x, auto y) { return x ^ y; }));
  add("Invert", Scalars(kInteger, [](auto x) { return ~x; }));
  add("LeftShift", Binary(kInteger, [](auto x, auto y) { return Wrapping(x) << Bits(y); }));
  add("RightShift", Binary(kInteger, [](auto x, auto y) { return x >> Bits(y); }));
}

}  // namespace mirrorflow
