// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/cluster_sources.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "distribute/cluster/connections/host_port.h"
#include "distribute/cluster/slurm_nodes.h"
#include "framework/core/json.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

using Json = nlohmann::json;
using Found = absl::StatusOr<std::optional<Cluster>>;

constexpr int kMaxWorkers = 1 << 20;
// The range of derived ports. As in JAX, it is above Linux's ephemeral ports.
constexpr uint32_t kFirstDerivedPort = 61440;
constexpr uint32_t kNumDerivedPorts = 4096;

// Reads the variables of one source. Records which of them are set and which are missing.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  const std::string* Find(absl::string_view name) const { return FindVariable(environment_, name); }
  bool Has(absl::string_view name) const { return Find(name) != nullptr; }

  // Returns the first error of the calls below, or an error that lists the missing variables.
  absl::Status status() const {
    if (!missing_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          absl::StrJoin(present_, ", "), present_.empty() ? "" : " set without ",
          absl::StrJoin(missing_, ", "), present_.empty() ? " not set" : "", "; expected all"));
    }
    return status_;
  }

  std::string Text(absl::string_view name) {
    const std::string* const value = Find(name);
    (value != nullptr ? present_ : missing_).emplace_back(name);
    return value != nullptr ? *value : "";
  }
  int Number(absl::string_view name, int least, int most) {
    const std::string text = Text(name);
    int number = least;
    if (!text.empty() && (!absl::SimpleAtoi(text, &number) || number < least || number > most) &&
        status_.ok()) {
      status_ =
          absl::InvalidArgumentError(absl::StrCat(name, ": expected an integer from ", least,
                                                  " to ", most, ", got '", Printable(text), "'"));
    }
    return number;
  }
  std::optional<int> OptionalNumber(absl::string_view name) {
    if (!Has(name)) return std::nullopt;
    return Number(name, 0, kMaxWorkers - 1);
  }
  // Returns the launcher and its job id, such as `torchrun 4242`. The id is the first of these
  // variables that is set. Returns an empty string if none is.
  std::string Job(absl::string_view launcher,
                  std::initializer_list<absl::string_view> names) const {
    for (const absl::string_view name : names) {
      if (const std::string* const number = Find(name)) return absl::StrCat(launcher, " ", *number);
    }
    return "";
  }
  // Reads the number of workers and this worker's index.
  void Size(absl::string_view size, absl::string_view rank, Cluster* cluster) {
    cluster->num_workers = Number(size, 1, kMaxWorkers);
    cluster->task_index = Number(rank, 0, kMaxWorkers - 1);
    if (status_.ok() && missing_.empty() && cluster->task_index >= cluster->num_workers) {
      status_ = absl::InvalidArgumentError(absl::StrCat(rank, ": out of range; expected less than ",
                                                        size, " = ", cluster->num_workers, ", got ",
                                                        cluster->task_index));
    }
  }

 private:
  const Environment& environment_;
  std::vector<std::string> present_, missing_;
  absl::Status status_;
};

// Derives a port from `job`: the same on all workers of the job, and unlikely to clash with another
// job's port.
int PortOfJob(absl::string_view job) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return static_cast<int>(kFirstDerivedPort + hash % kNumDerivedPorts);
}

// Returns the coordinator's HOST:PORT. If all workers are on this host, uses the loopback address,
// so they do not need the network.
std::string CoordinatorOf(absl::string_view host, int port, bool one_host) {
  return HostPort{.host = one_host ? "127.0.0.1" : std::string(host), .port = port}.ToString();
}

