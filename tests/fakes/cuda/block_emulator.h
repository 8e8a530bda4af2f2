// SPDX-License-Identifier: Apache-2.0
//
// Runs the grid of a kernel that was compiled for the host (see emulation.h), block by block. The
// threads of a block take turns.
#ifndef MIRRORFLOW_TESTS_FAKES_CUDA_BLOCK_EMULATOR_H_
#define MIRRORFLOW_TESTS_FAKES_CUDA_BLOCK_EMULATOR_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace mirrorflow {

// The layout must match `Here` in emulation.h.
struct EmulatedHere {
  uint3 thread, block, block_dim, grid_dim;
  void (*wait)(int kind);
};

// Calls kernel(args) for every thread of every block. `seed` determines the order in which the
// warps and threads of a block take turns, which changes at every barrier, and whether a warp runs
// as far ahead of the others as it can. Aborts with a message if the threads of a block deadlock.
void RunGrid(void (*kernel)(void**), void** args, EmulatedHere* here, dim3 grid, dim3 block,
             uint64_t seed);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FAKES_CUDA_BLOCK_EMULATOR_H_
