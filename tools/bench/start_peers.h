// SPDX-License-Identifier: Apache-2.0
//
// Starts the processes that a benchmark measures: this program, as a new process or as several
// workers, and the programs of tests/benchmark/peers, which the `setup` script there installs
// outside the tree.
#ifndef MIRRORFLOW_TOOLS_BENCH_START_PEERS_H_
#define MIRRORFLOW_TOOLS_BENCH_START_PEERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/bench/peer_process.h"
#include "tools/bench/training_case.h"
#include "tools/launch/placement.h"

namespace mirrorflow {

// Starts `training.workers` processes that train the case, each pinned to a core.
absl::StatusOr<std::unique_ptr<PeerProcess>> StartTraining(const TrainingCase& training,
                                                           const WorkerHosts& hosts = {});
// Starts two workers that all-reduce `bytes` of floats over `transport` (--transport).
absl::StatusOr<std::unique_ptr<PeerProcess>> StartAllReduce(int64_t bytes,
                                                            const std::string& transport,
                                                            const WorkerHosts& hosts = {});

// Starts NAME_peer.py, or the compiled NAME_peer, as `workers` processes on `hosts`, and waits
// until it is ready. `args` are as in CommandsOfWorkers. Returns NotFound, with instructions, if it
// is not installed.
absl::StatusOr<std::unique_ptr<PeerProcess>> StartPeer(absl::string_view name,
                                                       const std::vector<std::string>& args,
                                                       int workers = 1,
                                                       const WorkerHosts& hosts = {});

// Returns InvalidArgument, which names --peers, unless the flag lists only `known` peers.
absl::Status CheckPeersFlag(absl::Span<const absl::string_view> known);

// Returns the versions that `setup` installed: `tensorflow-cpu==2.21.0, …`.
std::string PeersVersions();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_START_PEERS_H_
