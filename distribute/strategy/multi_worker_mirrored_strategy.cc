// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/multi_worker_mirrored_strategy.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "distribute/cluster/choose_transport.h"
#include "distribute/cluster/connect_workers.h"
#include "distribute/cluster/connections/authentication.h"
#include "distribute/cluster/connections/host_port.h"
#include "distribute/cluster/connections/name_resolution.h"
#include "distribute/cluster/connections/stranger_log.h"
#include "distribute/cluster/coordination/coordination_client.h"
#include "distribute/cluster/coordination/coordination_server.h"
#include "distribute/cluster/host_identity.h"
#include "distribute/cluster/measure_link.h"
#include "distribute/cluster/memory_domains.h"
#include "distribute/cluster/rdma_devices.h"
#include "distribute/cluster/transport_costs.h"
#include "distribute/collective/team_communicator.h"
#include "distribute/strategy/devices.h"
#include "distribute/strategy/extensions.h"
#include "distribute/strategy/gpu_backend.h"
#include "distribute/strategy/ignored_workers.h"
#include "distribute/strategy/option_ranges.h"
#include "framework/core/failpoint.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/terminal.h"
#include "framework/runtime/error_report.h"
#include "framework/runtime/usable_cpus.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/cuda/gpu.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kLeaveTimeoutAfterFailure = absl::Seconds(1);

Failpoint leave_failpoint("strategy/leave");

absl::StatusOr<HostPort> AddressOption(const char* name, const std::string& text, int port) {
  absl::StatusOr<HostPort> address = ParseHostPort(text, port);
  if (!address.ok()) return Annotate(address.status(), name);
  return address;
}

// Debian gives the name of a host the address 127.0.1.1 on that host.
void WarnOfLoopback(const HostPort& own) {
  if (IsLoopback(own.host)) return;
  const absl::StatusOr<std::string> device = NetworkDeviceTowards(own);
  if (!device.ok() || *device != "lo") return;
  PrintErrorLine(absl::StrCat("mirrorflow: ", own.host,
                              " is a loopback address on this host, so that workers of other ",
                              "hosts cannot reach it; they need --bind=ADDRESS here"));
}

}  // namespace

struct MultiWorkerMirroredStrategy::Coordination {
  std::unique_ptr<CoordinationServer> server;  // in worker 0
  std::unique_ptr<CoordinationClient> client;  // null with one worker
  std::string network_device, address;         // of this host, for data between hosts
  bool over_ucx = false;                       // data between hosts
  LinkCosts link;                              // between hosts
  // On the ports for data of all sessions.
  const std::shared_ptr<StrangerLog> strangers =
      std::make_shared<StrangerLog>("data", PrintErrorLine);
  // Used to form memory domains and to agree on the input.
  std::shared_ptr<WorkerGroup> group;
  std::shared_ptr<HostMemory> host_memory;  // null if this worker shares none
  CoreSharers core_sharers;                 // the replicas of workers with the same cores
  std::atomic<int> num_inputs{0};
};

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const Options& options,
                                                         std::vector<std::string> devices,
                                                         bool on_gpus)
    : Strategy({.seed = options.replicas.seed,
                .bucket_bytes = options.replicas.bucket_bytes,
                .step_timeout = *options.replicas.step_timeout,
                .connect_timeout = options.connect_timeout,
                .prepare_timeout = options.prepare_timeout,
                .pin_threads = options.replicas.pin_threads,
                .max_bytes = options.replicas.max_bytes,
                .max_cached_steps = options.replicas.max_cached_steps,
                .compile = options.replicas.compile}),
      options_(options),
      devices_(std::move(devices)),
      on_gpus_(on_gpus),
      coordination_(std::make_unique<Coordination>()) {}

MultiWorkerMirroredStrategy::~MultiWorkerMirroredStrategy() {
  leave_failpoint.Pass().IgnoreError();
  coordination_->group = nullptr;
  if (coordination_->client == nullptr) return;
  const bool joined = !topology_.replicas.empty();
  // All workers end at about the same time, because they run the same steps.
  const absl::Status left = coordination_->client->Leave(
      MonotonicTime::Now() + (joined ? options_.heartbeat_timeout : kLeaveTimeoutAfterFailure));
  if (left.ok() || !joined || options_.cluster.task_index != 0) return;
  PrintErrorLine(absl::StrCat("mirrorflow: the other workers have not ended: ", left.message()));
}

