// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/update.h"

#include <cstdint>
#include <memory>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/communicator.h"
#include "tools/bench/benchmarks.h"
#include "tools/bench/statistics.h"
#include "tools/bench/two_ranks.h"

namespace mirrorflow {
namespace {

constexpr float kRate = 1e-3f;

// A replica's gradient and weights. The weights are either private to the replica or shared by
// all replicas.
struct Replica {
  Replica(int64_t n, std::shared_ptr<ReplicaMemory> w)
      : bytes(n * static_cast<int64_t>(sizeof(float))), gradient(bytes), weights(std::move(w)) {
    if (weights == nullptr) weights = std::make_shared<ReplicaMemory>(bytes);
    variables[0] = weights->data();
  }
  const int64_t bytes;
  ReplicaMemory gradient;
  std::shared_ptr<ReplicaMemory> weights;
  std::byte* variables[1];
};

RankWork ReduceThenUpdate(int64_t n) {
  return [n, replica = std::make_shared<Replica>(n, nullptr)](Communicator& communicator) {
    MF_RETURN_IF_ERROR(communicator.Run({.operation = AllReduce{Reduction::kSum, n},
                                         .in = replica->gradient.data(),
                                         .out = replica->gradient.data(),
                                         .name = "benchmark"}));
    GradientDescent<float>{kRate}(replica->weights->floats(), replica->gradient.floats(), n);
    return absl::OkStatus();
  };
}

class DescentRule final : public UpdateRule {
 public:
  explicit DescentRule(float* weights) : weights_(weights) {}
  void Apply(int64_t first, const void* gradient, int64_t count) override {
    GradientDescent<float>{kRate}(weights_ + first, static_cast<const float*>(gradient), count);
  }

 private:
  float* const weights_;
};

RankWork ReduceInUpdate(int64_t n, std::shared_ptr<ReplicaMemory> shared) {
  const auto replica = std::make_shared<Replica>(n, std::move(shared));
  const auto rule = std::make_shared<DescentRule>(replica->weights->floats());
  return [n, replica, rule](Communicator& communicator) {
    return communicator.Run({.operation = Update{.reduction = Reduction::kSum,
                                                 .count = n,
                                                 .variables = replica->variables,
                                                 .rule = rule.get()},
                             .in = replica->gradient.data(),
                             .name = "benchmark"});
  };
}

absl::Status BenchSize(int64_t bytes, const char* name, Report* report) {
  const int64_t n = bytes / static_cast<int64_t>(sizeof(float));
  const auto shared = std::make_shared<ReplicaMemory>(bytes);
  MF_ASSIGN_OR_RETURN(const Side fused,
                      MakeTwoRankSide([n, shared] { return ReduceInUpdate(n, shared); }));
  MF_ASSIGN_OR_RETURN(const Side apart, MakeTwoRankSide([n] { return ReduceThenUpdate(n); }));
  MF_ASSIGN_OR_RETURN(
      const Rounds rounds,
      MeasureInTurns({fused, apart}, {.rounds = absl::GetFlag(FLAGS_rounds), .canary_threads = 2}));
  report->Add({.gate = "C12",
               .what = absl::StrCat("reduction in the update of ", name, ", 2 replicas"),
               .figure = RatioOf(rounds.ms[1], rounds.ms[0]),
               .bound = 1.8,
               .ours = FormatMedian(rounds, 0),
               .peer = absl::StrCat("all-reduce, then update ", FormatMedian(rounds, 1))});
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchUpdate(Report* report) {
  MF_RETURN_IF_ERROR(BenchSize(1 << 20, "1 MB", report));
  return BenchSize(25 << 20, "25 MB", report);
}

}  // namespace mirrorflow
