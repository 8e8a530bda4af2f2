// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/cluster_flags.h"

#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "distribute/cluster/connections/authentication.h"
#include "distribute/cluster/connections/tls_files.h"
#include "distribute/strategy/devices.h"
#include "distribute/strategy/ignored_workers.h"
#include "distribute/strategy/multi_worker_mirrored_strategy.h"
#include "framework/core/log_line.h"
#include "framework/core/mutex.h"
#include "framework/core/state_report.h"
#include "framework/core/status.h"
#include "framework/core/thread.h"
#include "framework/runtime/error_report.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/trace.h"
#include "framework/session/session.h"

ABSL_FLAG(std::string, strategy, "auto",
          "mirrored (only this process), multi_worker, or auto (depends on the environment)");
ABSL_FLAG(
    std::vector<std::string>, cluster_spec, {},
    "addresses of all workers, HOST:PORT,…; the first worker serves the coordination service");
ABSL_FLAG(std::optional<int>, task_index, std::nullopt,
          "index of this worker's address in --cluster_spec");
ABSL_FLAG(absl::Duration, connect_timeout, absl::Minutes(5),
          "how long to wait for the coordination service and the other workers");
ABSL_FLAG(absl::Duration, heartbeat_timeout, absl::Seconds(10),
          "how long a worker can go without a heartbeat before the others consider it lost");
ABSL_FLAG(absl::Duration, progress_timeout, absl::Minutes(5),
          "how long a worker can be in a step without starting a collective before the others "
          "consider it hung");
ABSL_FLAG(absl::Duration, prepare_timeout, absl::Minutes(30),
          "how long to wait for a worker that is alive but busy loading data, compiling or running "
          "a callback");
ABSL_FLAG(std::optional<absl::Duration>, collective_timeout, std::nullopt,
          "how long workers wait for each other in a collective; default: 10 minutes more than "
          "--prepare_timeout");
ABSL_FLAG(std::optional<absl::Duration>, rejoin_timeout, std::nullopt,
          "how long workers on CPUs wait for a lost worker to return instead of ending; requires a "
          "program that uses RunWithRejoin and a launcher that restarts the worker, such as "
          "`mirrorflow launch`; 0: end immediately; default: $MIRRORFLOW_REJOIN_TIMEOUT, which "
          "launch sets, or 0");
ABSL_FLAG(std::string, secret_file, "",
          "file with mode 0600 that contains the secret that all workers share; default: "
          "$MIRRORFLOW_SECRET_FILE");
ABSL_FLAG(std::string, job, "",
          "job name, which distinguishes the job from jobs with the same secret or with no secret; "
          "default: $MIRRORFLOW_JOB, or the job id from SLURM, torchrun or MPI; with an external "
          "coordinator, there is no default");
ABSL_FLAG(std::string, bind, "",
          "ADDRESS or ADDRESS:PORT of this host where the coordination service listens; default: "
          "the coordinator's address in the cluster");
ABSL_FLAG(std::string, advertise, "",
          "ADDRESS or ADDRESS:PORT where the other workers reach this process; default: --bind, "
          "or the address of the network interface that routes to the coordination service");
ABSL_FLAG(std::string, external_coordinator, "",
          "HOST:PORT of a `mirrorflow coordinator` that runs the coordination service instead of "
          "worker 0");
ABSL_FLAG(
    std::string, tls_cert, "",
    "PEM file with this process's certificate, for encrypting connections to the coordination "
    "service and data over TCP; requires --tls_key and --tls_ca");
ABSL_FLAG(std::string, tls_key, "", "PEM file with mode 0600 that contains this process's key");
ABSL_FLAG(std::string, tls_ca, "", "PEM file with the authorities that sign the certificates");
ABSL_FLAG(
    std::string, collective, "auto",
    "how workers exchange data: shared_memory (all on one host), tcp (authenticated by the secret, "
    "encrypted with certificates), ucx, or "
    "auto (shared memory on a host; between hosts tcp, or ucx if all have RDMA and the job has "
    "neither a secret nor certificates)");
