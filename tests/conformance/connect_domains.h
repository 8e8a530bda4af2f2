// SPDX-License-Identifier: Apache-2.0
//
// Communicators of several memory domains in one process, over any transport.
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
// Connects the transports of all ranks with those of their peers (DomainPartners).
using TransportFactory = std::function<absl::StatusOr<Transports>(const Topology&)>;

// A world whose domains have sizes as equal as possible.
Topology DomainsOfEqualSize(int world_size, int num_domains);
// A world whose ranks are in these domains: `0001` has three in the first and one in the second.
Topology DomainsOfRanks(absl::string_view digits);

// Connects the ranks of a domain as a team. Domains communicate over the transports, with longer
// waits than `timeout`, that of the waits within a domain.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectDomains(
    const Topology& topology, absl::Duration timeout, const TransportFactory& create_transports,
    const ExchangeOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_CONFORMANCE_CONNECT_DOMAINS_H_
