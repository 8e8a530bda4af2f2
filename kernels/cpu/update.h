// SPDX-License-Identifier: Apache-2.0
//
// Optimizer update formulas on a flat range of elements: one variable, or adjacent variables
// in a bucket. Each formula makes one pass over memory and follows TensorFlow's formula
// operation by operation.
//
// Any two ranges are either equal or disjoint. The gradient may be the variable itself.
#ifndef MIRRORFLOW_KERNELS_CPU_UPDATE_H_
#define MIRRORFLOW_KERNELS_CPU_UPDATE_H_

#include <cmath>
#include <cstdint>

#include "kernels/cpu/vectorize.h"

namespace mirrorflow {

template <typename T>
struct GradientDescent {
  T alpha;

  void operator()(T* var, const T* grad, int64_t n) const {
    const T a = alpha;
    MF_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) var[i] -= a * grad[i];
  }
};

template <typename T, bool kNesterov>
struct Momentum {
  T lr;
  T momentum;

  void operator()(T* var, T* accum, const T* grad, int64_t n) const {
    const T rate = lr, decay = momentum;
    MF_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) {
      const T g = grad[i];
      const T a = accum[i] * decay + g;
      accum[i] = a;
      var[i] -= kNesterov ? g * rate + a * decay * rate : a * rate;
    }
  }
};

template <typename T, bool kNesterov>
struct KerasMomentum {
  T lr;
  T momentum;

  void operator()(T* var, T* accum, const T* grad, int64_t n) const {
    const T rate = lr, decay = momentum;
    MF_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) {
      const T step = grad[i] * rate;
      const T a = accum[i] * decay - step;
      accum[i] = a;
      var[i] += kNesterov ? a * decay - step : a;
    }
  }
};

template <typename T, bool kUpdateSlots>
struct Adagrad {
  T lr;
  T epsilon;  // 0 in ResourceApplyAdagrad, which has none

  void operator()(T* var, T* accum, const T* grad, int64_t n) const {
    const T rate = lr, e = epsilon;
    WithWidestVectors([=]() MF_INLINE {
      MF_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < n; ++i) {
        const T g = grad[i];
        const T a = kUpdateSlots ? accum[i] + g * g : accum[i];
        accum[i] = a;
        var[i] -= g * rate / (std::sqrt(a) + e);
      }
    });
  }
};

template <typename T>
struct RmsProp {
  T lr;
  T rho;
  T momentum;
  T epsilon;

  void operator()(T* var, T* ms, T* mom, const T* grad, int64_t n) const {
    const T rate = lr, rest = T{1} - rho, decay = momentum, e = epsilon;
    WithWidestVectors([=]() MF_INLINE {
      MF_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < n; ++i) {
        const T g = grad[i];
        const T square = ms[i] + (g * g - ms[i]) * rest;
        const T m = mom[i] * decay + g * rate / std::sqrt(square + e);
        ms[i] = square;
        mom[i] = m;
        var[i] -= m;
      }
    });
  }
};

// Adam with the step size `alpha`, and with the rates of the moving averages m and v.
template <typename T>
struct AdamStep {
  T alpha, rate1, rate2, epsilon;
  T beta1 = 0;  // 1 - rate1; only for kNesterov

  template <bool kNesterov>
  void Run(T* var, T* m, T* v, const T* grad, int64_t n) const {
    const T step = alpha, r1 = rate1, r2 = rate2, b1 = beta1, e = epsilon;
    WithWidestVectors([=]() MF_INLINE {
      MF_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < n; ++i) {
        const T g = grad[i];
        const T mean = m[i] + (g - m[i]) * r1;
        const T square = v[i] + (g * g - v[i]) * r2;
        m[i] = mean;
        v[i] = square;
        const T direction = kNesterov ? g * r1 + b1 * mean : mean;
        var[i] -= direction * step / (std::sqrt(square) + e);
      }
    });
  }
};

template <typename T, bool kNesterov>
struct Adam {
  T beta1_power;
  T beta2_power;
  T lr;
  T beta1;
  T beta2;
  T epsilon;

  void operator()(T* var, T* m, T* v, const T* grad, int64_t n) const {
    const T alpha = lr * std::sqrt(T{1} - beta2_power) / (T{1} - beta1_power);
    const AdamStep<T> step = {alpha, T{1} - beta1, T{1} - beta2, epsilon, beta1};
    step.template Run<kNesterov>(var, m, v, grad, n);
  }
};

template <typename T, bool>
struct KerasAdam {
  T alpha;
  T rate1;
  T rate2;
  T epsilon;

  void operator()(T* var, T* m, T* v, const T* grad, int64_t n) const {
    const AdamStep<T> step = {alpha, rate1, rate2, epsilon};
    step.template Run<false>(var, m, v, grad, n);
  }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_UPDATE_H_