ABSL_FLAG(int, ring_from, 0,
          "CPU all-reduces use a ring between at least this many hosts; 0: never");
ABSL_FLAG(std::string, wire_dtype, "float",
          "dtype of all-reduced floats between CPUs on different hosts: float, or bfloat16, which "
          "halves the bytes but rounds the values");
ABSL_FLAG(bool, insecure, false,
          "allow workers on several hosts without a secret, in a network where every process is "
          "trusted");

namespace mirrorflow {

namespace {

absl::StatusOr<std::string> SecretOfFlags() {
  const Environment environment = ProcessEnvironment();
  std::string path = absl::GetFlag(FLAGS_secret_file);
  const auto variable = environment.find("MIRRORFLOW_SECRET_FILE");
  const bool by_flag = !path.empty();
  if (!by_flag && variable != environment.end()) path = variable->second;
  if (path.empty()) return std::string();
  return Annotate(ReadSecretFile(path), by_flag ? "--secret_file" : "MIRRORFLOW_SECRET_FILE");
}

// With a shorter timeout, a busy host would appear to be dead.
constexpr absl::Duration kMinTimeout = absl::Milliseconds(100);

absl::Status CheckTimeouts() {
  const std::pair<absl::string_view, absl::Duration> timeouts[] = {
      {"connect_timeout", absl::GetFlag(FLAGS_connect_timeout)},
      {"heartbeat_timeout", absl::GetFlag(FLAGS_heartbeat_timeout)},
      {"progress_timeout", absl::GetFlag(FLAGS_progress_timeout)},
      {"prepare_timeout", absl::GetFlag(FLAGS_prepare_timeout)},
      {"collective_timeout",
       absl::GetFlag(FLAGS_collective_timeout).value_or(absl::InfiniteDuration())}};
  for (const auto& [flag, timeout] : timeouts) {
    MF_RETURN_IF_ERROR(CheckFlagDuration(flag, timeout, kMinTimeout));
  }
  return CheckFlagDuration("rejoin_timeout",
                           absl::GetFlag(FLAGS_rejoin_timeout).value_or(absl::ZeroDuration()),
                           absl::ZeroDuration());
}

// Returns kExitCluster if the error has one of these codes or carries a worker's index, otherwise
// `code`.
ExitCode CodeOfWorkers(const absl::Status& status, absl::Span<const absl::StatusCode> of_cluster,
                       ExitCode code) {
  const std::optional<Failure> failure = FailureOf(status);
  const bool names_worker = failure.has_value() && failure->worker >= 0;
  return names_worker || absl::c_linear_search(of_cluster, status.code()) ? kExitCluster : code;
}

absl::Status ChooseDevicesOfFlags(const LocalWorker& worker, MirroredStrategy::Options* options) {
  MF_ASSIGN_OR_RETURN(LocalDevices devices,
                      Annotate(ChooseDevices(options->devices, options->num_cpu_replicas,
                                             options->threads_per_replica, worker),
                               options->devices.empty() ? "--replicas" : "--devices"));
  options->devices = std::move(devices.names);
  options->threads_per_replica = devices.threads_per_replica;
  return absl::OkStatus();
}

absl::StatusOr<ExchangeOptions> ExchangeOfFlags() {
  ExchangeOptions exchange = {.ring_from = absl::GetFlag(FLAGS_ring_from)};
  if (exchange.ring_from != 0 && exchange.ring_from < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--ring_from: out of range; expected 0 or at least 2, got ", exchange.ring_from));
  }
  const std::string dtype = absl::GetFlag(FLAGS_wire_dtype);
  MF_RETURN_IF_ERROR(CheckChoice("wire_dtype", dtype, {"float", "bfloat16"}));
  if (dtype == "bfloat16") exchange.wire_dtype = DT_BFLOAT16;
  return exchange;
}

}  // namespace

absl::StatusOr<JoinOptions> JoinOptionsOfFlags() {
  MF_RETURN_IF_ERROR(CheckTimeouts());
  JoinOptions options = {.insecure = absl::GetFlag(FLAGS_insecure),
                         .job = absl::GetFlag(FLAGS_job),
                         .tls = {.certificate = absl::GetFlag(FLAGS_tls_cert),
                                 .key = absl::GetFlag(FLAGS_tls_key),
                                 .authorities = absl::GetFlag(FLAGS_tls_ca)},
                         .bind = absl::GetFlag(FLAGS_bind),
                         .advertise = absl::GetFlag(FLAGS_advertise),
                         .external_coordinator = !absl::GetFlag(FLAGS_external_coordinator).empty(),
                         .connect_timeout = absl::GetFlag(FLAGS_connect_timeout),
                         .prepare_timeout = absl::GetFlag(FLAGS_prepare_timeout),
                         .heartbeat_timeout = absl::GetFlag(FLAGS_heartbeat_timeout),
                         .progress_timeout = absl::GetFlag(FLAGS_progress_timeout),
                         .rejoin_timeout = absl::GetFlag(FLAGS_rejoin_timeout)};
  MF_ASSIGN_OR_RETURN(options.secret, SecretOfFlags());
  // Read the files now. Later, the error for an unreadable file would look like a refused worker.
  if (!options.tls.empty()) MF_RETURN_IF_ERROR(ReadTlsFiles(options.tls).status());
  return options;
}

absl::StatusOr<std::optional<Cluster>> ClusterOfFlags() {
  MF_RETURN_IF_ERROR(CheckTimeouts());
  const std::string name = absl::GetFlag(FLAGS_strategy);
  MF_RETURN_IF_ERROR(CheckChoice("strategy", name, {"auto", "mirrored", "multi_worker"}));
  if (name == "mirrored" && !absl::GetFlag(FLAGS_cluster_spec).empty()) {
    return absl::InvalidArgumentError(
        "--strategy=mirrored: cannot be combined with --cluster_spec; expected only one of them");
  }
  if (name == "mirrored") return std::nullopt;
  MF_ASSIGN_OR_RETURN(Cluster cluster,
                      ClusterResolver::FromEnvironment(
                          ProcessEnvironment(), {.cluster_spec = absl::GetFlag(FLAGS_cluster_spec),
                                                 .task_index = absl::GetFlag(FLAGS_task_index)}));
  // Never destroyed, because the process's last output is its error line.
  const std::string job = absl::GetFlag(FLAGS_job);
  [[maybe_unused]] static const auto* const identity = new LogIdentity(
      job.empty() ? cluster.job : job,
      cluster.num_workers > 1 ? std::optional<int>(cluster.task_index) : std::nullopt);
  PrintWarnings(cluster);
  cluster.warnings.clear();  // otherwise, the strategy would also print them
  const std::string external = absl::GetFlag(FLAGS_external_coordinator);
  if (!external.empty() && cluster.num_workers == 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--external_coordinator: requires several workers; expected at least 2 in the "
                     "cluster, got ",
                     cluster.ToString()));
  }
  if (!external.empty()) cluster.coordinator = external;
  if (name == "auto" && cluster.num_workers == 1) return std::nullopt;
  PrintErrorLine(absl::LogSeverity::kInfo, cluster.ToString());
  return cluster;
}

