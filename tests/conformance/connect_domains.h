// SPDX-License-Identifier: Apache-2.0
//
// Connects communicators of several memory domains in one process, over any transport.
#ifndef MIRRORFLOW_TESTS_CONFORMANCE_CONNECT_DOMAINS_H_
#define MIRRORFLOW_TESTS_CONFORMANCE_CONNECT_DOMAINS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distribute/collective/domain_exchange.h"
#include "distribute/collective/transport.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/topology.h"

namespace mirrorflow {

using Transports = std::vector<std::unique_ptr<Transport>>;  // by rank
// Returns one transport per rank, connected to the transports of the rank's peers (DomainPartners).
using TransportFactory = std::function<absl::StatusOr<Transports>(const Topology&)>;

// Returns a world whose domain sizes are as equal as possible.
Topology DomainsOfEqualSize(int world_size, int num_domains);
// Returns a world where digit i is the domain of rank i: `0001` puts three ranks in the first
// domain and one in the second.
Topology DomainsOfRanks(absl::string_view digits);

// Connects the ranks of each domain as a team. Domains communicate over the transports. `timeout`
// limits waits within a domain; waits between domains time out later.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectDomains(
    const Topology& topology, absl::Duration timeout, const TransportFactory& create_transports,
    const ExchangeOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_CONFORMANCE_CONNECT_DOMAINS_H_
