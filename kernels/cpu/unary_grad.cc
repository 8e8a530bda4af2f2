// SPDX-License-Identifier: Apache-2.0
//
// Gradients of element-wise ops on the CPU: a table of formulas in terms of the forward result y
// and the gradient dy.
#include "kernels/cpu/binary_loops.h"

namespace mirrorflow {

void RegisterUnaryGradCpu(KernelRegistry& kernels) {
  const auto add = AddTo(kernels);
  constexpr FloatingTypes kFloating;

  add("ReciprocalGrad", Binary(kFloating, [](auto y, auto dy) { return -dy * y * y; }));
  // Multiplies instead of selecting, so that an infinite or NaN gradient propagates, as in
  // TensorFlow.
  add("ReluGrad", Binary(NumericTypes(), [](auto dy, auto features) {
        using T = decltype(dy);
        return static_cast<T>(dy * (features > 0 ? T(1) : T(0)));
      }));
  add("RsqrtGrad", Binary(kFloating, [](auto y, auto dy) {
        using T = decltype(y);
        return T(-0.5) * dy * (y * y * y);
      }));
  add("SigmoidGrad", Binary(kFloating, [](auto y, auto dy) { return dy * y * (1 - y); }));
  add("SqrtGrad", Binary(kFloating, [](auto y, auto dy) {
        using T = decltype(y);
        return T(0.5) * dy / y;
      }));
  add("TanhGrad", Binary(kFloating, [](auto y, auto dy) { return dy * (1 - y * y); }));
}

}  // namespace mirrorflow