absl::StatusOr<std::unique_ptr<Strategy>> StrategyOfCluster(Cluster cluster,
                                                            MirroredStrategy::Options options,
                                                            ExitCode* code) {
  *code = kExitUsage;
  MF_RETURN_IF_ERROR(ChooseDevicesOfFlags({cluster.local_size, cluster.local_rank}, &options));
  options.collective_timeout = absl::GetFlag(FLAGS_collective_timeout);
  MF_ASSIGN_OR_RETURN(JoinOptions join, JoinOptionsOfFlags());
  MF_ASSIGN_OR_RETURN(
      join.collective,
      Annotate(ParseCollectiveKind(absl::GetFlag(FLAGS_collective)), "--collective"));
  MF_ASSIGN_OR_RETURN(join.exchange, ExchangeOfFlags());
  auto strategy = MultiWorkerMirroredStrategy::Create(
      {.cluster = std::move(cluster), .replicas = std::move(options), .join = std::move(join)});
  using enum absl::StatusCode;  // other codes are about this worker's settings
  if (!strategy.ok()) {
    *code =
        CodeOfWorkers(strategy.status(),
                      {kDeadlineExceeded, kPermissionDenied, kAlreadyExists, kCancelled}, *code);
  }
  return strategy;
}

absl::StatusOr<std::unique_ptr<Strategy>> StrategyOfFlags(std::optional<Cluster> cluster,
                                                          MirroredStrategy::Options options,
                                                          ExitCode* code) {
  *code = kExitResources;
  MF_RETURN_IF_ERROR(StateReport::LogOnSignal());
  *code = kExitUsage;
  if (cluster.has_value()) return StrategyOfCluster(*std::move(cluster), std::move(options), code);
  MF_RETURN_IF_ERROR(ChooseDevicesOfFlags({}, &options));
  return MirroredStrategy::Create(options);
}

