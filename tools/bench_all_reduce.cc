// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_all_reduce.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "distribute/collective/in_process.h"
#include "framework/core/status.h"
#include "tools/bench_peers.h"
#include "tools/machine.h"
#include "tools/statistics.h"

ABSL_DECLARE_FLAG(int, rounds);

namespace mirrorflow {
namespace {

constexpr const char* kAlgorithms[] = {"ring", "bcube"};

constexpr struct {
  int64_t bytes;
  const char* name;
  double bound;  // how many times as long Gloo should take; 0: no gate
} kSizes[] = {{4, "4 B", 0},
              {4 << 10, "4 KB", 0},
              {64 << 10, "64 KB", 0},
              {1 << 20, "1 MB", 15},
              {25 << 20, "25 MB", 8}};

// An all-reduce in place with memory of its own, aligned as an arena would be.
class Contribution {
 public:
  explicit Contribution(int64_t bytes) : memory_(bytes + kAlignment, 0) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    collective_.in = collective_.out = memory_.data() + (-address % kAlignment);
    collective_.count = bytes / static_cast<int64_t>(sizeof(float));
    collective_.kind = CollectiveKind::kAllReduce;
    collective_.dtype = DT_FLOAT;
    collective_.name = "benchmark";
  }
  const Collective& collective() const { return collective_; }

 private:
  static constexpr uintptr_t kAlignment = 4096;
  std::vector<char> memory_;
  Collective collective_;
};

// Two ranks, each pinned to a core; rank 0 is whoever calls, and rank 1 follows it.
class Ranks {
 public:
  static absl::StatusOr<std::unique_ptr<Ranks>> Create(int64_t bytes) {
    MF_ASSIGN_OR_RETURN(auto communicators, CreateInProcessCommunicators(2));
    return std::unique_ptr<Ranks>(new Ranks(std::move(communicators), bytes));
  }
  ~Ranks() {
    communicators_[0]->Abort(absl::CancelledError("the benchmark is over"));
    follower_.join();
  }
  absl::Status Run() { return communicators_[0]->Run(contribution_.collective()); }

 private:
  Ranks(std::vector<std::unique_ptr<Communicator>> communicators, int64_t bytes)
      : communicators_(std::move(communicators)), contribution_(bytes), follower_([this, bytes] {
          const PinnedTo core(1);
          const Contribution own(bytes);
          while (communicators_[1]->Run(own.collective()).ok()) {
          }
        }) {}

  const std::vector<std::unique_ptr<Communicator>> communicators_;
  const Contribution contribution_;
  std::thread follower_;
};

}  // namespace

absl::Status BenchAllReduce(Report* report) {
  for (const auto& size : kSizes) {
    Goal goal = {.gate = size.bound > 0 ? "C11" : "",
                 .what = absl::StrCat("all-reduce of ", size.name, ", 2 replicas"),
                 .bound = size.bound};
    if (!report->Wants(goal.gate)) continue;
    MF_ASSIGN_OR_RETURN(const auto ranks, Ranks::Create(size.bytes));
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
