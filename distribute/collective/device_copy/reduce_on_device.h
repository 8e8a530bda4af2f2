// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DEVICE_COPY_REDUCE_ON_DEVICE_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DEVICE_COPY_REDUCE_ON_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/types/span.h"
#include "framework/core/dtype.h"
#include "framework/graph/sharding.h"

namespace mirrorflow {

inline constexpr int kMaxLogicalGpus = 16;

// Enqueues the GPU version of ReduceInRankOrder (reduce_in_rank_order.h), on memory of the current
// GPU. Sums, means, maxima and minima have the same bits. `in` and `out` hold at most
// kMaxLogicalGpus pointers each. Returns cudaErrorInvalidValue for uint8, which has no kernel.
// REQUIRES: CanReduce(reduction, dtype).
cudaError_t ReduceOnDevice(Reduction reduction, DataType dtype, absl::Span<const void* const> in,
                           absl::Span<void* const> out, int64_t count, cudaStream_t stream);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DEVICE_COPY_REDUCE_ON_DEVICE_H_
