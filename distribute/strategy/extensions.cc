// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/extensions.h"

#include "distribute/all_kernels.h"
#include "framework/core/status.h"
#include "ops/registry.h"

namespace mirrorflow {

Extensions::Extensions() : ops_(&AllOps()), kernels_(&AllKernels()) {}

absl::Status Extensions::Check() const {
  MF_RETURN_IF_ERROR(Annotate(ops_.Seal(), "extensions"));
  return Annotate(kernels_.Check(), "extensions");
}

}  // namespace mirrorflow
