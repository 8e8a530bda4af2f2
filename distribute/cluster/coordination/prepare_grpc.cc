// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/prepare_grpc.h"

#include <grpc/support/log.h>

#include <cstdlib>

#include "framework/core/thread.h"

namespace mirrorflow {
namespace {

// About as many as a server and a client have at once.
constexpr int kThreads = 16;

}  // namespace

absl::Status PrepareGrpc() {
  if (getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  return CheckThreads("gRPC", kThreads);
}

}  // namespace mirrorflow
