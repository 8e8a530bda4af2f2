// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that depend on seeds, or on a key and a counter, and match TensorFlow's. Elements
// are drawn in groups, each from its own position in a Philox stream. A group is the output of one
// block, except for truncated normal numbers: each of their groups reserves further blocks, and
// rejected elements are redrawn from these.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_STATELESS_RANDOM_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_STATELESS_RANDOM_CUH_

#include "philox.cuh"

namespace stateless {

// A key and the 128-bit counter of the first block.
struct Stream {
  uint64 key, low, high;

  __device__ philox::Block BlockOf(uint64 i) const {
    const uint64 at = low + i;
    return philox::BlockOf(key, at, high + (at < low ? 1 : 0));
  }
};

// Returns the stream for two seeds. Scrambles the seeds, so that similar seeds give unrelated
// streams.
__device__ inline Stream StreamOf(int64 seed0, int64 seed1) {
  const Stream seeds = {philox::Wide(0x3ec8f720, 0x02461e29), static_cast<uint64>(seed0),
                        static_cast<uint64>(seed1)};
  const philox::Block mixed = seeds.BlockOf(0);
  return {philox::Wide(mixed.word[0], mixed.word[1]), 0,
          philox::Wide(mixed.word[2], mixed.word[3])};
}
// Like StreamOf(), but one thread computes the stream for the whole block.
template <typename Seed>
__device__ inline Stream StreamForBlock(const Seed* seeds) {
  __shared__ Stream stream;
  if (threadIdx.x == 0) stream = StreamOf(seeds[0], seeds[1]);
  __syncthreads();
  return stream;
}

// Draws uniform numbers in [0, 1): the low bits of a word as a binary fraction, with as many bits
// as T's mantissa.
template <typename T>
struct Uniform {
  __device__ void operator()(const Stream& stream, uint64 group, float (&out)[4]) const {
    constexpr int kBits = Same<T, half>::kValue ? 10 : sizeof(T) == 2 ? 7 : 23;
    constexpr uint32 kMask = (1u << kBits) - 1;
    const philox::Block block = stream.BlockOf(group);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[i] = static_cast<float>(block.word[i] & kMask) * (1.0f / (1 << kBits));
    }
  }
  __device__ void operator()(const Stream& stream, uint64 group, double (&out)[2]) const {
    const philox::Block block = stream.BlockOf(group);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint64 bits = philox::Wide(block.word[2 * i + 1], block.word[2 * i] & 0xfffff);
      out[i] = static_cast<double>(bits) * 0x1p-52;
    }
  }
};

// Draws normal numbers by the Box-Muller method. The angle is computed in double precision for
// every type.
template <typename T>
struct Normal {
  template <typename V, int kGroup>
  __device__ void operator()(const Stream& stream, uint64 group, V (&out)[kGroup]) const {
    V uniform[kGroup];
    Uniform<V>()(stream, group, uniform);
#pragma unroll
    for (int i = 0; i < kGroup; i += 2) {
      const V u = uniform[i] < V(1e-7) ? V(1e-7) : uniform[i];
      const V radius = sqrt(V(-2) * log(u));
      const V angle = static_cast<V>(6.283185307179586476925 * uniform[i + 1]);
      out[i] = sin(angle) * radius;
      out[i + 1] = cos(angle) * radius;
    }
  }
};

// Draws normal numbers within two standard deviations. Each element reserves enough words to ensure
// that a group never reads the words of the next group.
template <typename T>
struct Truncated {
  template <typename V, int kGroup>
  __device__ void operator()(const Stream& stream, uint64 group, V (&out)[kGroup]) const {
    constexpr int kReservedWords = 256;
    int found = 0;
    for (uint64 block = group * (kGroup * kReservedWords / 4); found < kGroup; ++block) {
      V drawn[kGroup];
      Normal<T>()(stream, block, drawn);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        if (!(fabs(drawn[i]) < 2)) continue;
          // Avoids out[found], because the compiler cannot keep an array with an unknown
          // index in registers.
#pragma unroll
        for (int j = 0; j < kGroup; ++j) out[j] = j == found ? drawn[i] : out[j];
        ++found;
      }
    }
  }
};

// Draws integers in [low, high), or any integers of type T if the limits are equal.
template <typename T>
struct UniformInteger {
  T low, high;
  template <int kGroup>
  __device__ void operator()(const Stream& stream, uint64 group, T (&out)[kGroup]) const {
    using U = typename If<sizeof(T) == 4, uint32, uint64>::Type;
    const philox::Block block = stream.BlockOf(group);
    const U range = static_cast<U>(high) - static_cast<U>(low);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      U bits = block.word[i];
      if constexpr (sizeof(U) == 8) bits = philox::Wide(block.word[2 * i], block.word[2 * i + 1]);
      out[i] = static_cast<T>(range == 0 ? bits : static_cast<U>(low) + bits % range);
    }
  }
};

// Marks values drawn with an unknown algorithm: floats become NaN, and integers stay unchanged.
template <typename V, int kGroup>
__device__ inline void Spoil(V (&values)[kGroup]) {
  if constexpr (Traits<V>::kIsFloating) {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) values[i] = BitsToFloat(0x7fc00000);
  }
}

// Returns whether an op may request this algorithm: 1 (Philox) or 3 (automatic).
__device__ inline bool IsKnown(int algorithm) { return algorithm == 1 || algorithm == 3; }

}  // namespace stateless

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_STATELESS_RANDOM_CUH_
