// SPDX-License-Identifier: Apache-2.0
//
// JoinOptions: how the workers of MultiWorkerMirroredStrategy find, trust and monitor each other.
// The defaults suit workers on one host; between hosts, also set `secret` and, to encrypt
// connections, `tls`.
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
  // Through shared memory on one host. Between hosts, over UCX if all of them have RDMA and the job
  // has neither a secret nor certificates, which UCX would ignore; otherwise over TCP.
  kAuto,
  kSharedMemory,  // only through shared memory; all workers must be on one host
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
  // If true, the job may run without a secret although other hosts can reach it, and exchange
  // unencrypted data over UCX or NCCL although `tls` has certificates. If false, both are errors.
  bool insecure = false;
  // Distinguishes jobs that have the same secret or none. Default: the cluster's job, or empty with
  // an external coordinator, which does not have the cluster's job.
  std::string job = "";
  // This worker's certificates. With them, connections to the coordination service and data over
  // TCP are encrypted.
  TlsFiles tls = {};
  // The ADDRESS or ADDRESS:PORT of this host where worker 0 serves the coordination service.
  // Default: the coordinator's address in the cluster.
  std::string bind = "";
  // The ADDRESS of this host that the other workers connect to in order to exchange data. Default:
  // the address of the network device that routes to `bind` or, if that is empty, to the
  // coordinator.
  std::string advertise = "";
  // If true, a separate process (`mirrorflow coordinator`), instead of worker 0, runs the
  // coordination service.
  bool external_coordinator = false;
  // How workers exchange data; the default chooses the fastest way that is available and safe.
  CollectiveKind collective = CollectiveKind::kAuto;
  ExchangeOptions exchange = {};  // how CPUs of different hosts exchange data
  // How long to wait for the coordination service and all other workers.
  absl::Duration connect_timeout = absl::Minutes(5);
  // How long the other workers wait, before the first step or between two steps, for a worker that
  // sends heartbeats but is not ready because it loads data, compiles or runs a callback. A warning
  // names that worker every minute.
  absl::Duration prepare_timeout = absl::Minutes(30);
  // A worker that sends no heartbeat for this long is considered lost, and every worker's current
  // step fails. Workers may use different values.
  absl::Duration heartbeat_timeout = absl::Seconds(10);
  // A worker that is inside a step for this long without starting a collective is considered hung,
  // and every worker's current step fails. Compiling and waiting for a late worker (see
  // prepare_timeout) do not count. Workers may use different values.
  absl::Duration progress_timeout = absl::Minutes(5);
  // How long RunWithRejoin waits for a lost worker's replacement. If 0, it returns the error
  // instead of waiting. Must be above 0 on all workers, or 0 on all of them. Defaults to the
  // cluster's rejoin_timeout. CPUs only.
  std::optional<absl::Duration> rejoin_timeout = std::nullopt;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_JOIN_OPTIONS_H_
