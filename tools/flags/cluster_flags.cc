// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/cluster_flags.h"

#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "distribute/cluster/cluster_resolver.h"
#include "distribute/cluster/coordination/authentication.h"
#include "distribute/strategy/devices.h"
#include "distribute/strategy/multi_worker_mirrored_strategy.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

ABSL_FLAG(std::string, strategy, "auto",
          "mirrored (this process alone), multi_worker, or auto: what the environment says");
ABSL_FLAG(std::vector<std::string>, cluster_spec, {},
          "addresses of all workers, HOST:PORT,…; the first serves the coordination service");
ABSL_FLAG(std::optional<int>, task_index, std::nullopt,
          "which address of --cluster_spec is this worker's");
ABSL_FLAG(absl::Duration, connect_timeout, absl::Minutes(5),
          "how long to wait for the coordination service and the other workers");
ABSL_FLAG(std::string, secret_file, "",
          "file, of mode 0600, with the secret that all workers share; default: "
          "$MIRRORFLOW_SECRET_FILE");
ABSL_FLAG(std::string, collective, "auto",
          "how workers exchange data: shared_memory (all on one host), ucx (the network), or auto "
          "(shared memory on a host, the network between hosts)");
ABSL_FLAG(bool, insecure, false,
          "allow workers on several hosts without a secret, in a network where every process is "
          "trusted");

namespace mirrorflow {
namespace {

absl::StatusOr<std::string> SecretOfFlags(const Environment& environment) {
  std::string path = absl::GetFlag(FLAGS_secret_file);
  const auto variable = environment.find("MIRRORFLOW_SECRET_FILE");
  const bool by_flag = !path.empty();
  if (!by_flag && variable != environment.end()) path = variable->second;
  if (path.empty()) return std::string();
  absl::StatusOr<std::string> secret = ReadSecretFile(path);
  if (!secret.ok()) {
    return Annotate(secret.status(), by_flag ? "--secret_file" : "MIRRORFLOW_SECRET_FILE");
  }
  return secret;
}

// Errors about other workers carry their numbers; the others are about this worker's settings.
ExitCode CodeOfJoining(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kAlreadyExists:
      return kExitCluster;
    default:
      return ExitCodeOf(status, kExitUsage);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> StrategyOfFlags(MirroredStrategy::Options options,
                                                          ExitCode* code) {
  *code = kExitUsage;
  auto devices = ChooseDevices(options.devices, options.num_cpu_replicas);
  if (!devices.ok()) {
    return Annotate(devices.status(), options.devices.empty() ? "--replicas" : "--devices");
  }
  options.devices = *std::move(devices);
  const std::string name = absl::GetFlag(FLAGS_strategy);
  if (name != "auto" && name != "mirrored" && name != "multi_worker") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--strategy: unknown; expected one of auto, mirrored, multi_worker, got '", name, "'"));
  }
  const Environment environment = ProcessEnvironment();
  Cluster cluster;
  if (name != "mirrored") {
    MF_ASSIGN_OR_RETURN(cluster,
                        ClusterResolver::FromEnvironment(
                            environment, {.cluster_spec = absl::GetFlag(FLAGS_cluster_spec),
                                          .task_index = absl::GetFlag(FLAGS_task_index)}));
    for (const std::string& warning : cluster.warnings) {
      std::fprintf(stderr, "WARNING: %s\n", warning.c_str());
    }
  }
  if (name == "mirrored" || (name == "auto" && cluster.num_workers == 1)) {
    MF_ASSIGN_OR_RETURN(auto mirrored, MirroredStrategy::Create(options));
    return std::unique_ptr<Strategy>(std::move(mirrored));
  }
  std::fprintf(stderr, "%s\n", cluster.ToString().c_str());
  MF_ASSIGN_OR_RETURN(const std::string secret, SecretOfFlags(environment));
  const auto collective = ParseCollectiveKind(absl::GetFlag(FLAGS_collective));
  if (!collective.ok()) return Annotate(collective.status(), "--collective");
  auto strategy = MultiWorkerMirroredStrategy::Create(
      {.cluster = cluster,
       .replicas = options,
       .secret = secret,
       .insecure = absl::GetFlag(FLAGS_insecure),
       .collective = *collective,
       .connect_timeout = absl::GetFlag(FLAGS_connect_timeout)});
  if (strategy.ok()) return std::unique_ptr<Strategy>(*std::move(strategy));
  *code = CodeOfJoining(strategy.status());
  return strategy.status();
}

std::string PathOfWorker(const std::string& path, const Strategy& strategy) {
  if (!absl::StrContains(path, "{worker}")) return strategy.worker() == 0 ? path : "";
  return absl::StrReplaceAll(path, {{"{worker}", absl::StrCat(strategy.worker())}});
}

ExitCode ExitCodeOf(const absl::Status& status, ExitCode code) {
  const std::optional<Failure> failure = FailureOf(status);
  return failure.has_value() && failure->worker >= 0 && code != kExitNumeric ? kExitCluster : code;
}

}  // namespace mirrorflow
