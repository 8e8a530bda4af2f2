// SPDX-License-Identifier: Apache-2.0
//
// A fake of the reduction kernel for logical GPUs. It enqueues the CPU reduction on a stream of the
// CUDA runtime fake.
#include "distribute/collective/device_copy/reduce_on_device.h"
#include "framework/runtime/reduce_in_rank_order.h"
#include "tests/fakes/cuda/fake_cuda.h"

namespace mirrorflow {

cudaError_t ReduceOnDevice(Reduction reduction, DataType dtype, absl::Span<const void* const> in,
                           absl::Span<void* const> out, int64_t count, cudaStream_t stream) {
  const size_t bytes = static_cast<size_t>(count) * DataTypeSize(dtype);
  std::vector<MemoryRange> accesses;
  for (const void* memory : in) accesses.push_back({memory, bytes, false});
  for (const void* memory : out) accesses.push_back({memory, bytes, true});
  const std::vector<const void*> ins(in.begin(), in.end());
  const std::vector<void*> outs(out.begin(), out.end());
  LaunchOnFake(stream, "reduce", accesses,
               [=] { ReduceInRankOrder(reduction, dtype, ins, outs, count); });
  return cudaSuccess;
}

}  // namespace mirrorflow
