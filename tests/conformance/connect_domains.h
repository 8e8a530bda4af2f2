// SPDX-License-Identifier: Apache-2.0
//
// Communicators of several memory domains in one process, over any transport.
#ifndef MIRRORFLOW_TESTS_CONFORMANCE_CONNECT_DOMAINS_H_
#define MIRRORFLOW_TESTS_CONFORMANCE_CONNECT_DOMAINS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/collective/domain_exchange.h"
#include "distribute/collective/transport.h"
#include "framework/runtime/communicator.h"

namespace mirrorflow {

using Transports = std::vector<std::unique_ptr<Transport>>;  // by rank
// Connects the transports of all ranks.
using TransportFactory = std::function<absl::StatusOr<Transports>(int world_size)>;

// Connects ranks in domains of sizes as equal as possible. Domains communicate over the transports,
// with longer waits than `timeout`, that of the waits within a domain.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectDomains(
    int world_size, int num_domains, absl::Duration timeout,
    const TransportFactory& create_transports, const ExchangeOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_CONFORMANCE_CONNECT_DOMAINS_H_
