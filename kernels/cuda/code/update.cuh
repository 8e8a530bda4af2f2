// SPDX-License-Identifier: Apache-2.0
//
// Formulas of optimizer updates, one element at a time. They are TensorFlow's, operation by
// operation. A formula holds the op's scalars in the order of its inputs; it is called with an
// element of the gradient and those of the variables.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_UPDATE_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_UPDATE_CUH_

#include "base.cuh"

namespace update {

// A variable and those of its elements that one thread works on.
template <typename T>
struct Elements {
  T* variable;
  Value<T> values[kPerThread];
};

template <typename Formula, typename T, typename... Each>
__device__ inline void UpdateElements(const Formula& formula, int64 block, int64 size,
                                      const T* gradient, Each... each) {
  const int64 first = block * (kThreads * kPerThread) + threadIdx.x;
  // Issues all loads before the first store: the gradient may be a read of the variable.
  Value<T> g[kPerThread];
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64 i = first + k * kThreads;
    if (i >= size) continue;
    g[k] = Load(gradient[i]);
    ((each.values[k] = Load(each.variable[i])), ...);
  }
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64 i = first + k * kThreads;
    if (i >= size) continue;
    formula(g[k], each.values[k]...);
    ((each.variable[i] = Store<T>(each.values[k])), ...);
  }
}

// Updates the elements of block `block` of a grid like that of Elementwise over `size` elements.
template <typename Formula, typename T, typename... Variables>
__device__ inline void Update(const Formula& formula, int64 block, int64 size, const T* gradient,
                              Variables*... variables) {
  UpdateElements(formula, block, size, gradient, Elements<Variables>{variables}...);
}

// ---- Formulas, named after the ops without `ResourceApply` ----

template <typename V>
struct GradientDescent {
  V alpha;
  __device__ void operator()(V g, V& var) const { var -= alpha * g; }
};

template <typename V, bool kNesterov>
struct Momentum {
  V lr, momentum;
  __device__ void operator()(V g, V& var, V& accum) const {
    accum = accum * momentum + g;
    var -= kNesterov ? g * lr + accum * momentum * lr : accum * lr;
  }
};

template <typename V, bool kNesterov>
struct KerasMomentum {
  V lr, momentum;
  __device__ void operator()(V g, V& var, V& accum) const {
    const V step = g * lr;
    accum = accum * momentum - step;
    var += kNesterov ? accum * momentum - step : accum;
  }
};

template <typename V, bool kUpdateSlots>
struct AdagradV2 {
  V lr, epsilon;
  __device__ void operator()(V g, V& var, V& accum) const {
    if (kUpdateSlots) accum += g * g;
    var -= g * lr / (sqrt(accum) + epsilon);
  }
};

template <typename V, bool kUpdateSlots>
struct Adagrad {
  V lr;
  __device__ void operator()(V g, V& var, V& accum) const {
    AdagradV2<V, kUpdateSlots>{lr, V(0)}(g, var, accum);
  }
};

template <typename V>
struct RMSProp {
  V lr, rho, momentum, epsilon;
  __device__ void operator()(V g, V& var, V& ms, V& mom) const {
    ms += (g * g - ms) * (V(1) - rho);
    mom = mom * momentum + g * lr / sqrt(ms + epsilon);
    var -= mom;
  }
};

template <typename V, bool kNesterov>
struct Adam {
  V beta1_power, beta2_power, lr, beta1, beta2, epsilon;
  __device__ void operator()(V g, V& var, V& m, V& v) const {
    const V alpha = lr * sqrt(V(1) - beta2_power) / (V(1) - beta1_power);
    m += (g - m) * (V(1) - beta1);
    v += (g * g - v) * (V(1) - beta2);
    const V direction = kNesterov ? g * (V(1) - beta1) + beta1 * m : m;
    var -= direction * alpha / (sqrt(v) + epsilon);
  }
};

}  // namespace update

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_UPDATE_CUH_
