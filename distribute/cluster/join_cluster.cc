// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/join_cluster.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "distribute/cluster/choose_transport.h"
#include "distribute/cluster/connections/authentication.h"
#include "distribute/cluster/connections/host_port.h"
#include "distribute/cluster/connections/rejected_peer_log.h"
#include "distribute/cluster/host_identity.h"
#include "distribute/cluster/host_network.h"
#include "distribute/cluster/join_options.h"
#include "distribute/cluster/measure_link.h"
#include "distribute/cluster/memory_domains.h"
#include "framework/core/failpoint.h"
#include "framework/core/log.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/usable_cpus.h"
#include "kernels/cpu/instruction_set.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kLeaveTimeoutAfterFailure = absl::Seconds(1);

Failpoint leave_failpoint("cluster/leave");

// Warns if a name resolves to a loopback address. On Debian, a host's own name resolves to
// 127.0.1.1.
void WarnOfLoopback(const HostPort& own) {
  if (IsLoopback(own.host)) return;
  const absl::StatusOr<std::string> device = NetworkDeviceTowards(own);
  if (!device.ok() || *device != "lo") return;
  LogWarning(absl::StrCat(own.host,
                          " resolves to a loopback address on this host, so workers on other ",
                          "hosts cannot connect to it; set --bind=ADDRESS on this worker"));
}

}  // namespace

JoinedCluster::~JoinedCluster() {
  leave_failpoint.Pass().IgnoreError();
  group_ = nullptr;
  if (client_ == nullptr) return;
  const bool joined = !topology_.replicas.empty();
  // All workers run the same steps, so they leave at about the same time.
  const absl::Status left = client_->Leave(
      MonotonicTime::Now() + (joined ? heartbeat_timeout_ : kLeaveTimeoutAfterFailure));
  if (left.ok() || !joined || worker_ != 0) return;
  LogWarning(absl::StrCat("the other workers have not left the cluster: ", left.message()));
}

ConnectFn JoinedCluster::Connect() const {
  return [options = connect_](const Topology& topology, absl::Span<const int> local_ranks,
                              WorkerGroup* workers, uint64_t incarnation, MonotonicTime deadline) {
    return ConnectWorkers(topology, local_ranks, workers, incarnation, deadline, options);
  };
}

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> JoinedCluster::ConnectReplicas(
    MonotonicTime deadline) const {
  // Sessions count their incarnations from 1.
  return Connect()(topology_, topology_.RanksOfWorker(worker_), group_.get(), /*incarnation=*/0,
                   deadline);
}

// The steps of JoinCluster, in order.
class ClusterJoiner {
 public:
  ClusterJoiner(const Cluster& cluster, const WorkerReplicas& replicas, const JoinOptions& options)
      : cluster_(cluster), replicas_(replicas), options_(options), joined_(new JoinedCluster()) {
    joined_->log_identity_.emplace(options.job.empty() ? cluster.job : options.job,
                                   cluster.task_index);
    joined_->worker_ = cluster.task_index;
    joined_->heartbeat_timeout_ = options.heartbeat_timeout;
  }

  absl::StatusOr<std::unique_ptr<JoinedCluster>> Join() {
    MF_RETURN_IF_ERROR(ReadSecret());
    MF_RETURN_IF_ERROR(FindAddresses());
    MF_RETURN_IF_ERROR(CheckProtection());
    MF_RETURN_IF_ERROR(StartServer());
    MF_RETURN_IF_ERROR(MeetOtherWorkers());
    MF_RETURN_IF_ERROR(FindNetworkDevice());
    MF_RETURN_IF_ERROR(UseCommonInstructionSet());
    MF_RETURN_IF_ERROR(FormTopology());
    CountCoreSharers();
    MF_RETURN_IF_ERROR(ChooseTransport());
    MF_RETURN_IF_ERROR(FindLinkCosts());
    return std::move(joined_);
  }

 private:
  absl::Status ReadSecret() {
    if (options_.job.empty() && !options_.external_coordinator) options_.job = cluster_.job;
    if (!options_.secret.empty() || cluster_.secret_file.empty()) return absl::OkStatus();
    MF_ASSIGN_OR_RETURN(options_.secret,
                        Annotate(ReadSecretFile(cluster_.secret_file), "MIRRORFLOW_SECRET_FILE"));
    return absl::OkStatus();
  }

