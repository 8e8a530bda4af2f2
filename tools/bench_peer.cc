// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_peer.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <functional>
#include <utility>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "distribute/cluster/connect_rank.h"
#include "distribute/cluster/coordination/coordination_client.h"
#include "distribute/cluster/coordination/coordination_server.h"
#include "framework/core/status.h"
#include "framework/runtime/usable_cpus.h"
#include "mirrorflow.h"
#include "tools/launch/free_ports.h"

ABSL_DECLARE_FLAG(std::string, model);
ABSL_DECLARE_FLAG(int64_t, batch_size);
ABSL_DECLARE_FLAG(std::string, optimizer);
ABSL_FLAG(int, workers, 1,
          "bench step: processes of this host, with --replicas each, whose steps are measured");
ABSL_FLAG(std::string, transport, "threads",
          "bench allreduce: between threads of one process, or between two processes over "
          "shared_memory or ucx");
ABSL_FLAG(int64_t, bytes, 1 << 20, "bench allreduce_peer: size of the value");
ABSL_FLAG(std::string, save_to, "", "bench peer: directory of checkpoints; empty: none");
ABSL_DECLARE_FLAG(std::optional<int>, replicas);
ABSL_DECLARE_FLAG(absl::Duration, heartbeat_timeout);

namespace mirrorflow {
namespace {

constexpr absl::Duration kTrainingTime = absl::Milliseconds(200);  // as in peer.py
constexpr int kCheckedSteps = 3;                                   // as in peer.py
constexpr absl::Duration kTimeout = absl::Seconds(120);

using Work = std::function<absl::Status()>;

// ---- processes ----------------------------------------------------------------------------------

// Limits this process to `count` of its cores, from the `first` on, as the peers do.
void UseCores(int first, int count) {
  const std::vector<int> cpus = UsableCpus();
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  for (int i = first; i < std::min(first + count, static_cast<int>(cpus.size())); ++i) {
    CPU_SET(cpus[i], &chosen);
  }
  if (CPU_COUNT(&chosen) > 0) sched_setaffinity(0, sizeof(chosen), &chosen);
}

// Starts the other workers, which end with this process, and returns the cluster as the calling
// one sees it. Call while there are no other threads.
absl::StatusOr<Cluster> ForkWorkers(int num_workers) {
  Cluster cluster = {.num_workers = num_workers, .source = "bench"};
  MF_ASSIGN_OR_RETURN(const std::vector<int> ports, FreePorts(1));
  cluster.coordinator = absl::StrCat("127.0.0.1:", ports[0]);
  for (int worker = 1; worker < num_workers; ++worker) {
    const pid_t process = fork();
    if (process < 0) return absl::ErrnoToStatus(errno, "fork");
    if (process > 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Only worker 0 talks.
    const int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    cluster.task_index = worker;
    break;
  }
  return cluster;
}

absl::StatusOr<std::unique_ptr<PeerProcess>> StartThisProgram(std::vector<std::string> args) {
  args.insert(args.begin(), {"/proc/self/exe", "bench"});
  return PeerProcess::Start(args, kTimeout);
}

// ---- the protocol of peers ----------------------------------------------------------------------

// Says that this process is ready, and works as long as it is asked to. `step` takes about
// `step_time`.
absl::Status ServeRuns(const Work& step, absl::Duration step_time) {
  std::puts("ready");
  std::fflush(stdout);
  for (double seconds = 0; std::scanf(" run %lf", &seconds) == 1;) {
    const double wanted = std::round(seconds / absl::ToDoubleSeconds(step_time));
    const auto steps = static_cast<int64_t>(std::max(wanted, 1.0));
    const absl::Time begin = absl::Now();
    for (int64_t i = 0; i < steps; ++i) MF_RETURN_IF_ERROR(step());
    std::printf("ran %lld %.9f\n", static_cast<long long>(steps),
                absl::ToDoubleSeconds(absl::Now() - begin));
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

// Warms up, and returns how long a step takes.
absl::StatusOr<absl::Duration> MeasureWork(const Work& step) {
  const absl::Time begin = absl::Now();
  absl::Time now = begin;
  int64_t steps = 0;
  for (; now < begin + kTrainingTime; now = absl::Now(), ++steps) MF_RETURN_IF_ERROR(step());
  return (now - begin) / steps;
}

// The other workers do what worker 0 does until it ends, which fails their work.
[[noreturn]] void Follow(const Work& step) {
  while (step().ok()) {
  }
  _exit(0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerProcess>> StartTraining(const TrainingCase& training) {
  return StartThisProgram(
      {"peer", absl::StrCat("--model=", training.model),
       absl::StrCat("--batch_size=", training.batch_size),
       absl::StrCat("--optimizer=", training.optimizer),
       absl::StrCat("--replicas=", training.replicas), absl::StrCat("--workers=", training.workers),
       absl::StrCat("--save_to=", training.checkpoint_dir),
       absl::StrCat("--heartbeat_timeout=", absl::FormatDuration(training.heartbeat_timeout))});
}

absl::StatusOr<std::unique_ptr<PeerProcess>> StartAllReduce(int64_t bytes,
                                                            const std::string& transport) {
  return StartThisProgram(
      {"allreduce_peer", absl::StrCat("--bytes=", bytes), absl::StrCat("--transport=", transport)});
}

absl::Status TrainAsPeer(Report* /*report*/) {
  const TrainingCase training = {.model = absl::GetFlag(FLAGS_model),
                                 .batch_size = absl::GetFlag(FLAGS_batch_size),
                                 .replicas = absl::GetFlag(FLAGS_replicas).value_or(1),
                                 .optimizer = absl::GetFlag(FLAGS_optimizer),
                                 .workers = absl::GetFlag(FLAGS_workers),
                                 .checkpoint_dir = absl::GetFlag(FLAGS_save_to),
                                 .heartbeat_timeout = absl::GetFlag(FLAGS_heartbeat_timeout)};
  MF_ASSIGN_OR_RETURN(const Cluster cluster, ForkWorkers(training.workers));
  UseCores(cluster.task_index * training.replicas, training.replicas);
  MF_ASSIGN_OR_RETURN(TrainingStep t, PrepareTraining(training, cluster));
  std::unique_ptr<CheckpointManager> checkpoints;
  if (!training.checkpoint_dir.empty()) {
    MF_ASSIGN_OR_RETURN(
        checkpoints, CheckpointManager::Create(*t.session, {.directory = training.checkpoint_dir}));
  }
  float loss = 0;
  int64_t steps = 0;
  const auto step = [&]() -> absl::Status {
    MF_ASSIGN_OR_RETURN(const StepOutputs out, t.step.Run(t.feeds));
    loss = out[0].scalar<float>();
    const bool saves = ++steps % kStepsBetweenSaves == 0 && checkpoints != nullptr;
    return saves ? checkpoints->Save({.step = steps}) : absl::OkStatus();
  };
  if (cluster.task_index > 0) Follow(step);
  std::printf("version %s\n", Implementation().version.c_str());
  for (int i = 0; i < kCheckedSteps; ++i) {
    MF_RETURN_IF_ERROR(step());
    std::printf("loss %.9g\n", loss);
    std::fflush(stdout);
  }
  MF_ASSIGN_OR_RETURN(const absl::Duration step_time, MeasureWork(step));
  return ServeRuns(step, step_time);
}

absl::Status AllReduceAsPeer(Report* /*report*/) {
  MF_ASSIGN_OR_RETURN(const CollectiveKind kind,
                      ParseCollectiveKind(absl::GetFlag(FLAGS_transport)));
  MF_ASSIGN_OR_RETURN(const Cluster cluster, ForkWorkers(/*num_workers=*/2));
  UseCores(cluster.task_index, 1);
  std::unique_ptr<CoordinationServer> server;
  if (cluster.task_index == 0) {
    MF_ASSIGN_OR_RETURN(server, CoordinationServer::Start({.address = cluster.coordinator,
                                                           .num_workers = cluster.num_workers}));
  }
  const absl::Time deadline = absl::Now() + kTimeout;
  CoordinationClient::Options options = {.coordinator = cluster.coordinator};
  options.member.set_worker(cluster.task_index);
  options.member.set_num_workers(cluster.num_workers);
  MF_ASSIGN_OR_RETURN(const auto client, CoordinationClient::Connect(options, deadline));
  MF_ASSIGN_OR_RETURN(const ConnectedRank rank, ConnectRank(client->NewGroup(), client->NewGroup(),
                                                            kind, kTimeout, deadline));
  const int64_t bytes = absl::GetFlag(FLAGS_bytes);
  MF_ASSIGN_OR_RETURN(const auto memory, rank.memory->Allocate(bytes));
  const Collective all_reduce = {
      .operation = AllReduce{Reduction::kSum, bytes / static_cast<int64_t>(sizeof(float))},
      .in = memory.get(),
      .out = memory.get(),
      .name = "benchmark"};
  const auto step = [&] { return rank.communicator->Run(all_reduce); };
  if (cluster.task_index > 0) Follow(step);
  std::printf("version %s\n", Implementation().version.c_str());
  MF_ASSIGN_OR_RETURN(const absl::Duration step_time, MeasureWork(step));
  return ServeRuns(step, step_time);
}

}  // namespace mirrorflow
