// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "tools/bench/benchmarks.h"
#include "tools/bench/start_peers.h"
#include "tools/bench/statistics.h"
#include "tools/bench/temporary_directory.h"
#include "tools/bench/two_ranks.h"
#include "tools/bench/worker_hosts.h"
#include "tools/flags/command_line.h"
#include "tools/flags/step_flags.h"
#include "tools/launch/launch.h"

namespace mirrorflow {
namespace {

constexpr char kThreads[] = "threads", kSharedMemory[] = "shared_memory", kUcx[] = "ucx",
               kTcp[] = "tcp";

constexpr const char* kAlgorithms[] = {"ring", "bcube"};

// Enough to reduce the largest value several times, even on a slow link.
constexpr double kRoundMsBetweenHosts = 500;

// Minimum ratios of Gloo's time to Mirrorflow's, or 0 if there is no gate.
constexpr struct {
  int64_t bytes;
  const char* name;
  double between_threads;
  double between_processes;
  double between_hosts;
} kSizes[] = {{4, "4 B", 0, 0, 0},
              {4 << 10, "4 KB", 0, 0, 3},
              {64 << 10, "64 KB", 0, 0, 0},
              {1 << 20, "1 MB", 15, 10, 2},
              {25 << 20, "25 MB", 8, 6, 1.7}};

// A transport to measure, and the link that its goals name, if any.
struct AllReduceCase {
  std::string transport;
  WorkerHosts hosts = {};
  const Link* link = nullptr;
};

// All-reduces `bytes` of floats in place.
RankWork ReduceInPlace(int64_t bytes) {
  return [bytes, memory = std::make_shared<ReplicaMemory>(bytes)](Communicator& communicator) {
    const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
    return communicator.Run({.operation = AllReduce{Reduction::kSum, count},
                             .in = memory->data(),
                             .out = memory->data(),
                             .name = "benchmark"});
  };
}

absl::StatusOr<Side> OwnSide(int64_t bytes, const AllReduceCase& c) {
  if (c.transport == kThreads) return MakeTwoRankSide([bytes] { return ReduceInPlace(bytes); });
  MF_ASSIGN_OR_RETURN(auto processes, StartAllReduce(bytes, c.transport, c.hosts));
  return MakeSide(std::move(processes));
}

absl::StatusOr<std::unique_ptr<PeerProcess>> StartGloo(const std::string& algorithm, int64_t bytes,
                                                       const WorkerHosts& hosts) {
  const TemporaryDirectory meeting;
  return StartPeer("gloo",
                   {algorithm, absl::StrCat(bytes), meeting.path(), "{addresses}", "{worker}"},
                   /*workers=*/2, hosts);
}

// Returns the goal for a size. Its gate is empty if the size has none.
Goal GoalOf(const AllReduceCase& c, const decltype(kSizes[0])& size) {
  const std::string what = absl::StrCat("all-reduce of ", size.name, ", 2 ");
  Goal goal = {.what = absl::StrCat(what, "processes")};
  if (c.transport == kThreads) {
    goal = {.gate = "C11", .what = absl::StrCat(what, "replicas"), .bound = size.between_threads};
  } else if (c.transport == kSharedMemory) {
    goal.gate = "C13";
    goal.bound = size.between_processes;
  } else if (c.link != nullptr) {
    goal = {.gate = "C14",
            .what = absl::StrCat(what, "hosts, ", c.link->name),
            .bound = size.between_hosts,
            // On a slower link, the wire time dominates on both sides.
            .gated = c.link == &kVirtualEthernet};
  }
  if (goal.bound == 0) goal.gate.clear();
  return goal;
}

absl::Status BenchAllReduceOver(const AllReduceCase& c, Report* report) {
  for (const auto& size : kSizes) {
    Goal goal = GoalOf(c, size);
    if (!report->Wants(goal.gate)) continue;
    std::vector<Side> sides;
    MF_ASSIGN_OR_RETURN(sides.emplace_back(), OwnSide(size.bytes, c));
    std::vector<Implementation> names = {Implementation()};
    absl::Status missing;
    for (const char* algorithm : kAlgorithms) {
      auto peer = StartGloo(algorithm, size.bytes, c.hosts);
      if (!peer.ok()) {
        missing = peer.status();
        continue;
      }
      names.push_back({absl::StrCat("gloo ", algorithm), (*peer)->start().version});
      sides.push_back(MakeSide(*std::move(peer)));
    }
    TimingOptions options{.rounds = absl::GetFlag(FLAGS_rounds), .canary_threads = 2};
    if (!c.hosts.hosts.empty()) options.round_ms = kRoundMsBetweenHosts;
    MF_ASSIGN_OR_RETURN(const Rounds rounds, MeasureInTurns(sides, options));
    for (size_t side = 0; side < sides.size(); ++side) {
      report->Add(absl::StrCat("allreduce/", size.name), 2, 0, TimingOf(rounds, side), names[side]);
    }
    goal.ours = FormatMedian(rounds, 0);
    if (sides.size() == 1) {
      report->AddUnmeasured(goal, missing.message());
      continue;
    }
    size_t best = 1;
    for (size_t side = 2; side < sides.size(); ++side) {
      if (TimingOf(rounds, side).median_ms < TimingOf(rounds, best).median_ms) best = side;
    }
    goal.peer = absl::StrCat(names[best].name, " ", FormatMedian(rounds, best));
    goal.figure = RatioOf(rounds.ms[best], rounds.ms[0]);
    report->Add(goal);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchAllReduce(Report* report) {
  AllReduceCase c = {.transport = absl::GetFlag(FLAGS_transport)};
  MF_ASSIGN_OR_RETURN(c.hosts, HostsFromFlags());
  return BenchAllReduceOver(c, report);
}

absl::Status BenchAllReduceOfThreads(Report* report) {
  return BenchAllReduceOver({.transport = kThreads}, report);
}

absl::Status BenchAllReduceOfProcesses(Report* report) {
  return BenchAllReduceOver({.transport = kSharedMemory}, report);
}

absl::Status BenchAllReduceOverTcp(const Link& link, Report* report) {
  MF_ASSIGN_OR_RETURN(const auto namespaces, NetworkNamespaces::Create(link));
  return BenchAllReduceOver({.transport = kTcp, .hosts = namespaces->hosts(), .link = &link},
                            report);
}

absl::Status CheckAllReduceWorkers() {
  MF_RETURN_IF_ERROR(CheckHostsFlags(/*num_workers=*/2));
  const std::string transport = absl::GetFlag(FLAGS_transport);
  MF_ASSIGN_OR_RETURN(const WorkerHosts hosts, HostsFromFlags());
  if (hosts.hosts.empty() || transport == kTcp || transport == kUcx) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--transport: cannot be used with --hosts; expected ", kTcp, " or ", kUcx,
                   ", got ", transport));
}

absl::Status CheckAllReduceFlags() {
  return CheckChoice("transport", absl::GetFlag(FLAGS_transport),
                     {kThreads, kSharedMemory, kUcx, kTcp});
}

}  // namespace mirrorflow
