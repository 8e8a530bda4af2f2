// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/metrics_server.h"

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/host_port.h"
#include "distribute/strategy/option_ranges.h"
#include "framework/core/log.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/workers/connection.h"
#include "train/trainer/monitoring/http_server.h"
#include "train/trainer/monitoring/run_monitor.h"

namespace mirrorflow {
namespace {

// The restart counts that `mirrorflow launch` and torchrun pass to their processes.
constexpr const char* kRestartVariables[] = {"MIRRORFLOW_RESTART_COUNT",
                                             "TORCHELASTIC_RESTART_COUNT"};

int64_t RestartsSoFar() {
  const Environment environment = ProcessEnvironment();
  for (const char* const name : kRestartVariables) {
    const auto variable = environment.find(name);
    int64_t count = 0;
    if (variable != environment.end() && absl::SimpleAtoi(variable->second, &count) && count >= 0) {
      return count;
    }
  }
  return 0;
}

// Parses `options.address`, and adds this worker's index on the host to the port.
absl::StatusOr<HostPort> AddressOf(const MetricsServerOptions& options) {
  const absl::string_view text = options.address;
  const size_t colon = text.rfind(':');
  HostPort address;
  if (colon != text.npos) address.host = std::string(text.substr(0, colon));
  const bool has_brackets =
      absl::StartsWith(address.host, "[") && absl::EndsWith(address.host, "]");
  const bool is_valid =
      absl::SimpleAtoi(text.substr(colon == text.npos ? 0 : colon + 1), &address.port) &&
      address.port >= 0 && address.port <= 65535 &&
      (has_brackets || !absl::StrContains(address.host, ':'));
  if (!is_valid) {
    return absl::InvalidArgumentError(
        absl::StrCat("malformed address; expected HOST:PORT, [IPV6]:PORT, :PORT or PORT, got '",
                     Printable(text), "'"));
  }
  if (has_brackets) address.host = address.host.substr(1, address.host.size() - 2);
  if (address.host.empty()) address.host = "127.0.0.1";
  if (address.port != 0) address.port += options.cluster.local_rank.value_or(0);
  if (address.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", Printable(text), "': port out of range for worker ", *options.cluster.local_rank,
        " on this host; expected at most 65535, got ", address.port));
  }
  return address;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const MetricsServerOptions& options) {
  MF_RETURN_IF_ERROR(CheckTimeouts({{"progress_timeout", options.progress_timeout}}));
  MF_ASSIGN_OR_RETURN(HostPort address, AddressOf(options));
  const Cluster& cluster = options.cluster;
  std::unique_ptr<MetricsServer> server(new MetricsServer(std::make_unique<RunMonitor>(
      RunMonitor::Options{.job = options.job.empty() ? cluster.job : options.job,
                          .worker = cluster.task_index,
                          .num_workers = cluster.num_workers,
                          .restarts = RestartsSoFar(),
                          .progress_timeout = options.progress_timeout})));
  MF_ASSIGN_OR_RETURN(server->server_,
                      HttpServer::Start(address.ToString(),
                                        [monitor = server->monitor_.get()](absl::string_view path) {
                                          return monitor->Answer(path);
                                        }));
  address.port = server->port();
  LogInfo(absl::StrCat("serving metrics at http://", address.ToString(), "/metrics"));
  return server;
}

MetricsServer::MetricsServer(std::unique_ptr<RunMonitor> monitor) : monitor_(std::move(monitor)) {}
MetricsServer::~MetricsServer() = default;

int MetricsServer::port() const { return server_->port(); }
void MetricsServer::SetWaiting(std::string what) { monitor_->SetWaiting(std::move(what)); }
void MetricsServer::Fail(const absl::Status& why) { monitor_->Fail(why); }

absl::Status MetricsServer::OnTrainBegin(TrainingState& state) {
  monitor_->SetWaiting(state.strategy.topology().num_workers() > 1
                           ? "the first step, which compiles and waits for the other workers"
                           : "the first step, which compiles");
  monitor_->SetReplicas(state.session.num_local_replicas(), state.session.world_size());
  monitor_->SetVariableBytes(state.session.variable_bytes());
  return OnStepBegin(state);  // a resumed run can begin after the step's OnStepBegin
}

absl::Status MetricsServer::OnStepBegin(TrainingState& state) {
  monitor_->Watch(state.session.connection().shared_progress());
  monitor_->BeginStep();
  return absl::OkStatus();
}

absl::Status MetricsServer::OnStep(TrainingState& state) {
  monitor_->EndStep({.step = state.position.step,
                     .examples = state.rows,
                     .loss = state.loss,
                     .reserved_bytes = state.session.reserved_bytes(),
                     .checkpoint_time = state.checkpoint_time});
  return absl::OkStatus();
}

void MetricsServer::OnException(TrainingState&, const absl::Status& why) { Fail(why); }

}  // namespace mirrorflow
