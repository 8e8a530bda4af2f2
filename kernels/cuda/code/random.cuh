// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that depend on the session's seed, the op and the step. Element i of the global
// tensor comes from block i/4 of the op's stream, or from block i/2 in double precision.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_RANDOM_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_RANDOM_CUH_

#include "philox.cuh"

namespace stateful {

// The finaliser of SplitMix64: every bit of the result depends on every bit of x.
// Source: Steele, Lea and Flood, OOPSLA 2014.
__device__ inline uint64 Mix(uint64 x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// Uses 24 bits, because every multiple of 2^-24 in [0, 1) is a float.
__device__ inline void ToUniform(const philox::Block& block, float (&out)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) out[i] = static_cast<float>(block.word[i] >> 8) * 0x1p-24f;
}
// Uses 52 bits, the size of the fraction in double precision.
__device__ inline void ToUniform(const philox::Block& block, double (&out)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint64 bits = philox::Wide(block.word[2 * i], block.word[2 * i + 1]) >> 12;
    out[i] = static_cast<double>(bits) * 0x1p-52;
  }
}

// Rounds down for 16-bit floats, because rounding to nearest could give 1.
template <typename T, typename V>
__device__ inline V UniformFor(V x) {
  constexpr V kSteps = Same<T, half>::kValue ? V(0x1p11) : V(0x1p8);
  return sizeof(T) == 2 ? floor(x * kSteps) / kSteps : x;
}

// Each distribution fills a group: all elements that block `group` yields in stream `draw` of a
// key.

template <typename T>
struct Uniform {
  template <int kGroup>
  __device__ void operator()(uint64 key, uint64 group, uint32 draw, Value<T> (&out)[kGroup]) const {
    ToUniform(philox::BlockOf(key, group, draw), out);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) out[i] = UniformFor<T>(out[i]);
  }
};

// Computes the sine and cosine of `turns` full turns, in [0, 1), without branches. Uses nested
// Taylor series around the nearest quarter turn. The CPU kernel uses the same algorithm, so that
// all devices draw the same numbers.
template <typename V>
__device__ inline void SinCosOfTurns(V turns, V& sine, V& cosine) {
  constexpr int kTerms = sizeof(V) == 4 ? 5 : 9;  // further terms are below the precision
  const V quarter = floor(4 * turns + V(0.5));
  const V angle = (turns - quarter / 4) * V(6.283185307179586476925);
  const V square = angle * angle;
  V s = 1, c = 1;
#pragma unroll
  for (int k = kTerms; k > 0; --k) {
    s = 1 - s * square * V(1.0 / ((2 * k) * (2 * k + 1)));
    c = 1 - c * square * V(1.0 / ((2 * k - 1) * (2 * k)));
  }
  s *= angle;
  const int q = static_cast<int>(quarter);
  const V a = q & 1 ? c : s, b = q & 1 ? s : c;
  sine = q & 2 ? -a : a;
  cosine = (q + 1) & 2 ? -b : b;
}

// Draws normal numbers by the Box-Muller method: two uniform numbers give a radius and an angle.
template <typename T>
struct Normal {
  template <int kGroup>
  __device__ void operator()(uint64 key, uint64 group, uint32 draw, Value<T> (&out)[kGroup]) const {
    using V = Value<T>;
    V uniform[kGroup];
    Uniform<V>()(key, group, draw, uniform);
#pragma unroll
    for (int i = 0; i < kGroup; i += 2) {
      // 1 - u is in (0, 1], where the logarithm is finite.
      const V radius = sqrt(V(-2) * log(1 - uniform[i]));
      V sine, cosine;
      SinCosOfTurns(uniform[i + 1], sine, cosine);
      out[i] = radius * cosine;
      out[i + 1] = radius * sine;
    }
  }
};

// Draws normal numbers, and redraws each element beyond two standard deviations (one in 22).
template <typename T>
struct Truncated {
  template <int kGroup>
  __device__ void operator()(uint64 key, uint64 group, uint32 draw, Value<T> (&out)[kGroup]) const {
    Normal<T>()(key, group, draw, out);
    while (AnyBeyond(out)) {
      Value<T> again[kGroup];
      Normal<T>()(key, group, ++draw, again);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) out[i] = fabs(out[i]) > 2 ? again[i] : out[i];
    }
  }
  template <int kGroup>
  __device__ static bool AnyBeyond(const Value<T> (&values)[kGroup]) {
    bool any = false;
#pragma unroll
    for (int i = 0; i < kGroup; ++i) any = any || fabs(values[i]) > 2;
    return any;
  }
};

// `root` is derived from the seed; `op` is a hash of the node's name.
template <typename Distribution, typename Shard, typename T>
__device__ inline void Draw(uint64 root, uint64 op, const StepParams& params, const Shard& shard,
                            T* out) {
  __shared__ uint64 key;
  if (threadIdx.x == 0) key = Mix(Mix(Mix(root) ^ op) ^ params.step) ^ params.iteration;
  __syncthreads();
  philox::Generate(shard, out, [&](uint64 group, auto& values) {
    Distribution()(key, group, /*draw=*/0, values);
  });
}

}  // namespace stateful

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_RANDOM_CUH_
