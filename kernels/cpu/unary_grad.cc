// SPDX-License-Identifier: Apache-2.0
//
// Gradients of element-wise ops on the CPU: a table of formulas in terms of the forward result y
// and the gradient dy.
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

// Sets z[i] = Fn(a[i], b[i]) for operands a and b of the same shape.
template <typename Types, typename Fn>
KernelFactory Pairs(Types, Fn) {
  return [](const KernelContext& c) {
    return ForType(Types(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
      const int64_t n = c.output_shape(0).num_elements();
      return KernelPlan{.kernel = MakeKernel([n](const KernelArgs& args) {
                          const T *a = args.input<T>(0), *b = args.input<T>(1);
                          T* z = args.output<T>(0);
                          MF_INDEPENDENT_ITERATIONS
                          for (int64_t i = 0; i < n; ++i) z[i] = Fn{}(a[i], b[i]);
                        }),
                        .in_place = {{0, 0}, {1, 0}}};
    });
  };
}

}  // namespace

void RegisterUnaryGradCpu(KernelRegistry& kernels) {
  const auto add = [&](const char* op, KernelFactory factory) {
    kernels.Register(op, "CPU", factory);
  };
  constexpr FloatingTypes kFloating;

  add("ReciprocalGrad", Pairs(kFloating, [](auto y, auto dy) { return -dy * y * y; }));
  // Multiplies instead of selecting, so that an infinite or NaN gradient propagates, as in
  // TensorFlow.
  add("ReluGrad", Pairs(NumericTypes(), [](auto dy, auto features) {
        using T = decltype(dy);
        return static_cast<T>(dy * (features > 0 ? T(1) : T(0)));
      }));
  add("RsqrtGrad", Pairs(kFloating, [](auto y, auto dy) {
        using T = decltype(y);
        return T(-0.5) * dy * (y * y * y);
      }));
  add("SigmoidGrad", Pairs(kFloating, [](auto y, auto dy) { return dy * y * (1 - y); }));
  add("SqrtGrad", Pairs(kFloating, [](auto y, auto dy) {
        using T = decltype(y);
        return T(0.5) * dy / y;
      }));
  add("TanhGrad", Pairs(kFloating, [](auto y, auto dy) { return dy * (1 - y * y); }));
}

}  // namespace mirrorflow
