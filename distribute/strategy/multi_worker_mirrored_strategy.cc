// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/multi_worker_mirrored_strategy.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/authentication.h"
#include "distribute/cluster/join_cluster.h"
#include "distribute/strategy/devices.h"
#include "distribute/strategy/extensions.h"
#include "distribute/strategy/ignored_workers.h"
#include "distribute/strategy/mirrored_backend.h"
#include "distribute/strategy/option_ranges.h"
#include "framework/core/failpoint.h"
#include "framework/core/log.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/error_report.h"
#include "framework/runtime/failure.h"
#include "kernels/cuda/gpu.h"

namespace mirrorflow {
namespace {

using Options = MultiWorkerMirroredStrategy::Options;

SessionOptions ForSessions(const Options& options) {
  SessionOptions session = options.replicas.ForSessions();
  session.connect_timeout = options.join.connect_timeout;
  session.prepare_timeout = options.join.prepare_timeout;
  return session;
}

// Limits consecutive rejoins of the same processes, because workers that fail in the same way each
// time would never stop.
constexpr int kMaxUnchangedRejoins = 3;

absl::Status CheckRanges(const Options& options) {
  const JoinOptions& join = options.join;
  MF_RETURN_IF_ERROR(options.replicas.Check());
  MF_RETURN_IF_ERROR(CheckTimeouts({{"connect_timeout", join.connect_timeout},
                                    {"prepare_timeout", join.prepare_timeout},
                                    {"heartbeat_timeout", join.heartbeat_timeout},
                                    {"progress_timeout", join.progress_timeout}}));
  if (const absl::Duration rejoin = *join.rejoin_timeout; rejoin < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rejoin_timeout: out of range; expected at least 0, got ", absl::FormatDuration(rejoin)));
  }
  return CheckAtLeast("ring_from", join.exchange.ring_from, 0);
}

absl::Status CheckGpuOptions(absl::Span<const int> gpus, const Options& options) {
  const JoinOptions& join = options.join;
  const int num_workers = options.cluster.num_workers;
  MF_RETURN_IF_ERROR(CheckGpuReplicas(gpus, num_workers));
  if (gpus.empty()) return absl::OkStatus();
  if (num_workers > 1 && join.collective != CollectiveKind::kAuto) {
    return absl::InvalidArgumentError(
        absl::StrCat("collective: the GPUs of several workers always exchange data over NCCL; "
                     "expected auto, got ",
                     CollectiveKindName(join.collective)));
  }
  if (join.exchange.ring_from != 0 || join.exchange.wire_dtype != DT_FLOAT) {
    return absl::InvalidArgumentError(
        "ring_from, wire_dtype: not supported with GPUs, which exchange data over NCCL; expected "
        "CPU devices");
  }
  if (*join.rejoin_timeout > absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "rejoin_timeout: not supported with GPUs, whose workers all end when one is lost; expected "
        "0, or CPU devices");
  }
  return absl::OkStatus();
}

WorkerReplicas Describe(const std::vector<std::string>& devices, absl::Span<const int> gpus,
                        const MirroredStrategy::Options& options, bool rejoins) {
  const auto on_or_off = [](bool on) { return on ? "on" : "off"; };
  const bool autotunes = options.compile.kernels.autotune;
  WorkerReplicas replicas = {.devices = devices,
                             .settings = {{"seed", absl::StrCat(options.seed)},
                                          {"autotune", on_or_off(autotunes)},
                                          {"rejoin", on_or_off(rejoins)}},
                             .collective_timeout = *options.collective_timeout,
                             .measures_link = autotunes};
  if (gpus.empty()) return replicas;
  for (const int gpu : gpus) replicas.gpu_uuids.push_back(DescribeGpu(gpu).uuid);
  const std::optional<bool>& captures = options.capture_collectives;
  replicas.settings.insert(
      replicas.settings.end(),
      {{"capture_steps", on_or_off(options.capture_steps)},
       {"capture_collectives", captures.has_value() ? on_or_off(*captures) : "default"},
       {"deterministic", on_or_off(options.deterministic)}});
  return replicas;
}

}  // namespace

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const Options& options, Topology topology,
                                                         WorkerReplicas replicas)
    : Strategy("MultiWorkerMirroredStrategy", ForSessions(options)),
      options_(options),
      topology_(std::move(topology)),
      replicas_(std::make_unique<const WorkerReplicas>(std::move(replicas))),
      process_(RandomNumber()) {}

