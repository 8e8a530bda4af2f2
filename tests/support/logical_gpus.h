// SPDX-License-Identifier: Apache-2.0
//
// Sessions on logical GPUs: several devices on GPU 0, as MirroredStrategy creates them. The test
// links either a fake GPU or CUDA.
#ifndef MIRRORFLOW_TESTS_SUPPORT_LOGICAL_GPUS_H_
#define MIRRORFLOW_TESTS_SUPPORT_LOGICAL_GPUS_H_

#include "tests/support/test_session.h"

namespace mirrorflow {

// Sets a backend with one logical GPU per replica. Use it as TestSessionOptions::set_backend.
absl::Status SetLogicalGpus(const TestSessionOptions& options, SessionBackend* backend);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_LOGICAL_GPUS_H_
