// SPDX-License-Identifier: Apache-2.0
//
// Optimizer update formulas for one element at a time. They match TensorFlow's, operation by
// operation. A formula holds the op's scalars in input order. It is called with one element of the
// gradient and one of each variable.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_UPDATE_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_UPDATE_CUH_

#include "base.cuh"

namespace update {

// A variable, and the elements of it that one thread updates.
template <typename T, int kCount>
struct Elements {
  T* variable;
  Value<T> values[kCount];

  template <int kWidth>
  __device__ void Get(int first, int64 at) {
    const PackOf<T, kWidth> pack = LoadPack<kWidth>(variable + at);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) values[first + j] = Load(pack[j]);
  }
  template <int kWidth>
  __device__ void Put(int first, int64 at) const {
    PackOf<T, kWidth> pack;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) pack.values[j] = Store<T>(values[first + j]);
    StorePack(variable + at, pack);
  }
};

// Updates up to kCount packs: those numbered first, first + kThreads, … that are below `packs`.
template <int kWidth, int kCount, typename Formula, typename T, typename... Each>
__device__ inline void UpdatePacks(const Formula& formula, int64 first, int64 packs,
                                   const T* gradient, Each... each) {
  // Issues all loads before the first store, because the gradient may be a read of the variable.
  PackOf<T, kWidth> g[kCount];
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int64 pack = first + k * kThreads;
    if (pack >= packs) continue;
    g[k] = LoadPack<kWidth>(gradient + pack * kWidth);
    (each.template Get<kWidth>(k * kWidth, pack * kWidth), ...);
  }
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int64 pack = first + k * kThreads;
    if (pack >= packs) continue;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) formula(Load(g[k][j]), each.values[k * kWidth + j]...);
    (each.template Put<kWidth>(k * kWidth, pack * kWidth), ...);
  }
}

// Updates block `block`'s part of `size` elements. Blocks divide the elements as in Elementwise
// with packs of 16 bytes.
template <typename Formula, typename T, typename... Variables>
__device__ inline void Update(const Formula& formula, int64 block, int64 size, const T* gradient,
                              Variables*... variables) {
  constexpr int kWidth = 16 / sizeof(T), kCount = kPacks<kWidth>;
  constexpr int64 kPacksOfBlock = kThreads * kCount;
  UpdatePacks<kWidth, kCount>(formula, block * kPacksOfBlock + threadIdx.x, size / kWidth, gradient,
                              Elements<Variables, kCount * kWidth>{variables}...);
  // The last block updates the elements after the last whole pack, one per thread.
  if (block == (size - 1) / (kPacksOfBlock * kWidth)) {
    UpdatePacks<1, 1>(formula, size / kWidth * kWidth + threadIdx.x, size, gradient,
                      Elements<Variables, 1>{variables}...);
  }
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

template <typename V>
struct KerasAdam {
  V alpha, rate1, rate2, epsilon;
  __device__ void operator()(V g, V& var, V& m, V& v) const {
    m += (g - m) * rate1;
    v += (g * g - v) * rate2;
    var -= m * alpha / (sqrt(v) + epsilon);
  }
};

}  // namespace update

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_UPDATE_CUH_
