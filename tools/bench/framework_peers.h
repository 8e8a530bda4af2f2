// SPDX-License-Identifier: Apache-2.0
//
// Starts the programs of tests/benchmark/peers, which `setup` there installs outside the tree.
#ifndef MIRRORFLOW_TOOLS_BENCH_FRAMEWORK_PEERS_H_
#define MIRRORFLOW_TOOLS_BENCH_FRAMEWORK_PEERS_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/bench/peer_process.h"
#include "tools/bench/worker_hosts.h"

namespace mirrorflow {

// Starts NAME_peer.py, or the compiled NAME_peer, as `workers` processes on `hosts`, and waits
// until it is ready. `args` are as in CommandsOfWorkers. Returns NotFound, with instructions, if it
// is not installed.
absl::StatusOr<std::unique_ptr<PeerProcess>> StartPeer(absl::string_view name,
                                                       const std::vector<std::string>& args,
                                                       int workers = 1,
                                                       const WorkerHosts& hosts = {});

// Returns InvalidArgument, naming --peers, unless it names only `known` peers.
absl::Status CheckPeersFlag(std::initializer_list<absl::string_view> known);

// Returns the path of the Python that has the frameworks.
std::string PeersPython();
// Returns the versions that `setup` installed: `tensorflow-cpu==2.21.0, …`.
std::string PeersVersions();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_FRAMEWORK_PEERS_H_
