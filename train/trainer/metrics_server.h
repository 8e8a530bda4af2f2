// SPDX-License-Identifier: Apache-2.0
//
// MetricsServer: a callback that lets operators watch a training process over HTTP. It serves
// /metrics, in Prometheus' text format, and the probes /healthz and /readyz (docs/clusters.md).
// Start it before the process joins the cluster, so that it can also report that the process is
// waiting.
//
//   MF_ASSIGN_OR_RETURN(auto metrics, MetricsServer::Start({.address = "9090"}));
//   MF_ASSIGN_OR_RETURN(auto strategy, MirroredStrategy::Create());
//   …
//   trainer->Fit(dataset, {.callbacks = {metrics.get()}});
#ifndef MIRRORFLOW_TRAIN_TRAINER_METRICS_SERVER_H_
#define MIRRORFLOW_TRAIN_TRAINER_METRICS_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/cluster/cluster_resolver.h"
#include "train/trainer/callback.h"

namespace mirrorflow {

class HttpServer;  // train/trainer/monitoring/http_server.h
class RunMonitor;  // train/trainer/monitoring/run_monitor.h

struct MetricsServerOptions {
  // An address of this host, as HOST:PORT. `PORT` and `:PORT` mean the loopback address, 127.0.0.1.
  // With port 0, the server chooses a free port and logs it. To any other port, a worker adds its
  // index on the host (Cluster::local_rank), so that the workers of one host have different ports.
  // Anyone who can reach the port can read the metrics.
  std::string address;
  Cluster cluster = {};  // the cluster that this process belongs to
  std::string job = "";  // the value of the label `job`; if empty, the cluster's job name
  // How long a step can make no progress before /healthz reports the process as hung. Use the same
  // value as for JoinOptions::progress_timeout.
  absl::Duration progress_timeout = absl::Minutes(5);
};

class MetricsServer final : public Callback {
 public:
  // Starts to answer requests, on separate threads, so steps never wait for a request. Returns
  // InvalidArgument if the address is malformed or is not an address of this host, and Unavailable
  // if the port is in use. Both errors name the address.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const MetricsServerOptions& options);
  ~MetricsServer() override;

  int port() const;

  // Sets what /readyz reports as the reason why the process is not ready, such as `loading data`,
  // until the next step ends. Clears a failure, because a process that waits is recovering from it.
  void SetWaiting(std::string what);
  // Makes /healthz and /readyz answer 503, with this error. Errors that Fit returns are reported
  // without this call.
  void Fail(const absl::Status& why);

  absl::Status OnTrainBegin(TrainingState& state) override;
  absl::Status OnStepBegin(TrainingState& state) override;
  absl::Status OnStep(TrainingState& state) override;
  void OnException(TrainingState& state, const absl::Status& why) override;

 private:
  explicit MetricsServer(std::unique_ptr<RunMonitor> monitor);

  const std::unique_ptr<RunMonitor> monitor_;
  std::unique_ptr<HttpServer> server_;  // uses the monitor
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_METRICS_SERVER_H_