Found ReadOwnVariables(const Environment& environment) {
  Reader reader(environment);
  if (!reader.Has("MIRRORFLOW_NUM_WORKERS") && !reader.Has("MIRRORFLOW_WORKER_INDEX")) {
    return std::nullopt;
  }
  Cluster cluster{.source = "MIRRORFLOW_NUM_WORKERS"};
  reader.Size("MIRRORFLOW_NUM_WORKERS", "MIRRORFLOW_WORKER_INDEX", &cluster);
  if (cluster.num_workers > 1) cluster.coordinator = reader.Text("MIRRORFLOW_COORDINATOR");
  cluster.local_rank = reader.OptionalNumber("MIRRORFLOW_LOCAL_RANK");
  cluster.local_size = reader.OptionalNumber("MIRRORFLOW_LOCAL_SIZE").value_or(1);
  MF_RETURN_IF_ERROR(reader.status());
  if (cluster.num_workers > 1) {
    MF_RETURN_IF_ERROR(
        Annotate(ParseHostPort(cluster.coordinator).status(), "MIRRORFLOW_COORDINATOR"));
  }
  return cluster;
}

absl::Status TfConfigError(absl::string_view where, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("TF_CONFIG", where, ": ", what));
}

// Returns the addresses that `cluster` lists for a job (a task type in TF_CONFIG); empty if it does
// not list the job.
absl::StatusOr<std::vector<std::string>> TfConfigJob(const Json& cluster, const char* job) {
  std::vector<std::string> addresses;
  const auto found = cluster.find(job);
  if (found == cluster.end()) return addresses;
  const std::string where = absl::StrCat(": cluster.", job);
  if (!found->is_array()) return TfConfigError(where, "expected a list of addresses");
  for (const Json& address : *found) {
    if (!address.is_string()) return TfConfigError(where, "expected a list of addresses");
    addresses.push_back(address.get<std::string>());
  }
  return addresses;
}

// Appends a warning for each job whose tasks are ignored.
void WarnOfOtherJobs(const Json& jobs, Cluster* cluster) {
  for (const auto& [job, addresses] : jobs.items()) {
    const bool takes_part = job == "chief" || job == "master" || job == "worker";
    if (takes_part || addresses.empty()) continue;
    cluster->warnings.push_back(absl::StrCat(
        "TF_CONFIG: cluster.", Printable(job),
        ": its tasks are ignored; expected only worker, and chief or master",
        job == "ps" ? " (workers reduce the gradients without parameter servers)" : ""));
  }
}

// Returns a task's index. TensorFlow writes it as a number. Kubeflow and many scripts write it as a
// string.
absl::StatusOr<int> TfConfigIndex(const Json& task) {
  const auto found = task.find("index");
  int64_t index = -1;
  if (found == task.end()) return TfConfigError(": task.index", "missing");
  if (found->is_number_integer()) index = found->get<int64_t>();
  if (found->is_string() && !absl::SimpleAtoi(found->get<std::string>(), &index)) index = -1;
  if (index < 0 || index >= kMaxWorkers) {
    return TfConfigError(": task.index", absl::StrCat("expected an integer of at least 0, got ",
                                                      Printable(found->dump(-1, ' ', true))));
  }
  return static_cast<int>(index);
}

// Returns a task's type; empty if it has none.
absl::StatusOr<std::string> TfConfigTaskType(const Json& task) {
  const auto found = task.find("type");
  if (found == task.end()) return std::string();
  const std::string type = found->is_string() ? found->get<std::string>() : "";
  if (type == "worker" || type == "chief" || type == "master") return type;
  return TfConfigError(
      ": task.type",
      absl::StrCat("not supported; expected worker, chief or master, got '", Printable(type),
                   "' (MIRRORFLOW_CLUSTER=none runs the program in this process only)"));
}

