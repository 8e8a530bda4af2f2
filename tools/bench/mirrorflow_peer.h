// SPDX-License-Identifier: Apache-2.0
//
// This program as a peer of itself (tests/benchmark/peers/peer.py): as a process that has just
// started, or as several workers, of which worker 0 speaks for all.
#ifndef MIRRORFLOW_TOOLS_BENCH_MIRRORFLOW_PEER_H_
#define MIRRORFLOW_TOOLS_BENCH_MIRRORFLOW_PEER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/bench/bench_report.h"
#include "tools/bench/peer_process.h"
#include "tools/bench/training_case.h"
#include "tools/bench/worker_hosts.h"

namespace mirrorflow {

// Starts processes that train the case: `training.workers` of them, each pinned to a core.
absl::StatusOr<std::unique_ptr<PeerProcess>> StartTraining(const TrainingCase& training,
                                                           const WorkerHosts& hosts = {});
// Starts two workers that all-reduce `bytes` of floats over `transport` (--transport).
absl::StatusOr<std::unique_ptr<PeerProcess>> StartAllReduce(int64_t bytes,
                                                            const std::string& transport,
                                                            const WorkerHosts& hosts = {});

// Implement the commands that these processes run, `bench peer` and `bench allreduce_peer`.
absl::Status TrainAsPeer(Report* report);
absl::Status AllReduceAsPeer(Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_MIRRORFLOW_PEER_H_
