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
#include "tools/bench_peers.h"
#include "tools/machine.h"
#include "tools/statistics.h"
#include "tools/two_ranks.h"

ABSL_DECLARE_FLAG(int, rounds);

namespace mirrorflow {
namespace {

constexpr const char* kAlgorithms[] = {"ring", "bcube"};

constexpr struct {
  int64_t bytes;
  const char* name;
  double bound;  // minimum ratio of Gloo's time to ours; 0: no gate
} kSizes[] = {{4, "4 B", 0},
              {4 << 10, "4 KB", 0},
              {64 << 10, "64 KB", 0},
              {1 << 20, "1 MB", 15},
              {25 << 20, "25 MB", 8}};

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

}  // namespace

absl::Status BenchAllReduce(Report* report) {
  for (const auto& size : kSizes) {
    Goal goal = {.gate = size.bound > 0 ? "C11" : "",
                 .what = absl::StrCat("all-reduce of ", size.name, ", 2 replicas"),
                 .bound = size.bound};
    if (!report->Wants(goal.gate)) continue;
    MF_ASSIGN_OR_RETURN(const auto ranks,
                        TwoRanks::Create([bytes = size.bytes] { return ReduceInPlace(bytes); }));
    std::vector<Side> sides = {[work = SideOf([&] { return ranks->Run(); })](double ms) {
      const PinnedTo core(0);
      return work(ms);
    }};
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

}  // namespace mirrorflow
