// SPDX-License-Identifier: Apache-2.0
//
// Activations and their gradients on the CPU: tables of formulas.
#include <cmath>

#include "kernels/cpu/binary_loops.h"
#include "kernels/cpu/unary_loops.h"

namespace mirrorflow {
namespace {

// These constants keep the mean of activations at 0 and their variance at 1.
// Source: Klambauer et al., "Self-Normalizing Neural Networks".
constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluScaleAlpha = 1.7580993408473768599402175208123;

// LeakyRelu and its gradient are not in the tables because their slope is an attribute.
absl::StatusOr<KernelPlan> CreateLeakyRelu(const KernelContext& c) {
  const float slope = c.node().attr<float>("alpha");
  return ForType(FloatingTypes(), c.input_dtype(0), [&]<typename T>(TypeTag<T>) {
    return UnaryPlan(c, [alpha = static_cast<T>(slope)](const KernelArgs& args, int64_t n) {
      const T* x = args.input<T>(0);
      T* y = args.output<T>(0);
      MF_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : x[i] * alpha;
    });
  });
}

absl::StatusOr<KernelPlan> CreateLeakyReluGrad(const KernelContext& c) {
  const float slope = c.node().attr<float>("alpha");
  return ForType(FloatingTypes(), c.input_dtype(0), [&]<typename T>(TypeTag<T>) {
    KernelPlan plan =
        UnaryPlan(c, [alpha = static_cast<T>(slope)](const KernelArgs& args, int64_t n) {
          const T *dy = args.input<T>(0), *x = args.input<T>(1);
          T* dx = args.output<T>(0);
          MF_INDEPENDENT_ITERATIONS
          for (int64_t i = 0; i < n; ++i) dx[i] = x[i] > 0 ? dy[i] : dy[i] * alpha;
        });
    plan.in_place = {{0, 0}, {1, 0}};
    return plan;
  });
}

void RegisterGradients(KernelRegistry& kernels) {
  const auto add = AddTo(kernels);
  constexpr FloatingTypes kFloating;

  add("EluGrad", Binary(kFloating, [](auto dy, auto y) { return y < 0 ? (y + 1) * dy : dy; }));
  add("LeakyReluGrad", CreateLeakyReluGrad);
  // Multiplies instead of selecting, so that an infinite or NaN gradient propagates, as in
  // TensorFlow.
  add("Relu6Grad", Binary(NumericTypes(), [](auto dy, auto x) {
        using T = decltype(dy);
        return static_cast<T>(dy * (x > 0 && x < 6 ? T(1) : T(0)));
      }));
  add("SeluGrad", Binary(kFloating, [](auto dy, auto y) {
        using T = decltype(y);
        return y < 0 ? dy * (y + T(kSeluScaleAlpha)) : dy * T(kSeluScale);
      }));
  add("SoftplusGrad", Binary(kFloating, [](auto dy, auto x) { return dy / (std::exp(-x) + 1); }));
  add("SoftsignGrad", Binary(kFloating, [](auto dy, auto x) {
        const auto d = 1 + std::abs(x);
        return dy / (d * d);
      }));
}

}  // namespace

void RegisterActivationCpu(KernelRegistry& kernels) {
  const auto add = AddTo(kernels);
  constexpr FloatingTypes kFloating;

  add("Elu", Vectors(kFloating, [](auto x) MF_INLINE { return x < 0 ? libmvec::expm1(x) : x; }));
  add("LeakyRelu", CreateLeakyRelu);
  // NaN fails both comparisons and passes through.
  add("Relu6", Scalars(NumericTypes(), [](auto x) {
        using T = decltype(x);
        return x < 0 ? T(0) : x > 6 ? T(6) : x;
      }));
  add("Selu", Vectors(kFloating, [](auto x) MF_INLINE {
        using T = std::remove_cvref_t<decltype(x[0])>;
        return x < 0 ? T(kSeluScaleAlpha) * libmvec::expm1(x) : T(kSeluScale) * x;
      }));
  // Computed as max(x, 0) + log(1 + e^-|x|), which cannot overflow.
  add("Softplus", Vectors(kFloating, [](auto x) MF_INLINE {
        const auto tail = libmvec::log1p(libmvec::exp(x < 0 ? x : -x));
        return x < 0 ? tail : x + tail;
      }));
  add("Softsign", Scalars(kFloating, [](auto x) { return x / (1 + std::abs(x)); }));
  RegisterGradients(kernels);
}

}  // namespace mirrorflow
