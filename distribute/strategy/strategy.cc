// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/strategy.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distribute/strategy/devices.h"
#include "distribute/strategy/extensions.h"
#include "distribute/strategy/ignored_workers.h"
#include "distribute/strategy/mirrored_backend.h"
#include "distribute/strategy/option_ranges.h"
#include "framework/core/status.h"
#include "framework/graph/creation_scope.h"

namespace mirrorflow {
namespace {

std::string NewName(absl::string_view kind) {
  static std::atomic<int64_t> last{0};
  return absl::StrCat(kind, " #", ++last);
}

}  // namespace

Strategy::Strategy(absl::string_view kind, SessionOptions options)
    : kind_(kind), name_(NewName(kind)), session_options_(std::move(options)) {}

absl::Status Strategy::CheckScopes(const Graph& graph) const {
  for (const Node* node : graph.Nodes()) {
    if (node->op().role != OpRole::kVariable || !node->has_attr(kCreationScopeAttr)) continue;
    const auto* const owner = node->attrs().find(kCreationScopeAttr)->second.get_if<std::string>();
    if (owner == nullptr || *owner == name_ || (owner->empty() && !requires_scope())) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        OpAndName(*node), ": the variable was created ",
        owner->empty() ? "outside the strategy's scope" : absl::StrCat("in the scope of ", *owner),
        "; create it in the scope of the session's strategy, ", name_,
        ": `auto mirrored = strategy->scope();`"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<InputAgreement>> Strategy::AgreeOnInput() const {
  return absl::UnimplementedError(
      "dataset: this strategy's workers cannot agree on their input; use AutoShardPolicy OFF, or "
      "compare_data = false with a policy other than FILE");
}

DistributedDataset Strategy::Distribute(const BatchProvider& dataset, int64_t epoch,
                                        const DistributeOptions& options) const {
  const AutoShardPolicy policy = options.auto_shard_policy;
  const bool alone = topology().num_workers() == 1;
  const bool reads_alone = alone || policy == AutoShardPolicy::kOff;
  const bool by_file = policy == AutoShardPolicy::kFile;
  const bool compares = !reads_alone && !by_file && options.compare_data;
  const absl::Status batched = dataset.CheckBatched();
  if (!batched.ok() && !compares) return DistributedDataset(batched, /*has_local_rows=*/true);
  if (reads_alone) {
    return DistributedDataset(FingerprintedBatches{dataset.MakeIterator(epoch, {})},
                              /*has_local_rows=*/!alone);
  }
  std::unique_ptr<InputAgreement> agreement;
  if (by_file || compares) {
    absl::StatusOr<std::unique_ptr<InputAgreement>> made = AgreeOnInput();
    if (!made.ok()) return DistributedDataset(made.status(), /*has_local_rows=*/true);
    agreement = *std::move(made);
  }
  const std::vector<int> ranks = topology().RanksOfWorker(worker());
  const BatchShard shard = {.first_rank = ranks[0],
                            .num_ranks = static_cast<int>(ranks.size()),
                            .world_size = topology().world_size()};
  if (by_file) {
    const FileShard files = {
        .worker = worker(), .num_workers = topology().num_workers(), .batch = shard};
    return DistributedDataset(dataset.OpenFiles(epoch, files), std::move(agreement));
  }
  const bool is_sharded = dataset.is_sharded();
  const auto open = [&]() -> absl::StatusOr<FingerprintedBatches> {
    MF_RETURN_IF_ERROR(batched);  // the agreement sends this error to all workers
    if (compares) return dataset.OpenShard(epoch, shard);
    return FingerprintedBatches{dataset.MakeIterator(epoch, shard)};
  };
  return DistributedDataset(open(), is_sharded, is_sharded ? shard : BatchShard(),
                            std::move(agreement));
}

absl::StatusOr<std::unique_ptr<Session>> Strategy::NewSession(const Graph& graph) const {
  MF_RETURN_IF_ERROR(graph.status());
  MF_RETURN_IF_ERROR(CheckScopes(graph));
  WarnOfIgnoredWorkers(kind_);
  MF_ASSIGN_OR_RETURN(SessionBackend backend, MakeBackend());
  return Session::Create(graph, std::move(backend), session_options_);
}

OneDeviceStrategy::OneDeviceStrategy(const Options& options)
    : Strategy("OneDeviceStrategy", {.seed = options.seed,
                                     .step_timeout = options.step_timeout,
                                     .max_bytes = options.max_bytes,
                                     .max_cached_steps = options.max_cached_steps,
                                     .max_concurrent_runs = options.max_concurrent_runs,
                                     .compile = options.compile}),
      options_(options),
      topology_(Topology::OneWorker({options.device}, /*one_domain=*/true)) {}

absl::StatusOr<std::unique_ptr<OneDeviceStrategy>> OneDeviceStrategy::Create(
    const Options& options) {
  MF_RETURN_IF_ERROR(CheckDevice(options.device));
  MF_RETURN_IF_ERROR(CheckTimeouts({{"step_timeout", options.step_timeout}}));
  MF_RETURN_IF_ERROR(CheckAtLeast("max_bytes", options.max_bytes, 1));
  MF_RETURN_IF_ERROR(CheckAtLeast("max_cached_steps", options.max_cached_steps, 1));
  MF_RETURN_IF_ERROR(CheckAtLeast("max_concurrent_runs", options.max_concurrent_runs, 0));
  MF_RETURN_IF_ERROR(CheckThreadsPerReplica(options.threads_per_replica));
  if (options.extensions != nullptr) MF_RETURN_IF_ERROR(options.extensions->Check());
  return std::unique_ptr<OneDeviceStrategy>(new OneDeviceStrategy(options));
}

absl::StatusOr<SessionBackend> OneDeviceStrategy::MakeBackend() const {
  MF_ASSIGN_OR_RETURN(SessionBackend backend,
                      CreateBackend(topology_.devices(),
                                    {.gpu = {.capture_steps = options_.capture_steps},
                                     .cpu_threads = options_.threads_per_replica},
                                    options_.extensions));
  backend.topology = topology_;
  return backend;
}

MirroredStrategy::MirroredStrategy(const Options& options, Topology topology)
    : Strategy("MirroredStrategy", options.ForSessions()),
      options_(options),
      topology_(std::move(topology)) {}

absl::Status MirroredStrategy::Options::Check() const {
  constexpr absl::Duration kDefault = absl::InfiniteDuration();
  MF_RETURN_IF_ERROR(CheckTimeouts({{"collective_timeout", collective_timeout.value_or(kDefault)},
                                    {"step_timeout", step_timeout.value_or(kDefault)}}));
  MF_RETURN_IF_ERROR(CheckAtLeast("bucket_bytes", bucket_bytes, 0));
  MF_RETURN_IF_ERROR(CheckThreadsPerReplica(threads_per_replica.value_or(1)));
  MF_RETURN_IF_ERROR(CheckAtLeast("max_bytes", max_bytes, 1));
  return CheckAtLeast("max_cached_steps", max_cached_steps, 1);
}

MirroredStrategy::Options MirroredStrategy::Options::WithTimeouts(absl::Duration collective,
                                                                  absl::Duration step) const {
  Options options = *this;
  if (!options.collective_timeout.has_value()) options.collective_timeout = collective;
  if (!options.step_timeout.has_value()) options.step_timeout = step;
  return options;
}

SessionOptions MirroredStrategy::Options::ForSessions() const {
  return {.seed = seed,
          .bucket_bytes = bucket_bytes,
          .step_timeout = *step_timeout,
          .pin_threads = pin_threads,
          .max_bytes = max_bytes,
          .max_cached_steps = max_cached_steps,
          .compile = compile};
}

absl::StatusOr<std::unique_ptr<MirroredStrategy>> MirroredStrategy::Create(const Options& given) {
  Options options = given.WithTimeouts(absl::Minutes(5), SessionOptions().step_timeout);
  MF_RETURN_IF_ERROR(options.Check());
  MF_ASSIGN_OR_RETURN(
      const LocalDevices devices,
      ChooseDevices(options.devices, options.num_cpu_replicas, options.threads_per_replica));
  options.threads_per_replica = devices.threads_per_replica;
  MF_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOf(devices.names));
  MF_RETURN_IF_ERROR(CheckGpuReplicas(gpus, /*num_workers=*/1));
  if (options.extensions != nullptr) MF_RETURN_IF_ERROR(options.extensions->Check());
  // GPU replicas exchange data only through a collective library, so each forms its own domain.
  return std::unique_ptr<MirroredStrategy>(
      new MirroredStrategy(options, Topology::OneWorker(devices.names,
                                                        /*one_domain=*/gpus.empty())));
}

absl::StatusOr<SessionBackend> MirroredStrategy::MakeBackend() const {
  return CreateMirroredBackend(topology_, options_);
}

}  // namespace mirrorflow
