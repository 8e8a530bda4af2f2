// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_CUDA_CAPABILITIES_H_
#define MIRRORFLOW_TESTS_CUDA_CAPABILITIES_H_

namespace mirrorflow {

// The compute capabilities of release builds, times 10; see //bazel:cuda_archs.
inline constexpr int kCapabilities[] = {80, 86, 89, 90, 100, 120};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_CUDA_CAPABILITIES_H_
