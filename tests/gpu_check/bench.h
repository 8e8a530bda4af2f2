// SPDX-License-Identifier: Apache-2.0
//
// `gpu_check bench` times training steps on GPU 0, in turns with peer programs that follow the same
// protocol (tests/benchmark/peers/gpu_peer.py).
#ifndef MIRRORFLOW_TESTS_GPU_CHECK_BENCH_H_
#define MIRRORFLOW_TESTS_GPU_CHECK_BENCH_H_

#include "absl/status/status.h"

namespace mirrorflow {

// Measures what the flags select and prints one line of JSON per variant.
absl::Status GpuBench();
// Prints the GPUs as one line of JSON. Returns NotFound, with the reason, if there are none.
absl::Status PrintGpus();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_GPU_CHECK_BENCH_H_