absl::StatusOr<std::unique_ptr<MultiWorkerMirroredStrategy>> MultiWorkerMirroredStrategy::Create(
    const Options& options) {
  const Cluster& cluster = options.cluster;
  MF_RETURN_IF_ERROR(options.replicas.Check());
  MF_RETURN_IF_ERROR(CheckTimeouts({{"connect_timeout", options.connect_timeout},
                                    {"prepare_timeout", options.prepare_timeout},
                                    {"heartbeat_timeout", options.heartbeat_timeout},
                                    {"progress_timeout", options.progress_timeout}}));
  MF_RETURN_IF_ERROR(CheckAtLeast("ring_from", options.exchange.ring_from, 0));
  MF_ASSIGN_OR_RETURN(std::vector<std::string> devices,
                      ChooseDevices(options.replicas.devices, options.replicas.num_cpu_replicas,
                                    {cluster.local_size, cluster.local_rank}));
  MF_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOf(devices));
  const bool on_gpus = !gpus.empty();
  MF_RETURN_IF_ERROR(CheckGpuReplicas(gpus, cluster.num_workers));
  if (on_gpus && cluster.num_workers > 1 && options.collective != CollectiveKind::kAuto) {
    return absl::InvalidArgumentError(
        absl::StrCat("collective: GPUs of several workers exchange data over NCCL; expected auto, "
                     "got ",
                     CollectiveKindName(options.collective)));
  }
  const bool exchanges = options.exchange.ring_from != 0 || options.exchange.wire_dtype != DT_FLOAT;
  if (on_gpus && exchanges) {
    return absl::InvalidArgumentError(
        "ring_from, wire_dtype: given with GPUs, which exchange data over NCCL; expected CPUs");
  }
  if (options.replicas.extensions != nullptr) {
    MF_RETURN_IF_ERROR(options.replicas.extensions->Check());
  }
  // A worker inside a step may first wait for a late worker, and then for the step itself.
  Options complete = options;
  complete.replicas = options.replicas.WithTimeouts(options.prepare_timeout + absl::Minutes(10),
                                                    options.prepare_timeout + absl::Minutes(20));
  std::unique_ptr<MultiWorkerMirroredStrategy> strategy(
      new MultiWorkerMirroredStrategy(complete, std::move(devices), on_gpus));
  MF_RETURN_IF_ERROR(strategy->Join());
  return strategy;
}