Found ReadTfConfig(const Environment& environment) {
  Reader reader(environment);
  if (!reader.Has("TF_CONFIG")) return std::nullopt;
  const absl::StatusOr<Json> parsed = ParseJson(reader.Text("TF_CONFIG"));
  if (!parsed.ok()) {
    return TfConfigError("", absl::StrCat("not a JSON object; ", parsed.status().message()));
  }
  const Json& config = *parsed;
  if (!config.is_object()) return TfConfigError("", "not a JSON object");
  if (config.contains("sparseCluster")) {
    return TfConfigError(": sparseCluster", "not supported; expected a cluster with all workers");
  }
  const Json none = Json::object();
  const Json& jobs = config.contains("cluster") ? config["cluster"] : none;
  const Json& task = config.contains("task") ? config["task"] : none;
  if (!jobs.is_object()) return TfConfigError(": cluster", "expected an object");
  if (!task.is_object()) return TfConfigError(": task", "expected an object");
  MF_ASSIGN_OR_RETURN(const std::string type, TfConfigTaskType(task));
  // TensorFlow 1 calls the chief `master`.
  MF_ASSIGN_OR_RETURN(std::vector<std::string> addresses, TfConfigJob(jobs, "chief"));
  MF_ASSIGN_OR_RETURN(const std::vector<std::string> masters, TfConfigJob(jobs, "master"));
  addresses.insert(addresses.end(), masters.begin(), masters.end());
  const int num_chiefs = static_cast<int>(addresses.size());
  if (num_chiefs > 1) {
    return TfConfigError(": cluster.chief",
                         "expected at most one address in chief and master together");
  }
  MF_ASSIGN_OR_RETURN(const std::vector<std::string> workers, TfConfigJob(jobs, "worker"));
  addresses.insert(addresses.end(), workers.begin(), workers.end());

  Cluster cluster{.source = "TF_CONFIG"};
  WarnOfOtherJobs(jobs, &cluster);
  if (addresses.empty() && !task.contains("index")) return cluster;
  if (type.empty()) {
    return TfConfigError(": task.type", "missing; expected worker, chief or master");
  }
  MF_ASSIGN_OR_RETURN(int index, TfConfigIndex(task));
  if (addresses.empty() && index == 0) return cluster;
  const int num_tasks = type == "worker" ? static_cast<int>(workers.size()) : num_chiefs;
  if (index >= num_tasks) {
    return TfConfigError(": task.index",
                         absl::StrCat("out of range; expected less than ", num_tasks,
                                      ", the number of tasks of type ", type, ", got ", index));
  }
  if (type == "worker") index += num_chiefs;
  std::vector<std::string> warnings = std::move(cluster.warnings);
  MF_ASSIGN_OR_RETURN(cluster, ClusterOfAddresses(std::move(addresses), index, "TF_CONFIG"));
  cluster.source = "TF_CONFIG";
  // Only one worker prints the warnings.
  if (index == 0) cluster.warnings = std::move(warnings);
  return cluster;
}

constexpr int kMaxPort = 65535;

Found ReadTorchrun(const Environment& environment) {
  Reader reader(environment);
  if (!reader.Has("RANK") && !reader.Has("WORLD_SIZE")) return std::nullopt;
  const bool torchrun = reader.Has("TORCHELASTIC_RUN_ID");
  Cluster cluster{.source = torchrun ? "torchrun" : "RANK and WORLD_SIZE"};
  reader.Size("WORLD_SIZE", "RANK", &cluster);
  cluster.local_rank = reader.OptionalNumber("LOCAL_RANK");
  cluster.job = reader.Job(cluster.source, {"TORCHELASTIC_RUN_ID"});
  if (cluster.num_workers == 1 && reader.status().ok()) return cluster;
  const std::string address = reader.Text("MASTER_ADDR");
  int port = reader.Number("MASTER_PORT", 1, kMaxPort);
  cluster.local_size = reader.OptionalNumber("LOCAL_WORLD_SIZE").value_or(1);
  MF_RETURN_IF_ERROR(reader.status());
  // torchrun's agent itself listens on MASTER_PORT, so use a port nearby. Do not use the next port:
  // if the system chose MASTER_PORT, an outgoing connection may already use the next one, because
  // Linux gives outgoing connections ports of the other parity.
  constexpr int kPortsAfterAgent = 2;
  const std::string* const agent_store = reader.Find("TORCHELASTIC_USE_AGENT_STORE");
  if (agent_store != nullptr && absl::EqualsIgnoreCase(*agent_store, "true")) {
    port += port + kPortsAfterAgent > kMaxPort ? -kPortsAfterAgent : kPortsAfterAgent;
  }
  absl::string_view host = address;
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  cluster.coordinator = CoordinatorOf(host, port, cluster.local_size == cluster.num_workers);
  MF_RETURN_IF_ERROR(Annotate(ParseHostPort(cluster.coordinator).status(), "MASTER_ADDR"));
  return cluster;
}

