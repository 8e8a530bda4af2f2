// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_all_reduce.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "tools/bench_peer.h"
#include "tools/bench_peers.h"
#include "tools/machine.h"
#include "tools/statistics.h"
#include "tools/two_ranks.h"

ABSL_DECLARE_FLAG(int, rounds);
ABSL_DECLARE_FLAG(std::string, transport);

namespace mirrorflow {
namespace {

constexpr char kThreads[] = "threads", kSharedMemory[] = "shared_memory", kUcx[] = "ucx";

constexpr const char* kAlgorithms[] = {"ring", "bcube"};

// Minimum ratios of Gloo's time to ours; 0: no gate.
constexpr struct {
  int64_t bytes;
  const char* name;
  double between_threads;
  double between_processes;
} kSizes[] = {{4, "4 B", 0, 0},
              {4 << 10, "4 KB", 0, 0},
              {64 << 10, "64 KB", 0, 0},
              {1 << 20, "1 MB", 15, 10},
              {25 << 20, "25 MB", 8, 6}};

// All-reduces `bytes` of floats in place.
TwoRanks::Work ReduceInPlace(int64_t bytes) {
  return [bytes, memory = std::make_shared<ReplicaMemory>(bytes)](Communicator& communicator) {
    const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
    return communicator.Run({.operation = AllReduce{Reduction::kSum, count},
                             .in = memory->data(),
                             .out = memory->data(),
                             .name = "benchmark"});
  };
}

// Our side, and what keeps it alive.
struct OwnSide {
  Side side;
  std::unique_ptr<TwoRanks> threads;
  std::unique_ptr<PeerProcess> processes;
};

absl::StatusOr<OwnSide> MakeOwnSide(int64_t bytes, const std::string& transport) {
  OwnSide own;
  if (transport == kThreads) {
    MF_ASSIGN_OR_RETURN(own.threads, TwoRanks::Create([bytes] { return ReduceInPlace(bytes); }));
    own.side = [work = SideOf([ranks = own.threads.get()] { return ranks->Run(); })](double ms) {
      const PinnedTo core(0);
      return work(ms);
    };
  } else {
    MF_ASSIGN_OR_RETURN(own.processes, StartAllReduce(bytes, transport));
    own.side = [peer = own.processes.get()](double ms) { return peer->Run(ms); };
  }
  return own;
}

absl::Status BenchAllReduceOver(const std::string& transport, Report* report) {
  const bool threads = transport == kThreads;
  for (const auto& size : kSizes) {
    Goal goal = {.what = absl::StrCat("all-reduce of ", size.name, ", 2 ",
                                      threads ? "replicas" : "processes"),
                 .bound = threads                      ? size.between_threads
                          : transport == kSharedMemory ? size.between_processes
                                                       : 0};
    if (goal.bound > 0) goal.gate = threads ? "C11" : "C13";
    if (!report->Wants(goal.gate)) continue;
    MF_ASSIGN_OR_RETURN(const OwnSide own, MakeOwnSide(size.bytes, transport));
    std::vector<Side> sides = {own.side};
    std::vector<Implementation> names = {Implementation()};
    std::vector<std::unique_ptr<PeerProcess>> peers;
    absl::Status missing;
    for (const char* algorithm : kAlgorithms) {
      auto peer = StartPeer("gloo", {algorithm, absl::StrCat(size.bytes)});
      if (!peer.ok()) {
        missing = peer.status();
        continue;
      }
      names.push_back({absl::StrCat("gloo ", algorithm), (*peer)->version()});
      sides.push_back([p = peer->get()](double ms) { return p->Run(ms); });
      peers.push_back(*std::move(peer));
    }
    MF_ASSIGN_OR_RETURN(
        const Rounds rounds,
        MeasureInTurns(sides, {.rounds = absl::GetFlag(FLAGS_rounds), .canary_threads = 2}));
    for (size_t side = 0; side < sides.size(); ++side) {
      report->Add(absl::StrCat("allreduce/", size.name), 2, 0,
                  TimingOf(rounds, static_cast<int>(side)), names[side]);
    }
    goal.ours = FormatMs(TimingOf(rounds, 0).median_ms);
    if (peers.empty()) {
      report->AddUnmeasured(goal, "not measured", missing.message());
      continue;
    }
    size_t best = 1;
    for (size_t side = 2; side < sides.size(); ++side) {
      if (TimingOf(rounds, side).median_ms < TimingOf(rounds, best).median_ms) best = side;
    }
    goal.peer = absl::StrCat(names[best].name, " ", FormatMs(TimingOf(rounds, best).median_ms));
    goal.figure = RatioOf(rounds.ms[best], rounds.ms[0]);
    report->Add(goal);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchAllReduce(Report* report) {
  return BenchAllReduceOver(absl::GetFlag(FLAGS_transport), report);
}

absl::Status BenchAllReduceOfThreads(Report* report) {
  return BenchAllReduceOver(kThreads, report);
}

absl::Status BenchAllReduceOfProcesses(Report* report) {
  return BenchAllReduceOver(kSharedMemory, report);
}

absl::Status CheckAllReduceFlags() {
  const std::string transport = absl::GetFlag(FLAGS_transport);
  if (transport == kThreads || transport == kSharedMemory || transport == kUcx) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--transport: unknown; expected one of ", kThreads,
                                                 ", ", kSharedMemory, ", ", kUcx, ", got '",
                                                 transport, "'"));
}

}  // namespace mirrorflow