  absl::Status FindAddresses() {
    MF_ASSIGN_OR_RETURN(coordinator_, ParseHostPort(cluster_.coordinator));
    listen_ = coordinator_;
    if (!options_.bind.empty()) {
      MF_ASSIGN_OR_RETURN(listen_,
                          Annotate(ParseHostPort(options_.bind, coordinator_.port), "bind"));
    }
    own_ = IsWildcard(listen_.host) ? coordinator_ : listen_;
    if (!options_.advertise.empty()) {
      MF_ASSIGN_OR_RETURN(
          own_, Annotate(ParseHostPort(options_.advertise, coordinator_.port), "advertise"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckProtection() const {
    for (const HostPort& reached : {coordinator_, listen_, own_}) {
      if (options_.insecure || !options_.secret.empty() || IsLoopback(reached.host)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "no secret for a cluster that other hosts can reach at ", reached.ToString(),
          "; set a secret that all workers share (--secret_file, MIRRORFLOW_SECRET_FILE), or "
          "--insecure on a network where every process is trusted"));
    }
    if (on_gpus()) return CheckUnencrypted(options_, "NCCL");
    return options_.collective == CollectiveKind::kUcx ? CheckUnencrypted(options_, "UCX")
                                                       : absl::OkStatus();
  }

  absl::Status StartServer() {
    if (!serves()) return absl::OkStatus();
    MF_RETURN_IF_ERROR(WaitUntilResolved(listen_, deadline_));
    MF_RETURN_IF_ERROR(WaitUntilResolved(own_, deadline_));
    WarnOfLoopback(own_);
    const CoordinationServer::Options server = {.address = listen_.ToString(),
                                                .num_workers = cluster_.num_workers,
                                                .worker_addresses = cluster_.addresses,
                                                .secret = options_.secret,
                                                .job = options_.job,
                                                .tls = options_.tls};
    MF_ASSIGN_OR_RETURN(joined_->server_, CoordinationServer::Start(server, deadline_));
    return absl::OkStatus();
  }

  absl::Status MeetOtherWorkers() {
    CoordinationClient::Options client{
        .coordinator = serves() ? listen_.ToString() : cluster_.coordinator,
        .external = options_.external_coordinator,
        .name = coordinator_.host,
        .secret = options_.secret,
        .job = options_.job,
        .tls = options_.tls,
        .heartbeat_timeout = options_.heartbeat_timeout,
        .progress_timeout = options_.progress_timeout,
        .prepare_timeout = options_.prepare_timeout};
    MF_ASSIGN_OR_RETURN(client.member, DescribeSelf());
    MF_ASSIGN_OR_RETURN(joined_->client_, CoordinationClient::Connect(client, deadline_));
    return absl::OkStatus();
  }

  absl::StatusOr<coordination::Member> DescribeSelf() const {
    coordination::Member member;
    member.set_worker(worker());
    member.set_num_workers(cluster_.num_workers);
    const auto add_setting = [&](const std::string& name, const std::string& value) {
      coordination::Setting& setting = *member.add_settings();
      setting.set_name(name);
      setting.set_value(value);
    };
    MF_ASSIGN_OR_RETURN(const std::string build, BuildIdentity());
    add_setting("build", build);
    add_setting("type of devices", on_gpus() ? "GPU" : "CPU");
    add_setting("collective", CollectiveKindName(options_.collective));
    add_setting("ring_from", absl::StrCat(options_.exchange.ring_from));
    add_setting("wire_dtype", std::string(DataTypeName(options_.exchange.wire_dtype)));
    for (const auto& [name, value] : replicas_.settings) add_setting(name, value);
    for (const std::string& uuid : replicas_.gpu_uuids) member.add_gpu_uuids(uuid);
    member.set_host(HostName());
    member.set_pid(getpid());
    member.set_host_id(HostIdentity());
    member.set_cores(UsableCpuList());
    member.set_instruction_set(static_cast<int>(UsableInstructionSet()));
    for (const std::string& device : replicas_.devices) member.add_devices(device);
    return member;
  }

  absl::Status FindNetworkDevice() {
    MF_RETURN_IF_ERROR(WaitUntilResolved(own_, deadline_));
    ConnectOptions& connect = joined_->connect_;
    MF_ASSIGN_OR_RETURN(connect.device, NetworkDeviceTowards(own_));
    MF_ASSIGN_OR_RETURN(connect.data.address, AddressTowards(own_));
    connect.timeout = replicas_.collective_timeout;
    connect.data.cluster = {.secret = options_.secret, .job = options_.job};
    connect.data.tls = options_.tls;
    connect.data.strangers = std::make_shared<RejectedPeerLog>("data");
    connect.exchange = options_.exchange;
    return absl::OkStatus();
  }

  // Limits all workers to one instruction set, because kernels for different sets round
  // differently.
  absl::Status UseCommonInstructionSet() const {
    const auto least =
        std::ranges::min_element(members(), {}, &coordination::Member::instruction_set);
    const auto set = static_cast<InstructionSet>(least->instruction_set());
    if (set < UsableInstructionSet()) {
      LogInfo(absl::StrCat("kernels are limited to ", InstructionSetName(set),
                           ", the widest set that worker ", least->worker(), " supports"));
    }
    return LimitInstructionSet(set);
  }

  absl::Status FormTopology() {
    joined_->group_ = joined_->client_->NewGroup();
    std::vector<int> domains;
    if (on_gpus()) {
      MF_RETURN_IF_ERROR(joined_->group_->Join(deadline_).status());
    } else {
      MF_ASSIGN_OR_RETURN(domains, FormDomains());
    }
    Topology& topology = joined_->topology_;
    for (const coordination::Member& member : members()) {
      for (const std::string& device : member.devices()) {
        // GPUs exchange data only through NCCL, so each GPU is its own domain.
        const int domain = on_gpus() ? topology.world_size() : domains[member.worker()];
        topology.replicas.push_back(
            {.worker = member.worker(), .domain = domain, .device = device});
      }
    }
    return topology.Check();
  }

  absl::StatusOr<std::vector<int>> FormDomains() {
    std::vector<std::string> hosts;
    for (const coordination::Member& member : members()) hosts.push_back(member.host_id());
    MF_ASSIGN_OR_RETURN(MemoryDomains domains,
                        FormMemoryDomains(hosts, options_.collective, *joined_->group_, deadline_));
    joined_->connect_.host_memory = std::move(domains.host_memory);
    if (!domains.warning.empty() && worker() == 0) {
      LogWarning(absl::StrCat(domains.warning, "; the workers on that host use the network"));
    }
    return std::move(domains.by_worker);
  }

  void CountCoreSharers() {
    CoreSharers& sharers = joined_->core_sharers_;
    const coordination::Member& self = members()[worker()];
    for (const coordination::Member& member : members()) {
      if (member.host_id() != self.host_id() || member.cores() != self.cores()) continue;
      if (member.worker() < self.worker()) sharers.first += member.devices_size();
      sharers.count += member.devices_size();
    }
    joined_->connect_.has_core = NumUsableCpus() > sharers.count;
  }

  absl::Status ChooseTransport() {
    if (joined_->topology_.num_domains() == 1) return absl::OkStatus();
    const std::string& device = joined_->network_device();
    const bool has_rdma = HasRdma(device);
    const char* transport = "NCCL";
    if (!on_gpus()) {
      MF_ASSIGN_OR_RETURN(joined_->connect_.over_ucx,
                          ChooseUcx(options_, has_rdma, *joined_->group_, deadline_));
      transport = joined_->connect_.over_ucx ? "UCX" : "TCP";
    }
    if (worker() != 0) return absl::OkStatus();
    if (!on_gpus() && options_.collective == CollectiveKind::kAuto && has_rdma &&
        (!options_.secret.empty() || !options_.tls.empty())) {
      LogInfo(absl::StrCat(
          device,
          " has RDMA, which is not used because UCX neither authenticates nor encrypts data; set "
          "--collective=ucx to use it on a trusted network"));
    }
    LogInfo(absl::StrCat("workers exchange data over ", transport, " on ", device, ", ",
                         ProtectionOfData()));
    return absl::OkStatus();
  }

  std::string ProtectionOfData() const {
    const bool over_tcp = !on_gpus() && !joined_->connect_.over_ucx;
    if (over_tcp && !options_.tls.empty()) return "authenticated and encrypted";
    const bool authenticated = over_tcp && !options_.secret.empty();
    return absl::StrCat(
        authenticated ? "authenticated but not encrypted" : "neither authenticated nor encrypted",
        ": the network must be trusted");
  }

  absl::Status FindLinkCosts() {
    joined_->link_ =
        LinkCostsOf(joined_->connect_.over_ucx ? CollectiveKind::kUcx : CollectiveKind::kTcp);
    const bool has_link = !on_gpus() && joined_->topology_.num_domains() > 1;
    if (!has_link || !replicas_.measures_link) return absl::OkStatus();
    WorkerGroup& group = *joined_->group_;
    MF_ASSIGN_OR_RETURN(const auto communicators, joined_->ConnectReplicas(deadline_));
    MF_ASSIGN_OR_RETURN(joined_->link_, MeasureLink(communicators, group, deadline_));
    if (worker() == 0) {
      LogInfo(absl::StrFormat(
          "link costs measured between hosts: %.1f us per message and %.2f ns per byte",
          joined_->link_.message_ns / 1000, joined_->link_.byte_ns));
    }
    return group.Barrier("measured the link", deadline_);
  }

  int worker() const { return cluster_.task_index; }
  bool on_gpus() const { return replicas_.on_gpus(); }
  bool serves() const { return worker() == 0 && !options_.external_coordinator; }
  const std::vector<coordination::Member>& members() const { return joined_->client_->members(); }

  const Cluster& cluster_;
  const WorkerReplicas& replicas_;
  JoinOptions options_;  // with the cluster's secret and job filled in
  const MonotonicTime deadline_ = MonotonicTime::Now() + options_.connect_timeout;
  HostPort coordinator_;  // where the other workers connect to the coordination service
  HostPort listen_;       // where worker 0 listens for connections to the service
  HostPort own_;          // the route to this address determines this host's address for data
  std::unique_ptr<JoinedCluster> joined_;
};

absl::StatusOr<std::unique_ptr<JoinedCluster>> JoinCluster(const Cluster& cluster,
                                                           const WorkerReplicas& replicas,
                                                           const JoinOptions& options) {
  return ClusterJoiner(cluster, replicas, options).Join();
}

}  // namespace mirrorflow
