// SPDX-License-Identifier: Apache-2.0
//
// Sessions on GPUs that are doubles: kernels/cuda and distribute/collective/nccl as they are, on
// the doubles of the CUDA runtime and of NCCL, with CPU kernels in place of those for GPUs.
#ifndef MIRRORFLOW_TESTS_SUPPORT_GPU_DOUBLES_H_
#define MIRRORFLOW_TESTS_SUPPORT_GPU_DOUBLES_H_

#include "tests/support/test_session.h"

namespace mirrorflow {

// For TestSessionOptions::set_backend: one GPU a replica, and NCCL between them.
absl::Status SetGpuDoubles(const TestSessionOptions& options, SessionBackend* backend);
// The same with logical GPUs, all on GPU 0.
absl::Status SetLogicalGpuDoubles(const TestSessionOptions& options, SessionBackend* backend);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_GPU_DOUBLES_H_
