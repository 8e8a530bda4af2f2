// SPDX-License-Identifier: Apache-2.0
//
// Runs this program as a benchmark peer, with the protocol of tests/benchmark/peers/peer.py. With
// several workers, only worker 0 talks to the benchmark.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "distribute/cluster/cluster_resolver.h"
#include "distribute/cluster/join_cluster.h"
#include "distribute/collective/address_space.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/terminal.h"
#include "framework/runtime/trace.h"
#include "framework/runtime/usable_cpus.h"
#include "mirrorflow.h"
#include "tools/bench/benchmarks.h"
#include "tools/bench/training_case.h"
#include "tools/flags/cluster_flags.h"
#include "tools/flags/step_flags.h"

ABSL_FLAG(int64_t, bytes, 1 << 20, "bench allreduce_peer: size of the value");
ABSL_FLAG(std::string, save_to, "", "bench peer: checkpoint directory; if empty, no checkpoints");
ABSL_DECLARE_FLAG(std::vector<std::string>, cluster_spec);
ABSL_DECLARE_FLAG(std::optional<int>, task_index);
ABSL_DECLARE_FLAG(absl::Duration, heartbeat_timeout);

namespace mirrorflow {
namespace {

constexpr double kWarmUpMs = 200;  // as in peer.py
constexpr int kCheckedSteps = 3;   // as in peer.py
constexpr int kStepsBeforeTrace = 10, kTracedSteps = 20;
constexpr absl::Duration kTimeout = absl::Seconds(120);

using Work = std::function<absl::Status()>;

// Limits this process to `count` of its cores, starting at `first`, as the peers do.
void UseCores(int first, int count) {
  const std::vector<int> cpus = UsableCpus();
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  for (int i = first; i < std::min(first + count, static_cast<int>(cpus.size())); ++i) {
    CPU_SET(cpus[i], &chosen);
  }
  if (CPU_COUNT(&chosen) > 0) sched_setaffinity(0, sizeof(chosen), &chosen);
}

// Returns the cluster that StartTraining or StartAllReduce started.
absl::StatusOr<Cluster> ClusterOfBenchmark() {
  return ClusterResolver::FromEnvironment({}, {.cluster_spec = absl::GetFlag(FLAGS_cluster_spec),
                                               .task_index = absl::GetFlag(FLAGS_task_index)});
}

// Warms up, reports that this process is ready, and then runs steps for the time that each request
// specifies.
absl::Status ServeRuns(const Work& step) {
  MF_ASSIGN_OR_RETURN(const double step_ms, MeanCallMs(kWarmUpMs, step));
  std::puts("ready");
  std::fflush(stdout);
  for (double seconds = 0; std::scanf(" run %lf", &seconds) == 1;) {
    const double wanted = std::round(seconds * 1e3 / step_ms);
    const auto steps = static_cast<int64_t>(std::max(wanted, 1.0));
    // The other workers began their next step while this worker waited for the request, so that
    // step is not timed.
    MF_RETURN_IF_ERROR(step());
    const MonotonicTime begin = MonotonicTime::Now();
    for (int64_t i = 0; i < steps; ++i) MF_RETURN_IF_ERROR(step());
    std::printf("ran %lld %.9f\n", static_cast<long long>(steps),
                absl::ToDoubleSeconds(MonotonicTime::Now() - begin));
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

absl::Status TraceSteps(const ReadyStep& t, const Work& step, const std::string& path) {
  for (int i = 0; i < kStepsBeforeTrace; ++i) MF_RETURN_IF_ERROR(step());
  TraceWriter trace;
  MF_RETURN_IF_ERROR(t.session->TraceTo(&trace));
  for (int i = 0; i < kTracedSteps; ++i) MF_RETURN_IF_ERROR(step());
  return WriteTraceOfWorkers(*t.session, trace, path, *t.strategy);
}

// Runs steps with worker 0 until a step fails because worker 0 has ended.
[[noreturn]] void Follow(const Work& step) {
  while (step().ok()) {
  }
  _exit(0);
}

}  // namespace

absl::Status TrainAsPeer(Report* /*report*/) {
  MF_ASSIGN_OR_RETURN(const Cluster cluster, ClusterOfBenchmark());
  MF_ASSIGN_OR_RETURN(TrainingCase training, TrainingCaseFromFlags(1));
  training.workers = cluster.num_workers;
  training.checkpoint_dir = absl::GetFlag(FLAGS_save_to);
  training.heartbeat_timeout = absl::GetFlag(FLAGS_heartbeat_timeout);
  UseCores(cluster.task_index * training.replicas, training.replicas);
  MF_ASSIGN_OR_RETURN(ReadyStep t, PrepareTraining(training, cluster));
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
  const bool speaks = cluster.task_index == 0;
  if (speaks) PrintLine(absl::StrCat("version ", Implementation().version));
  for (int i = 0; i < kCheckedSteps; ++i) {
    MF_RETURN_IF_ERROR(step());
    if (!speaks) continue;
    std::printf("loss %.9g\n", loss);
    std::fflush(stdout);
  }
  if (!training.trace.empty()) MF_RETURN_IF_ERROR(TraceSteps(t, step, training.trace));
  if (!speaks) Follow(step);
  return ServeRuns(step);
}

absl::Status AllReduceAsPeer(Report* /*report*/) {
  MF_ASSIGN_OR_RETURN(const CollectiveKind kind,
                      ParseCollectiveKind(absl::GetFlag(FLAGS_transport)));
  MF_ASSIGN_OR_RETURN(const Cluster cluster, ClusterOfBenchmark());
  UseCores(cluster.task_index, 1);
  const MonotonicTime deadline = MonotonicTime::Now() + kTimeout;
  MF_ASSIGN_OR_RETURN(
      const auto joined,
      JoinCluster(cluster, {.devices = {"CPU:0"}, .collective_timeout = kTimeout},
                  {.insecure = true, .collective = kind, .connect_timeout = kTimeout}));
  MF_ASSIGN_OR_RETURN(const auto communicators, joined->ConnectReplicas(deadline));
  std::shared_ptr<AddressSpace> space = joined->host_memory();
  if (space == nullptr) space = AddressSpace::OfThisProcess();
  const int64_t bytes = absl::GetFlag(FLAGS_bytes);
  MF_ASSIGN_OR_RETURN(const auto memory, space->Allocate(bytes));
  const Collective all_reduce = {
      .operation = AllReduce{Reduction::kSum, bytes / static_cast<int64_t>(sizeof(float))},
      .in = memory.get(),
      .out = memory.get(),
      .name = "benchmark"};
  const auto step = [&] { return communicators[0]->Run(all_reduce); };
  if (cluster.task_index > 0) Follow(step);
  PrintLine(absl::StrCat("version ", Implementation().version));
  return ServeRuns(step);
}

}  // namespace mirrorflow
