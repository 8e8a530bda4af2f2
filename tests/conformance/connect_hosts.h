// SPDX-License-Identifier: Apache-2.0
//
// Connects communicators of hosts with equal and different rank counts, as ConnectWorkers does. The
// workers are threads of the test. Workers on one host share memory as processes do: each worker
// maps it at a different address.
#ifndef MIRRORFLOW_TESTS_CONFORMANCE_CONNECT_HOSTS_H_
#define MIRRORFLOW_TESTS_CONFORMANCE_CONNECT_HOSTS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/collective/shared_memory/host_memory.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/topology.h"
#include "tests/conformance/communicator_conformance.h"

namespace mirrorflow {

enum class Network { kTcp, kUcx };

struct Hosts {
  std::vector<std::unique_ptr<Communicator>> ranks;
  std::vector<std::shared_ptr<HostMemory>> memory;  // by worker; null if the worker shares none
};

// Connects a world in which each domain is a host.
absl::StatusOr<Hosts> ConnectHosts(const Topology& topology, Network network,
                                   absl::Duration timeout);

// Returns a conformance case for each of several worlds.
std::vector<ConformanceCase> HostsCases(Network network);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_CONFORMANCE_CONNECT_HOSTS_H_
