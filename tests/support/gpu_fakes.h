// SPDX-License-Identifier: Apache-2.0
//
// Sessions on fake GPUs. They run the real code of kernels/cuda and distribute/collective/nccl on
// fakes of the CUDA runtime and NCCL. Their GPU kernels report memory accesses to the fakes.
#ifndef MIRRORFLOW_TESTS_SUPPORT_GPU_FAKES_H_
#define MIRRORFLOW_TESTS_SUPPORT_GPU_FAKES_H_

#include "tests/support/test_session.h"

namespace mirrorflow {

// Sets a backend with one GPU per replica, connected by NCCL. Use it as
// TestSessionOptions::set_backend.
absl::Status SetFakeGpus(const TestSessionOptions& options, SessionBackend* backend);
// Like SetFakeGpus, but with logical GPUs, all on GPU 0.
absl::Status SetLogicalFakeGpus(const TestSessionOptions& options, SessionBackend* backend);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_GPU_FAKES_H_
