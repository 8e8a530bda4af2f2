// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/run_with_rejoin.h"

#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {

absl::Status RunWithRejoin(Strategy& strategy, absl::FunctionRef<absl::Status()> run,
                           absl::FunctionRef<void(const absl::Status& loss)> on_loss) {
  for (;;) {
    absl::Status status = run();
    // If a worker is lost before all have finished, all must run again with its replacement.
    if (status.ok()) status = strategy.AwaitOtherWorkers();
    if (status.ok()) return status;
    if (IsLostWorker(status)) on_loss(status);
    MF_RETURN_IF_ERROR(strategy.Rejoin(status));
  }
}

}  // namespace mirrorflow