// Reads the first host of SLURM's node list, and whether it is the only one.
absl::Status ReadSlurmHost(Reader& reader, std::string* host, bool* one_host) {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    const std::string* const list = reader.Find(name);
    if (list == nullptr) continue;
    MF_ASSIGN_OR_RETURN(const std::vector<std::string> nodes,
                        Annotate(ExpandNodeList(*list), name));
    *host = nodes[0];
    *one_host = nodes.size() == 1;
    return Annotate(ParseHostPort(absl::StrCat(*host, ":1")).status(), name);
  }
  reader.Text("SLURM_STEP_NODELIST");  // records it as missing
  return absl::OkStatus();
}

bool IsSlurmStep(const Reader& reader) {
  return reader.Has("SLURM_STEP_ID") && reader.Has("SLURM_PROCID");
}

std::string SlurmStep(const Reader& reader) {
  const std::string* const job = reader.Find("SLURM_JOB_ID");
  const std::string* const step = reader.Find("SLURM_STEP_ID");
  return absl::StrCat(job != nullptr ? Printable(*job) : "0", ".",
                      step != nullptr ? Printable(*step) : "0");
}

Found ReadSlurm(const Environment& environment) {
  Reader reader(environment);
  // A batch script also has SLURM_PROCID and SLURM_NTASKS, but is only one process.
  if (!IsSlurmStep(reader)) return std::nullopt;
  const std::string step = SlurmStep(reader);
  const std::string name = absl::StrCat("SLURM step ", step);
  Cluster cluster{.job = name, .source = name};
  reader.Size(reader.Has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
              "SLURM_PROCID", &cluster);
  cluster.local_rank = reader.OptionalNumber("SLURM_LOCALID");
  if (cluster.num_workers == 1 && reader.status().ok()) return cluster;
  std::string host;
  bool one_host = false;
  const absl::Status found = ReadSlurmHost(reader, &host, &one_host);
  MF_RETURN_IF_ERROR(reader.status());
  MF_RETURN_IF_ERROR(found);
  cluster.coordinator = CoordinatorOf(host, PortOfJob(step), one_host);
  const std::string* tasks = reader.Find("SLURM_STEP_TASKS_PER_NODE");
  if (tasks == nullptr) tasks = reader.Find("SLURM_TASKS_PER_NODE");
  const std::optional<int> node = reader.OptionalNumber("SLURM_NODEID");
  if (one_host) cluster.local_size = cluster.num_workers;
  if (!one_host && tasks != nullptr && node.has_value()) {
    cluster.local_size = TasksOfNode(*tasks, *node).value_or(1);
  }
  return cluster;
}

