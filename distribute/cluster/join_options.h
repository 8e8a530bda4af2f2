// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_JOIN_OPTIONS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_JOIN_OPTIONS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distribute/cluster/connections/tls_files.h"
#include "distribute/collective/exchange_options.h"

namespace mirrorflow {

// How workers exchange data.
enum class CollectiveKind {
  // Through shared memory on one host; between hosts over TCP, or over UCX if all have RDMA and the
  // job has neither a secret nor certificates, which UCX would ignore.
  kAuto,
  kSharedMemory,  // only through shared memory: all workers are on one host
  kUcx,           // only over UCX: each worker is a memory domain
  kTcp,           // only over Mirrorflow's TCP connections: each worker is a memory domain
};

// Parses `auto`, `shared_memory`, `ucx` or `tcp`. Returns InvalidArgument for any other name.
absl::StatusOr<CollectiveKind> ParseCollectiveKind(absl::string_view name);
std::string CollectiveKindName(CollectiveKind kind);

// How a worker joins its cluster, and how workers connect to, authenticate and monitor each other.
struct JoinOptions {
  // The secret that all workers of the cluster share; default: the one in the cluster's
  // secret_file. Without it, every process that can reach the coordination service is trusted.
  std::string secret = "";
  // Required to run without a secret, unless the service is on the loopback device.
  bool insecure = false;
  // Distinguishes jobs that share a secret, or have none. Default: the cluster's job, or empty
  // with an external coordinator, which cannot know it.
  std::string job = "";
  // Certificates of this worker. They encrypt the coordination service and data over TCP.
  TlsFiles tls = {};
  // ADDRESS or ADDRESS:PORT of this host at which worker 0 serves the coordination service.
  // Default: the coordinator's address in the cluster.
  std::string bind = "";
  // ADDRESS of this host at which the other workers reach it for data. Default: the address of the
  // network device that routes to `bind` or, if that is empty, to the coordinator.
  std::string advertise = "";
  // Whether a separate process, instead of worker 0, runs the coordination service.
  bool external_coordinator = false;
  CollectiveKind collective = CollectiveKind::kAuto;
  ExchangeOptions exchange = {};  // between CPUs of different hosts
  // How long to wait for the coordination service and all other workers.
  absl::Duration connect_timeout = absl::Minutes(5);
  // How long the others wait for a worker that is alive but late, before the first step or
  // between two, because it loads data, compiles or runs a callback. A warning names it each
  // minute.
  absl::Duration prepare_timeout = absl::Minutes(30);
  // A worker that sends no heartbeat for this long is considered lost, and every worker's current
  // step fails. Workers may use different values.
  absl::Duration heartbeat_timeout = absl::Seconds(10);
  // A worker that is inside a step for this long without starting a collective is considered
  // hung, and every worker's current step fails. Compilation and waiting for a late worker do not
  // count. Workers may use different values.
  absl::Duration progress_timeout = absl::Minutes(5);
  // How long to wait for a lost worker to come back (RunWithRejoin). With 0, this worker exits
  // instead. Either all workers wait or none does. Defaults to the cluster's rejoin_timeout. CPUs
  // only.
  std::optional<absl::Duration> rejoin_timeout = std::nullopt;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_JOIN_OPTIONS_H_