std::string PathOfWorker(const std::string& path, const Strategy& strategy) {
  if (!absl::StrContains(path, "{worker}")) return strategy.worker() == 0 ? path : "";
  return absl::StrReplaceAll(path, {{"{worker}", absl::StrCat(strategy.worker())}});
}

absl::Status WriteTraceOfWorkers(Session& session, const TraceWriter& trace,
                                 const std::string& path, const Strategy& strategy) {
  if (absl::StrContains(path, "{worker}")) {
    MF_RETURN_IF_ERROR(session.TraceTo(nullptr));
  } else {
    MF_RETURN_IF_ERROR(session.GatherTrace());
  }
  const std::string own = PathOfWorker(path, strategy);
  return own.empty() ? absl::OkStatus() : trace.WriteFile(own);
}

struct CleanupWatchdog::Watch {
  Mutex mutex;
  CondVar stopped;
  bool is_stopped ABSL_GUARDED_BY(mutex) = false;

  // Returns whether Stop() was called within `timeout`.
  bool IsStoppedWithin(absl::Duration timeout) {
    MutexLock lock(&mutex);
    return stopped.WaitFor(lock, timeout,
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return is_stopped; });
  }
};

void CleanupWatchdog::Start(const Strategy& strategy, const absl::Status& failure) {
  if (strategy.topology().num_workers() == 1) return;
  Stop();
  watch_ = std::make_shared<Watch>();
  const absl::Duration timeout = 2 * absl::GetFlag(FLAGS_heartbeat_timeout);
  absl::StatusOr<std::thread> thread = StartThread("cleanup", [watch = watch_, timeout, failure] {
    if (watch->IsStoppedWithin(timeout)) return;
    const std::string what = absl::StrCat("cleanup: the process hangs; expected it to end within ",
                                          absl::FormatDuration(timeout));
    if (failure.ok()) EndHangingProcess(absl::InternalError(what), kExitInternal);
    EndHangingProcess(Annotate(failure, what), kExitCluster);
  });
  if (thread.ok()) thread->detach();
}

void CleanupWatchdog::Stop() {
  if (watch_ == nullptr) return;
  MutexLock lock(&watch_->mutex);
  watch_->is_stopped = true;
  watch_->stopped.NotifyAll();
}

ExitCode ExitCodeOf(const absl::Status& status, const Strategy& strategy, ExitCode code) {
  if (strategy.topology().num_workers() == 1) return code;
  using enum absl::StatusCode;
  return CodeOfWorkers(status, {kDeadlineExceeded, kUnavailable, kAborted, kCancelled}, code);
}

}  // namespace mirrorflow