absl::Status MultiWorkerMirroredStrategy::Join() {
  const Cluster& cluster = options_.cluster;
  Failpoint::SetWorker(cluster.task_index);
  PrintWarnings(cluster);
  if (cluster.num_workers > 1) JoinWorkersOfEnvironment();
  if (cluster.num_workers == 1) {
    topology_ = Topology::OneWorker(devices_, /*one_domain=*/!on_gpus_);
    return absl::OkStatus();
  }
  const MonotonicTime deadline = MonotonicTime::Now() + options_.connect_timeout;
  if (options_.secret.empty() && !cluster.secret_file.empty()) {
    absl::StatusOr<std::string> secret = ReadSecretFile(cluster.secret_file);
    if (!secret.ok()) return Annotate(secret.status(), "MIRRORFLOW_SECRET_FILE");
    options_.secret = *std::move(secret);
  }
  if (options_.job.empty() && !options_.external_coordinator) options_.job = cluster.job;
  MF_ASSIGN_OR_RETURN(const HostPort coordinator, ParseHostPort(cluster.coordinator));
  HostPort listen = coordinator;
  if (!options_.bind.empty()) {
    MF_ASSIGN_OR_RETURN(listen, AddressOption("bind", options_.bind, coordinator.port));
  }
  HostPort own = IsWildcard(listen.host) ? coordinator : listen;
  if (!options_.advertise.empty()) {
    MF_ASSIGN_OR_RETURN(own, AddressOption("advertise", options_.advertise, coordinator.port));
  }
  for (const HostPort& reached : {coordinator, listen, own}) {
    if (options_.insecure || !options_.secret.empty() || IsLoopback(reached.host)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "no secret for a cluster that is reached at ", reached.ToString(),
        "; expected a secret that all workers share (--secret_file, MIRRORFLOW_SECRET_FILE), or "
        "--insecure in a network where every process is trusted"));
  }
  if (on_gpus_ || options_.collective == CollectiveKind::kUcx) {
    MF_RETURN_IF_ERROR(CheckUnencrypted(TransportWanted(), on_gpus_ ? "NCCL" : "UCX"));
  }
  const bool serves = cluster.task_index == 0 && !options_.external_coordinator;
  if (serves) {
    MF_RETURN_IF_ERROR(WaitUntilResolved(listen, deadline, PrintErrorLine));
    MF_RETURN_IF_ERROR(WaitUntilResolved(own, deadline, PrintErrorLine));
    WarnOfLoopback(own);
    const CoordinationServer::Options server = {.address = listen.ToString(),
                                                .num_workers = cluster.num_workers,
                                                .worker_addresses = cluster.addresses,
                                                .secret = options_.secret,
                                                .job = options_.job,
                                                .tls = options_.tls,
                                                .log = PrintErrorLine};
    MF_ASSIGN_OR_RETURN(coordination_->server, CoordinationServer::Start(server, deadline));
  }
  CoordinationClient::Options client{
      .coordinator = serves ? listen.ToString() : cluster.coordinator,
      .external = options_.external_coordinator,
      .name = coordinator.host,
      .secret = options_.secret,
      .job = options_.job,
      .tls = options_.tls,
      .heartbeat_timeout = options_.heartbeat_timeout,
      .progress_timeout = options_.progress_timeout,
      .prepare_timeout = options_.prepare_timeout,
      .log = PrintErrorLine};
  MF_ASSIGN_OR_RETURN(client.member, Describe());
  MF_ASSIGN_OR_RETURN(coordination_->client, CoordinationClient::Connect(client, deadline));
  MF_RETURN_IF_ERROR(WaitUntilResolved(own, deadline, PrintErrorLine));
  MF_ASSIGN_OR_RETURN(coordination_->network_device, NetworkDeviceTowards(own));
  MF_ASSIGN_OR_RETURN(coordination_->address, AddressTowards(own));
  MF_RETURN_IF_ERROR(UseCommonInstructionSet());
  MF_RETURN_IF_ERROR(CheckGpusDiffer());
  coordination_->group = coordination_->client->NewGroup();
  std::vector<int> domains;
  if (on_gpus_) {
    MF_RETURN_IF_ERROR(coordination_->group->Join(deadline).status());
  } else {
    MF_ASSIGN_OR_RETURN(domains, FormDomains(deadline));
  }
  const auto& members = coordination_->client->members();
  const coordination::Member& self = members[cluster.task_index];
  for (const coordination::Member& member : members) {
    if (member.host_id() == self.host_id() && member.cores() == self.cores()) {
      CoreSharers& sharers = coordination_->core_sharers;
      if (member.worker() < self.worker()) sharers.first += member.devices_size();
      sharers.count += member.devices_size();
    }
    for (const std::string& device : member.devices()) {
      // GPUs exchange data only through NCCL, so each is its own domain.
      const int domain = on_gpus_ ? topology_.world_size() : domains[member.worker()];
      topology_.replicas.push_back({.worker = member.worker(), .domain = domain, .device = device});
    }
  }
  MF_RETURN_IF_ERROR(topology_.Check());
  MF_RETURN_IF_ERROR(ChooseTransport(deadline));
  return FindCostsOfLink(deadline);
}

absl::StatusOr<coordination::Member> MultiWorkerMirroredStrategy::Describe() const {
  coordination::Member member;
  member.set_worker(options_.cluster.task_index);
  member.set_num_workers(options_.cluster.num_workers);
  const auto add_setting = [&](const char* name, std::string value) {
    coordination::Setting& setting = *member.add_settings();
    setting.set_name(name);
    setting.set_value(std::move(value));
  };
  MF_ASSIGN_OR_RETURN(std::string build, BuildIdentity());
  add_setting("build", std::move(build));
  add_setting("type of devices", on_gpus_ ? "GPU" : "CPU");
  add_setting("seed", absl::StrCat(options_.replicas.seed));
  add_setting("collective", CollectiveKindName(options_.collective));
  add_setting("ring_from", absl::StrCat(options_.exchange.ring_from));
  add_setting("wire_dtype", std::string(DataTypeName(options_.exchange.wire_dtype)));
  add_setting("autotune", options_.replicas.compile.kernels.autotune ? "on" : "off");
  if (on_gpus_) {
    const auto on_or_off = [](bool on) { return on ? "on" : "off"; };
    const std::optional<bool>& captures = options_.replicas.capture_collectives;
    add_setting("capture_steps", on_or_off(options_.replicas.capture_steps));
    add_setting("capture_collectives", captures.has_value() ? on_or_off(*captures) : "default");
    add_setting("deterministic", on_or_off(options_.replicas.deterministic));
    MF_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOf(devices_));
    for (const int gpu : gpus) member.add_gpu_uuids(DescribeGpu(gpu).uuid);
  }
  member.set_host(HostName());
  member.set_pid(getpid());
  member.set_host_id(HostIdentity());
  member.set_cores(UsableCpuList());
  member.set_instruction_set(static_cast<int>(UsableInstructionSet()));
  for (const std::string& device : devices_) member.add_devices(device);
  return member;
}

