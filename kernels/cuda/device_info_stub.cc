// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device_info.h"

namespace mirrorflow {

bool BuiltWithCuda() { return false; }

absl::StatusOr<int> NumGpus() { return 0; }

}  // namespace mirrorflow
