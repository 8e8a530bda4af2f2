// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/multi_worker_mirrored_strategy.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distribute/cluster/connect_workers.h"
#include "distribute/cluster/coordination/authentication.h"
#include "distribute/cluster/coordination/coordination_client.h"
#include "distribute/cluster/coordination/coordination_server.h"
#include "distribute/cluster/host_identity.h"
#include "distribute/cluster/host_port.h"
#include "distribute/cluster/memory_domains.h"
#include "distribute/collective/team_communicator.h"
#include "distribute/strategy/devices.h"
#include "distribute/strategy/extensions.h"
#include "framework/core/failpoint.h"
#include "framework/core/status.h"
#include "framework/runtime/error_report.h"
#include "kernels/cpu/instruction_set.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kLeaveTimeoutAfterFailure = absl::Seconds(1);

Failpoint leave_failpoint("strategy/leave");

absl::StatusOr<HostPort> AddressOption(const char* name, const std::string& text, int port) {
  absl::StatusOr<HostPort> address = ParseHostPort(text, port);
  if (!address.ok()) return Annotate(address.status(), name);
  return address;
}

void PrintLine(absl::string_view line) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

// Debian gives the name of a host the address 127.0.1.1 on that host.
void WarnOfLoopback(const HostPort& own) {
  if (IsLoopback(own.host)) return;
  const absl::StatusOr<std::string> device = NetworkDeviceTowards(own);
  if (!device.ok() || *device != "lo") return;
  std::fprintf(stderr,
               "mirrorflow: %s is a loopback address on this host, so that workers of other hosts "
               "cannot reach it; they need --bind=ADDRESS here\n",
               own.host.c_str());
}

}  // namespace

struct MultiWorkerMirroredStrategy::Coordination {
  std::unique_ptr<CoordinationServer> server;  // in worker 0
  std::unique_ptr<CoordinationClient> client;  // null with one worker
  std::string network_device;
  std::unique_ptr<WorkerGroup> group;       // in which the workers form their memory domains
  std::shared_ptr<HostMemory> host_memory;  // null if this worker shares none
  CoreSharers core_sharers;                 // the replicas of workers with the same cores
};

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(const Options& options,
                                                         std::vector<std::string> devices)
    : Strategy({.seed = options.replicas.seed,
                .bucket_bytes = options.replicas.bucket_bytes,
                .step_timeout = options.replicas.step_timeout,
                .connect_timeout = options.connect_timeout,
                .pin_threads = options.replicas.pin_threads,
                .max_bytes = options.replicas.max_bytes,
                .compile = options.replicas.compile}),
      options_(options),
      devices_(std::move(devices)),
      coordination_(std::make_unique<Coordination>()) {}

MultiWorkerMirroredStrategy::~MultiWorkerMirroredStrategy() {
  leave_failpoint.Pass().IgnoreError();
  coordination_->group = nullptr;
  if (coordination_->client == nullptr) return;
  const bool joined = !topology_.replicas.empty();
  // All workers end at about the same time, because they run the same steps.
  const absl::Status left = coordination_->client->Leave(
      absl::Now() + (joined ? options_.heartbeat_timeout : kLeaveTimeoutAfterFailure));
  if (left.ok() || !joined || options_.cluster.task_index != 0) return;
  std::fprintf(stderr, "mirrorflow: the other workers have not ended: %s\n",
               std::string(left.message()).c_str());
}

absl::StatusOr<std::unique_ptr<MultiWorkerMirroredStrategy>> MultiWorkerMirroredStrategy::Create(
    const Options& options) {
  MF_ASSIGN_OR_RETURN(std::vector<std::string> devices,
                      ChooseDevices(options.replicas.devices, options.replicas.num_cpu_replicas,
                                    options.cluster.local_size));
  MF_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOf(devices));
  if (!gpus.empty()) {
    return absl::UnimplementedError(
        "MultiWorkerMirroredStrategy: GPUs are not supported yet; expected CPU replicas");
  }
  if (options.replicas.extensions != nullptr) {
    MF_RETURN_IF_ERROR(options.replicas.extensions->Check());
  }
  std::unique_ptr<MultiWorkerMirroredStrategy> strategy(
      new MultiWorkerMirroredStrategy(options, std::move(devices)));
  MF_RETURN_IF_ERROR(strategy->Join());
  return strategy;
}

