// SPDX-License-Identifier: Apache-2.0
//
// `gpu_check bench`: training steps on GPU 0, in turns with programs that are asked the same
// (tests/benchmark/peers/gpu_peer.py says how).
#ifndef MIRRORFLOW_TESTS_GPU_CHECK_BENCH_H_
#define MIRRORFLOW_TESTS_GPU_CHECK_BENCH_H_

#include "absl/status/status.h"

namespace mirrorflow {

// Measures what the flags say, and prints one line of JSON a variant.
absl::Status GpuBench();
// Prints the GPUs as one line of JSON; NotFound, with the reason, if there is none.
absl::Status PrintGpus();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_GPU_CHECK_BENCH_H_
