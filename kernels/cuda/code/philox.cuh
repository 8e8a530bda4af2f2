// SPDX-License-Identifier: Apache-2.0
//
// Philox4x32-10, a counter-based generator: any number in a stream can be computed without
// computing its predecessors.
// Source: Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_PHILOX_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_PHILOX_CUH_

#include "base.cuh"

namespace philox {

// A counter, or the random words computed from it.
struct Block {
  uint32 word[4];
};

__device__ inline uint64 Wide(uint32 low, uint32 high) {
  return static_cast<uint64>(high) << 32 | low;
}

__device__ inline Block BlockOf(uint64 key, uint64 low, uint64 high) {
  uint32 w0 = static_cast<uint32>(low), w1 = static_cast<uint32>(low >> 32);
  uint32 w2 = static_cast<uint32>(high), w3 = static_cast<uint32>(high >> 32);
  uint32 k0 = static_cast<uint32>(key), k1 = static_cast<uint32>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64 p0 = uint64{0xD2511F53} * w0, p1 = uint64{0xCD9E8D57} * w2;
    w0 = static_cast<uint32>(p1 >> 32) ^ w1 ^ k0;
    w1 = static_cast<uint32>(p1);
    w2 = static_cast<uint32>(p0 >> 32) ^ w3 ^ k1;
    w3 = static_cast<uint32>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{w0, w1, w2, w3}};
}

// How many elements the words of one block yield.
template <typename V>
constexpr int kPerBlock = 16 / sizeof(V);

// The elements of a global random tensor that a replica computes: kRuns runs of kLength adjacent
// elements. The first run starts at element `first`, and each further run starts kStride elements
// after the previous one. An element depends on its index, not on the replica that computes it.
template <int64 kRuns, int64 kLength, int64 kStride>
struct Shard {
  int64 first;
};

// Writes the elements of the shard. The global tensor is generated in groups of elements, and a run
// can begin and end within a group. make(group, values) generates one whole group. Each thread
// generates one group, then the block writes the elements that belong to runs.
template <int64 kRuns, int64 kLength, int64 kStride, typename T, typename Make>
__device__ inline void Generate(const Shard<kRuns, kLength, kStride>& shard, T* out, Make make) {
  constexpr int kGroup = kPerBlock<Value<T>>;
  // The most groups that one run can overlap.
  constexpr int64 kMaxGroups = (kLength + kGroup - 2) / kGroup + 1;
  // A type that can count the elements of all groups, including the unused ones in the last block.
  using Slot = Index<kRuns * kMaxGroups * kGroup + kThreads * kGroup>;
  constexpr Slot kGroups = kMaxGroups;
  __shared__ Value<T> made[kThreads * kGroup];
  const Slot group = static_cast<Slot>(blockIdx.x) * kThreads + threadIdx.x;
  if (group < kRuns * kGroups) {
    Value<T> values[kGroup];
    const int64 begin = shard.first + group / kGroups * kStride;
    make(static_cast<uint64>(begin / kGroup + group % kGroups), values);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) made[threadIdx.x * kGroup + j] = values[j];
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kGroup; ++j) {
    const int at = j * kThreads + threadIdx.x;
    const Slot slot = static_cast<Slot>(blockIdx.x) * (kThreads * kGroup) + at;
    const int64 run = slot / (kGroups * kGroup);
    const int64 begin = shard.first + run * kStride;
    const int64 i = static_cast<int64>(slot % (kGroups * kGroup)) - begin % kGroup;
    if (run < kRuns && i >= 0 && i < kLength) out[run * kLength + i] = Store<T>(made[at]);
  }
}

}  // namespace philox

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_PHILOX_CUH_