absl::Status MultiWorkerMirroredStrategy::Join() {
  const Cluster& cluster = options_.cluster;
  Failpoint::SetWorker(cluster.task_index);
  if (cluster.num_workers == 1) {
    topology_ = Topology::OneWorker(devices_, /*one_domain=*/true);
    return absl::OkStatus();
  }
  const absl::Time deadline = absl::Now() + options_.connect_timeout;
  if (options_.secret.empty() && !cluster.secret_file.empty()) {
    absl::StatusOr<std::string> secret = ReadSecretFile(cluster.secret_file);
    if (!secret.ok()) return Annotate(secret.status(), "MIRRORFLOW_SECRET_FILE");
    options_.secret = *std::move(secret);
  }
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
  const bool serves = cluster.task_index == 0 && !options_.external_coordinator;
  if (serves) {
    WarnOfLoopback(own);
    MF_ASSIGN_OR_RETURN(coordination_->server,
                        CoordinationServer::Start({.address = listen.ToString(),
                                                   .num_workers = cluster.num_workers,
                                                   .worker_addresses = cluster.addresses,
                                                   .secret = options_.secret,
                                                   .job = options_.job,
                                                   .tls = options_.tls,
                                                   .log = PrintLine}));
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
      .log = PrintLine};
  client.member.set_worker(cluster.task_index);
  client.member.set_num_workers(cluster.num_workers);
  const auto add_setting = [&](const char* name, std::string value) {
    coordination::Setting& setting = *client.member.add_settings();
    setting.set_name(name);
    setting.set_value(std::move(value));
  };
  MF_ASSIGN_OR_RETURN(std::string build, BuildIdentity());
  add_setting("build", std::move(build));
  add_setting("seed", absl::StrCat(options_.replicas.seed));
  add_setting("collective", CollectiveKindName(options_.collective));
  client.member.set_host(HostName());
  client.member.set_pid(getpid());
  client.member.set_host_id(HostIdentity());
  client.member.set_cores(UsableCpuList());
  client.member.set_instruction_set(static_cast<int>(UsableInstructionSet()));
  for (const std::string& device : devices_) client.member.add_devices(device);
  MF_ASSIGN_OR_RETURN(coordination_->client, CoordinationClient::Connect(client, deadline));
  MF_ASSIGN_OR_RETURN(coordination_->network_device, NetworkDeviceTowards(own));
  MF_RETURN_IF_ERROR(UseCommonInstructionSet());
  std::vector<std::string> hosts;
  for (const coordination::Member& member : coordination_->client->members()) {
    hosts.push_back(member.host_id());
  }
  coordination_->group = coordination_->client->NewGroup();
  MF_ASSIGN_OR_RETURN(MemoryDomains domains, FormMemoryDomains(hosts, options_.collective,
                                                               *coordination_->group, deadline));
  coordination_->host_memory = std::move(domains.host_memory);
  if (!domains.warning.empty() && cluster.task_index == 0) {
    std::fprintf(stderr, "mirrorflow: %s; they use the network\n", domains.warning.c_str());
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
      topology_.replicas.push_back({.worker = member.worker(),
                                    .domain = domains.by_worker[member.worker()],
                                    .device = device});
    }
  }
  if (topology_.num_domains() > 1 && cluster.task_index == 0) {
    std::fprintf(stderr,
                 "mirrorflow: workers exchange data over UCX on %s, neither authenticated nor "
                 "encrypted: the network must be trusted\n",
                 coordination_->network_device.c_str());
  }
  return topology_.Check();
}

// Kernels for different instruction sets round differently.
absl::Status MultiWorkerMirroredStrategy::UseCommonInstructionSet() const {
  const auto& members = coordination_->client->members();
  const auto least = std::min_element(
      members.begin(), members.end(),
      [](const auto& a, const auto& b) { return a.instruction_set() < b.instruction_set(); });
  const auto set = static_cast<InstructionSet>(least->instruction_set());
  if (set < UsableInstructionSet()) {
    std::fprintf(stderr, "mirrorflow: kernels use only %s, because worker %d has no more\n",
                 InstructionSetName(set).c_str(), least->worker());
  }
  return LimitInstructionSet(set);
}

absl::StatusOr<SessionBackend> MultiWorkerMirroredStrategy::MakeBackend() const {
  const std::shared_ptr<HostMemory> host_memory = coordination_->host_memory;
  DeviceOptions devices;
  if (host_memory != nullptr) {
    devices.cpu_memory = [host_memory](size_t bytes) { return host_memory->Allocate(bytes); };
  }
  MF_ASSIGN_OR_RETURN(SessionBackend backend,
                      CreateBackend(devices_, devices, options_.replicas.extensions));
  backend.topology = topology_;
  backend.has_teams = true;
  backend.core_sharers = coordination_->core_sharers;
  const absl::Duration timeout = options_.replicas.collective_timeout;
  if (coordination_->client == nullptr) {
    backend.connect = [timeout](const Topology& topology, absl::Span<const int>, WorkerGroup*,
                                uint64_t, absl::Time) {
      return CreateTeamCommunicators(topology.world_size(), timeout);
    };
    return backend;
  }
  backend.workers_owner = coordination_->client->NewGroup();
  backend.workers = backend.workers_owner.get();
  if (options_.end_hanging_process) {
    backend.hang_policy = {.inside_step = options_.heartbeat_timeout,
                           .between_steps = options_.progress_timeout,
                           .end_process = [](const absl::Status& failure) {
                             EndHangingProcess(failure, kClusterExitCode);
                           }};
  }
  if (host_memory != nullptr) {
    backend.share_memory = [host_memory](size_t bytes, absl::string_view name, WorkerGroup& workers,
                                         absl::Time deadline) {
      return host_memory->Share(bytes, name, workers, deadline);
    };
  }
  const ConnectOptions connect = {
      .timeout = timeout, .device = coordination_->network_device, .host_memory = host_memory};
  backend.connect = [connect](const Topology& topology, absl::Span<const int> local_ranks,
                              WorkerGroup* workers, uint64_t incarnation, absl::Time deadline) {
    return ConnectWorkers(topology, local_ranks, workers, incarnation, deadline, connect);
  };
  return backend;
}

}  // namespace mirrorflow