absl::StatusOr<std::vector<int>> MultiWorkerMirroredStrategy::FormDomains(MonotonicTime deadline) {
  std::vector<std::string> hosts;
  for (const coordination::Member& member : coordination_->client->members()) {
    hosts.push_back(member.host_id());
  }
  MF_ASSIGN_OR_RETURN(MemoryDomains domains, FormMemoryDomains(hosts, options_.collective,
                                                               *coordination_->group, deadline));
  coordination_->host_memory = std::move(domains.host_memory);
  if (!domains.warning.empty() && worker() == 0) {
    PrintErrorLine(absl::StrCat("mirrorflow: ", domains.warning, "; they use the network"));
  }
  return std::move(domains.by_worker);
}

TransportRequest MultiWorkerMirroredStrategy::TransportWanted() const {
  return {.kind = options_.collective,
          .has_secret = !options_.secret.empty(),
          .has_certificates = !options_.tls.empty(),
          .insecure = options_.insecure,
          .has_rdma = HasRdma(coordination_->network_device)};
}

absl::Status MultiWorkerMirroredStrategy::ChooseTransport(MonotonicTime deadline) {
  if (topology_.num_domains() == 1) return absl::OkStatus();
  const char* transport = "NCCL";
  if (!on_gpus_) {
    MF_ASSIGN_OR_RETURN(coordination_->over_ucx,
                        ChooseUcx(TransportWanted(), *coordination_->group, deadline));
    transport = coordination_->over_ucx ? "UCX" : "TCP";
  }
  if (worker() != 0) return absl::OkStatus();
  const TransportRequest wanted = TransportWanted();
  if (!on_gpus_ && wanted.kind == CollectiveKind::kAuto && wanted.has_rdma &&
      (wanted.has_secret || wanted.has_certificates)) {
    PrintErrorLine(
        absl::StrCat("mirrorflow: ", coordination_->network_device,
                     " has RDMA, which is not used because UCX neither authenticates nor encrypts "
                     "data; --collective=ucx selects it on a trusted network"));
  }
  PrintErrorLine(absl::StrCat("mirrorflow: workers exchange data over ", transport, " on ",
                              coordination_->network_device, ", ", ProtectionOfData()));
  return absl::OkStatus();
}

absl::Status MultiWorkerMirroredStrategy::FindCostsOfLink(MonotonicTime deadline) {
  coordination_->link =
      LinkCostsOf(coordination_->over_ucx ? CollectiveKind::kUcx : CollectiveKind::kTcp);
  if (on_gpus_ || topology_.num_domains() == 1) return absl::OkStatus();
  if (!options_.replicas.compile.kernels.autotune) return absl::OkStatus();
  WorkerGroup& group = *coordination_->group;
  const std::vector<int> ranks = topology_.RanksOfWorker(worker());
  // Sessions count their incarnations from 1.
  MF_ASSIGN_OR_RETURN(
      const auto communicators,
      ConnectWorkers(topology_, ranks, &group, /*incarnation=*/0, deadline, ConnectionOfCpus()));
  MF_ASSIGN_OR_RETURN(coordination_->link, MeasureLink(communicators, group, deadline));
  if (worker() == 0) {
    PrintErrorLine(absl::StrFormat("mirrorflow: measured between hosts: %.1f us and %.2f ns a byte",
                                   coordination_->link.message_ns / 1000,
                                   coordination_->link.byte_ns));
  }
  return group.Barrier("measured the link", deadline);
}

// NCCL connects no two ranks on one GPU.
absl::Status MultiWorkerMirroredStrategy::CheckGpusDiffer() const {
  std::map<std::string, std::string> users;  // by GPU
  for (const coordination::Member& member : coordination_->client->members()) {
    for (int i = 0; i < member.gpu_uuids_size(); ++i) {
      const std::string user =
          absl::StrCat("worker ", member.worker(), " (", member.devices(i), ")");
      const auto [other, is_new] = users.emplace(member.gpu_uuids(i), user);
      if (is_new) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "devices: ", other->second, " and ", user, " use the same GPU, ", member.gpu_uuids(i),
          "; expected different GPUs (devices, CUDA_VISIBLE_DEVICES)"));
    }
  }
  return absl::OkStatus();
}

std::string MultiWorkerMirroredStrategy::ProtectionOfData() const {
  const bool over_tcp = !on_gpus_ && !coordination_->over_ucx;
  if (over_tcp && !options_.tls.empty()) return "authenticated and encrypted";
  const bool authenticated = over_tcp && !options_.secret.empty();
  return absl::StrCat(
      authenticated ? "authenticated but not encrypted" : "neither authenticated nor encrypted",
      ": the network must be trusted");
}