// The variables of one MPI implementation.
struct MpiVariables {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* job;  // empty if mpirun sets no job id that is the same for all ranks
};
constexpr MpiVariables kMpi[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_MCA_ess_base_jobid"},
    {"MPI (PMI)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID"},
    {"MVAPICH2", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE", ""},
};

// Returns the coordinator of an MPI job; empty if no variable names a host. MPI connects its
// processes by other means, so only Open MPI sets such a variable. It names the host of mpirun,
// which is not necessarily rank 0's host.
absl::StatusOr<std::string> MpiCoordinator(Reader& reader, bool one_host) {
  if (const std::string* const own = reader.Find("MIRRORFLOW_COORDINATOR")) {
    MF_RETURN_IF_ERROR(Annotate(ParseHostPort(*own).status(), "MIRRORFLOW_COORDINATOR"));
    return *own;
  }
  // `3512795136.0;tcp://10.0.0.1,172.17.0.2:35467;tcp6://[fe80::1]:35468`
  if (const std::string* const uri = reader.Find("OMPI_MCA_orte_hnp_uri")) {
    const std::vector<absl::string_view> parts = absl::StrSplit(absl::StripPrefix(*uri, "\""), ';');
    for (absl::string_view part : parts) {
      if (!absl::ConsumePrefix(&part, "tcp://") && !absl::ConsumePrefix(&part, "tcp6://")) continue;
      const bool ipv6 = absl::ConsumePrefix(&part, "[");
      const absl::string_view host = part.substr(0, part.find_first_of(ipv6 ? "]" : ",:"));
      const std::string address = CoordinatorOf(host, PortOfJob(parts[0]), one_host);
      MF_RETURN_IF_ERROR(Annotate(ParseHostPort(address).status(), "OMPI_MCA_orte_hnp_uri"));
      return address;
    }
  }
  if (IsSlurmStep(reader)) {
    std::string host;
    bool slurm_one_host = false;
    MF_RETURN_IF_ERROR(ReadSlurmHost(reader, &host, &slurm_one_host));
    if (!host.empty()) return CoordinatorOf(host, PortOfJob(SlurmStep(reader)), slurm_one_host);
  }
  return std::string();
}

Found ReadMpi(const Environment& environment) {
  Reader reader(environment);
  std::optional<Cluster> found;
  for (const MpiVariables& v : kMpi) {
    if (!reader.Has(v.rank) && !reader.Has(v.size)) continue;
    Cluster cluster{.job = reader.Job(v.name, {v.job, "PMIX_NAMESPACE"}), .source = v.name};
    reader.Size(v.size, v.rank, &cluster);
    cluster.local_rank = reader.OptionalNumber(v.local_rank);
    cluster.local_size = reader.OptionalNumber(v.local_size).value_or(1);
    MF_RETURN_IF_ERROR(reader.status());
    if (!found.has_value()) found = cluster;
    MF_RETURN_IF_ERROR(
        CheckAgreement(*found, cluster, "expected the variables of only one MPI implementation"));
  }
  if (!found.has_value() || found->num_workers == 1) return found;
  MF_ASSIGN_OR_RETURN(found->coordinator,
                      MpiCoordinator(reader, found->local_size == found->num_workers));
  return found;
}

}  // namespace

const std::string* FindVariable(const Environment& environment, absl::string_view name) {
  const auto it = environment.find(name);
  return it == environment.end() || it->second.empty() ? nullptr : &it->second;
}

absl::Status CheckAgreement(const Cluster& a, const Cluster& b, absl::string_view advice) {
  if (a.num_workers == b.num_workers && a.task_index == b.task_index) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("this is worker ", a.task_index, " of ", a.num_workers, " according to ",
                   a.source, ", but worker ", b.task_index, " of ", b.num_workers, " according to ",
                   b.source, "; ", advice));
}

absl::StatusOr<Cluster> ClusterOfAddresses(std::vector<std::string> addresses, int task_index,
                                           absl::string_view what) {
  std::set<std::string> different;
  std::vector<std::string> hosts;
  for (const std::string& address : addresses) {
    MF_ASSIGN_OR_RETURN(const HostPort parsed, Annotate(ParseHostPort(address), what));
    hosts.push_back(parsed.host);
    if (!different.insert(address).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": address ", address, " appears twice; expected one per worker"));
    }
  }
  Cluster cluster{.num_workers = static_cast<int>(addresses.size()), .task_index = task_index};
  if (addresses.size() > 1) cluster.coordinator = addresses[0];
  cluster.addresses = std::move(addresses);
  if (task_index >= 0 && task_index < cluster.num_workers) {
    const auto own = hosts.begin() + task_index;
    cluster.local_rank = static_cast<int>(std::count(hosts.begin(), own, *own));
    cluster.local_size = static_cast<int>(std::count(hosts.begin(), hosts.end(), *own));
  }
  return cluster;
}

absl::Span<const ClusterSource> ClusterSources() {
  static constexpr ClusterSource kSources[] = {
      {"", "MIRRORFLOW_NUM_WORKERS", ReadOwnVariables},
      {"tf_config", "TF_CONFIG", ReadTfConfig},
      {"torchrun", "RANK", ReadTorchrun},
      {"mpi", "OMPI_COMM_WORLD_RANK, PMI_RANK or MV2_COMM_WORLD_RANK", ReadMpi},
      {"slurm", "SLURM_STEP_ID", ReadSlurm},
  };
  return kSources;
}

}  // namespace mirrorflow