MultiWorkerMirroredStrategy::~MultiWorkerMirroredStrategy() = default;

absl::StatusOr<std::unique_ptr<MultiWorkerMirroredStrategy>> MultiWorkerMirroredStrategy::Create(
    const Options& given) {
  Options options = given;
  const Cluster& cluster = options.cluster;
  if (!options.join.rejoin_timeout) options.join.rejoin_timeout = cluster.rejoin_timeout;
  MF_RETURN_IF_ERROR(CheckRanges(options));
  MF_ASSIGN_OR_RETURN(const LocalDevices devices,
                      ChooseDevices(options.replicas.devices, options.replicas.num_cpu_replicas,
                                    options.replicas.threads_per_replica,
                                    {cluster.local_size, cluster.local_rank}));
  options.replicas.threads_per_replica = devices.threads_per_replica;
  MF_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOf(devices.names));
  MF_RETURN_IF_ERROR(CheckGpuOptions(gpus, options));
  if (options.replicas.extensions != nullptr) {
    MF_RETURN_IF_ERROR(options.replicas.extensions->Check());
  }
  // Inside a step, a worker may wait up to `prepare_timeout` for a worker that is still preparing,
  // in addition to the time of the step itself.
  const absl::Duration late = options.join.prepare_timeout;
  options.replicas =
      options.replicas.WithTimeouts(late + absl::Minutes(10), late + absl::Minutes(20));
  Failpoint::SetWorker(cluster.task_index);
  PrintWarnings(cluster);
  std::unique_ptr<MultiWorkerMirroredStrategy> strategy(new MultiWorkerMirroredStrategy(
      options, Topology::OneWorker(devices.names, /*one_domain=*/gpus.empty()),
      Describe(devices.names, gpus, options.replicas,
               *options.join.rejoin_timeout > absl::ZeroDuration())));
  if (cluster.num_workers > 1) {
    JoinWorkersOfEnvironment();
    MF_RETURN_IF_ERROR(strategy->Join(MonotonicTime::Now() + options.join.connect_timeout));
  }
  return strategy;
}

absl::Status MultiWorkerMirroredStrategy::Join(MonotonicTime deadline) {
  JoinOptions join = options_.join;
  for (;;) {
    join.connect_timeout = deadline - MonotonicTime::Now();
    absl::Status status = JoinOnce(join);
    if (status.ok()) return status;
    joined_ = nullptr;
    if (!rejoins() || !IsLostWorker(status) || MonotonicTime::Now() >= deadline) return status;
  }
}

absl::Status MultiWorkerMirroredStrategy::JoinOnce(const JoinOptions& join) {
  MF_ASSIGN_OR_RETURN(joined_, JoinCluster(options_.cluster, *replicas_, join));
  topology_ = joined_->topology();
  num_inputs_ = 0;
  if (!rejoins()) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(std::vector<std::string> processes,
                      joined_->group()->AllGather("processes", absl::StrCat(process_),
                                                  MonotonicTime::Now() + join.connect_timeout));
  num_unchanged_rejoins_ = processes == processes_ ? num_unchanged_rejoins_ + 1 : 0;
  processes_ = std::move(processes);
  return absl::OkStatus();
}

bool MultiWorkerMirroredStrategy::rejoins() const {
  return options_.cluster.num_workers > 1 && *options_.join.rejoin_timeout > absl::ZeroDuration();
}

absl::Status MultiWorkerMirroredStrategy::CheckJoined() const {
  if (joined_ != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(name(), ": has left its cluster, because Rejoin failed; create a new strategy"));
}

absl::Status MultiWorkerMirroredStrategy::AwaitOtherWorkers() const {
  if (!rejoins()) return absl::OkStatus();
  MF_RETURN_IF_ERROR(CheckJoined());
  return joined_->group()->Barrier("function done",
                                   MonotonicTime::Now() + options_.join.prepare_timeout);
}