// Kernels for different instruction sets round differently.
absl::Status MultiWorkerMirroredStrategy::UseCommonInstructionSet() const {
  const auto& members = coordination_->client->members();
  const auto least = std::min_element(
      members.begin(), members.end(),
      [](const auto& a, const auto& b) { return a.instruction_set() < b.instruction_set(); });
  const auto set = static_cast<InstructionSet>(least->instruction_set());
  if (set < UsableInstructionSet()) {
    PrintErrorLine(absl::StrCat("mirrorflow: kernels use only ", InstructionSetName(set),
                                ", because worker ", least->worker(), " has no more"));
  }
  return LimitInstructionSet(set);
}

ConnectOptions MultiWorkerMirroredStrategy::ConnectionOfCpus() const {
  return {.timeout = *options_.replicas.collective_timeout,
          .over_ucx = coordination_->over_ucx,
          .device = coordination_->network_device,
          .data = {.address = coordination_->address,
                   .cluster = {.secret = options_.secret, .job = options_.job},
                   .tls = options_.tls,
                   .strangers = coordination_->strangers},
          .exchange = options_.exchange,
          .has_core = NumUsableCpus() > coordination_->core_sharers.count,
          .host_memory = coordination_->host_memory};
}

absl::StatusOr<SessionBackend> MultiWorkerMirroredStrategy::CreateCpuBackend() const {
  const std::shared_ptr<HostMemory> host_memory = coordination_->host_memory;
  DeviceOptions devices;
  if (host_memory != nullptr) {
    devices.cpu_memory = [host_memory](size_t bytes) { return host_memory->Allocate(bytes); };
  }
  MF_ASSIGN_OR_RETURN(SessionBackend backend,
                      CreateBackend(devices_, devices, options_.replicas.extensions));
  backend.topology = topology_;
  backend.has_teams = true;
  if (coordination_->client == nullptr) {
    const absl::Duration timeout = *options_.replicas.collective_timeout;
    backend.connect = [timeout](const Topology& topology, absl::Span<const int>, WorkerGroup*,
                                uint64_t, MonotonicTime) {
      return CreateTeamCommunicators(topology.world_size(), timeout);
    };
    return backend;
  }
  if (host_memory != nullptr) {
    backend.share_memory = [host_memory](size_t bytes, absl::string_view name, WorkerGroup& workers,
                                         MonotonicTime deadline) {
      return host_memory->Share(bytes, name, workers, deadline);
    };
  }
  backend.connect = [connect = ConnectionOfCpus()](
                        const Topology& topology, absl::Span<const int> local_ranks,
                        WorkerGroup* workers, uint64_t incarnation, MonotonicTime deadline) {
    return ConnectWorkers(topology, local_ranks, workers, incarnation, deadline, connect);
  };
  backend.link = coordination_->link;
  return backend;
}

absl::StatusOr<std::unique_ptr<InputAgreement>> MultiWorkerMirroredStrategy::AgreeOnInput() const {
  std::vector<int> replicas;
  for (int w = 0; w < topology_.num_workers(); ++w) {
    replicas.push_back(static_cast<int>(topology_.RanksOfWorker(w).size()));
  }
  return std::make_unique<InputAgreement>(
      InputAgreement::Options{.group = coordination_->group,
                              .name = absl::StrCat("input ", coordination_->num_inputs++),
                              .replicas = std::move(replicas),
                              .timeout = *options_.replicas.step_timeout});
}

absl::StatusOr<SessionBackend> MultiWorkerMirroredStrategy::MakeBackend() const {
  WarnOfIgnoredWorkers("MultiWorkerMirroredStrategy");  // if the cluster is not the environment's
  MF_ASSIGN_OR_RETURN(SessionBackend backend,
                      on_gpus_ ? CreateGpuBackend(topology_, worker(), options_.replicas,
                                                  coordination_->network_device)
                               : CreateCpuBackend());
  backend.core_sharers = coordination_->core_sharers;
  if (coordination_->client == nullptr) return backend;
  backend.workers = coordination_->client->NewGroup();
  if (options_.end_hanging_process) {
    backend.hang_policy = {.inside_step = options_.heartbeat_timeout,
                           .between_steps = options_.progress_timeout,
                           .end_process = [](const absl::Status& failure) {
                             EndHangingProcess(failure, kClusterExitCode);
                           }};
  }
  return backend;
}

}  // namespace mirrorflow
