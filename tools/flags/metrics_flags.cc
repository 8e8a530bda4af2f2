// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/metrics_flags.h"

#include <string>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/core/status.h"

ABSL_FLAG(
    std::string, metrics, "",
    "HOST:PORT where each worker serves /metrics (for Prometheus), /healthz and /readyz; "
    "PORT or :PORT serves only this host. Each worker adds its index on the host to the port; "
    "0 chooses a free port");
ABSL_DECLARE_FLAG(std::string, job);
ABSL_DECLARE_FLAG(absl::Duration, progress_timeout);

namespace mirrorflow {

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsOfFlags(
    const std::optional<Cluster>& cluster) {
  const std::string address = absl::GetFlag(FLAGS_metrics);
  if (address.empty()) return nullptr;
  MF_ASSIGN_OR_RETURN(
      std::unique_ptr<MetricsServer> server,
      Annotate(MetricsServer::Start({.address = address,
                                     .cluster = cluster.value_or(Cluster()),
                                     .job = absl::GetFlag(FLAGS_job),
                                     .progress_timeout = absl::GetFlag(FLAGS_progress_timeout)}),
               "--metrics"));
  if (cluster.has_value() && cluster->num_workers > 1) {
    server->SetWaiting(absl::StrCat("the ", cluster->num_workers,
                                    " workers of the cluster; coordination service at ",
                                    cluster->coordinator));
  }
  return server;
}

}  // namespace mirrorflow