absl::Status MultiWorkerMirroredStrategy::Rejoin(const absl::Status& why) {
  if (!rejoins() || joined_ == nullptr || !IsLostWorker(why)) return why;
  if (joined_->is_stopped()) return why;  // the whole job is ending; the lost worker won't return
  if (joined_->is_in_use()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "rejoin: a session or a DistributedDataset of ", name(),
        " still exists; create and destroy all of them in RunWithRejoin's function; failed after ",
        why.message()));
  }
  if (num_unchanged_rejoins_ >= kMaxUnchangedRejoins) {
    return Annotate(why, absl::StrCat("rejoined ", num_unchanged_rejoins_,
                                      " times in a row without a new process"));
  }
  const absl::Duration timeout = *options_.join.rejoin_timeout;
  LogWarning(absl::StrCat("waiting up to ", absl::FormatDuration(timeout),
                          " for all workers to return: ", why.message()));
  const MonotonicTime deadline = MonotonicTime::Now() + timeout;
  joined_->group()->SetStopped("it rejoins after a failure");
  joined_ = nullptr;
  const absl::Status joined = Join(deadline);
  if (joined.ok() || absl::IsInvalidArgument(joined)) return joined;
  const std::string what =
      absl::IsDeadlineExceeded(joined)
          ? absl::StrCat("not all workers have returned within ", absl::FormatDuration(timeout))
          : std::string("cannot rejoin");
  return Annotate(why, absl::StrCat(what, " (", joined.message(), ")"));
}

absl::StatusOr<SessionBackend> MultiWorkerMirroredStrategy::MakeBackend() const {
  if (options_.cluster.num_workers == 1) {
    return CreateMirroredBackend(topology_, options_.replicas);
  }
  MF_RETURN_IF_ERROR(CheckJoined());
  const std::vector<std::string> devices = DevicesOfWorker(topology_, worker());
  MF_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOf(devices));
  MF_ASSIGN_OR_RETURN(SessionBackend backend,
                      gpus.empty() ? MakeCpuBackend(devices)
                                   : CreateGpuBackend(topology_, worker(), options_.replicas,
                                                      joined_->network_device()));
  backend.core_sharers = joined_->core_sharers();
  backend.workers = joined_->NewGroup();
  if (options_.end_hanging_process) {
    backend.hang_policy = {.inside_step = options_.join.heartbeat_timeout,
                           .between_steps = options_.join.progress_timeout,
                           .end_process = [](const absl::Status& failure) {
                             EndHangingProcess(failure, kClusterExitCode);
                           }};
  }
  return backend;
}

absl::StatusOr<SessionBackend> MultiWorkerMirroredStrategy::MakeCpuBackend(
    absl::Span<const std::string> devices) const {
  const std::shared_ptr<HostMemory> host_memory = joined_->host_memory();
  DeviceOptions options = {.cpu_threads = *options_.replicas.threads_per_replica};
  if (host_memory != nullptr) {
    options.cpu_memory = [host_memory](size_t bytes) { return host_memory->Allocate(bytes); };
  }
  MF_ASSIGN_OR_RETURN(SessionBackend backend,
                      CreateBackend(devices, options, options_.replicas.extensions));
  backend.topology = topology_;
  backend.has_teams = true;
  backend.connect = joined_->Connect();
  backend.link = joined_->link();
  if (host_memory != nullptr) {
    backend.share_memory = [host_memory](size_t bytes, absl::string_view name, WorkerGroup& workers,
                                         MonotonicTime deadline) {
      return host_memory->Share(bytes, name, workers, deadline);
    };
  }
  return backend;
}

absl::StatusOr<std::unique_ptr<InputAgreement>> MultiWorkerMirroredStrategy::AgreeOnInput() const {
  MF_RETURN_IF_ERROR(CheckJoined());
  std::vector<int> replicas;
  for (int w = 0; w < topology_.num_workers(); ++w) {
    replicas.push_back(static_cast<int>(topology_.RanksOfWorker(w).size()));
  }
  return std::make_unique<InputAgreement>(
      InputAgreement::Options{.group = joined_->group(),
                              .name = absl::StrCat("input ", num_inputs_++),
                              .replicas = std::move(replicas),
                              .timeout = *options_.replicas.step_timeout});
}

}  // namespace mirrorflow
