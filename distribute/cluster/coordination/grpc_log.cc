// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/grpc_log.h"

#include <grpc/support/log.h>

#include <cstdlib>

namespace mirrorflow {

void SilenceGrpcLog() {
  if (getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
}

}  // namespace mirrorflow
