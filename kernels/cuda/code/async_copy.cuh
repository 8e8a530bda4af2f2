// SPDX-License-Identifier: Apache-2.0
//
// Asynchronous copies from global to shared memory, which overlap with computation. They need
// sm_80; on older GPUs they are plain copies.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_ASYNC_COPY_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_ASYNC_COPY_CUH_

#include "base.cuh"

// Starts to copy kBytes (8 or 16) from an address that is aligned to kBytes. If `exists` is
// false, writes zeros without reading. Other threads can read the result after this thread's
// WaitForCopies and a barrier.
template <int kBytes>
__device__ inline void StartCopy(void* shared, const void* global, bool exists) {
  static_assert(kBytes == 8 || kBytes == 16);
#if !defined(__CUDA_ARCH__)
  MfStartCopy(shared, global, kBytes, exists);
#elif __CUDA_ARCH__ >= 800
  const uint32 to = static_cast<uint32>(__cvta_generic_to_shared(shared));
  const uint64 from = __cvta_generic_to_global(global);
  const int bytes = exists ? kBytes : 0;
  if constexpr (kBytes == 16) {
    // Bypasses the L1 cache, where the tile would only evict other data.
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
  }
#else
  struct alignas(kBytes) Block {
    uint32 words[kBytes / 4];
  };
  *static_cast<Block*>(shared) = exists ? *static_cast<const Block*>(global) : Block{};
#endif
}

// Waits for the copies that this thread has started.
__device__ inline void WaitForCopies() {
#if !defined(__CUDA_ARCH__)
  MfWaitForCopies();
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_ASYNC_COPY_CUH_
