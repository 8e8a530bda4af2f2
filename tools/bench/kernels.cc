// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "mirrorflow_debug.h"
#include "tools/bench/benchmarks.h"
#include "tools/bench/machine.h"
#include "tools/bench/start_peers.h"
#include "tools/bench/statistics.h"

namespace mirrorflow {
namespace {

constexpr double kSameResult = 1e-3;

// Must return the same numbers as kernels_peer.cc.
absl::StatusOr<Tensor> Numbers(const Shape& shape, int64_t seed) {
  MF_ASSIGN_OR_RETURN(Tensor numbers, Tensor::Allocate(DT_FLOAT, shape));
  int64_t i = 0;
  for (float& x : numbers.flat<float>()) {
    x = static_cast<float>((i++ * 37 + seed) % 101) / 101 - 0.5f;
  }
  return numbers;
}

// A peer that computes the same results, and the bound of its goal.
struct Rival {
  std::vector<std::string> args;  // for kernels_peer
  std::string name;
  double bound;
  bool same_result = true;
};

// Mirrorflow's side: a step that computes `outputs` from placeholders.
struct Ours {
  std::string gate;
  std::string what;
  const Graph* graph;
  std::vector<Output> inputs;
  std::vector<Output> outputs;
};

absl::Status MeasureAgainst(const Ours& ours, const std::vector<Rival>& rivals, Report* report) {
  MF_ASSIGN_OR_RETURN(const auto strategy, OneDeviceStrategy::Create());
  MF_ASSIGN_OR_RETURN(const auto session, strategy->NewSession(*ours.graph));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare(ours.inputs, ours.outputs));
  std::vector<Tensor> feeds;
  for (const Output& input : ours.inputs) {
    const Shape shape = ours.graph->values().shape(input);
    MF_ASSIGN_OR_RETURN(Tensor feed, Numbers(shape, static_cast<int64_t>(feeds.size()) + 1));
    feeds.push_back(std::move(feed));
  }
  MF_ASSIGN_OR_RETURN(const StepOutputs results, step.Run(feeds));
  double squares = 0;
  for (const Tensor& result : results) {
    for (const float x : result.flat<float>()) squares += static_cast<double>(x) * x;
  }
  std::vector<Side> sides = {
      [work = MakeSide([&] { return step.Run(feeds).status(); })](double ms) {
        const PinnedTo core(0);
        return work(ms);
      }};
  Goal goal = {.gate = ours.gate, .what = ours.what};
  std::vector<const Rival*> measured;
  for (const Rival& rival : rivals) {
    goal.peer = rival.name;
    goal.bound = rival.bound;
    auto peer = StartPeer("kernels", rival.args);
    if (!peer.ok()) {
      report->AddUnmeasured(goal, peer.status().message());
      continue;
    }
    const std::vector<double>& theirs = (*peer)->start().losses;
    if (rival.same_result &&
        (theirs.empty() || !(std::abs(theirs[0] - squares) <= kSameResult * squares))) {
      report->AddUnmeasured(goal, absl::StrCat("wrong sum of squares of its results; expected ",
                                               squares, ", got ", absl::StrJoin(theirs, ", ")));
      continue;
    }
    sides.push_back(MakeSide(*std::move(peer)));
    measured.push_back(&rival);
  }
  if (measured.empty()) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(const Rounds rounds,
                      MeasureInTurns(sides, {.rounds = absl::GetFlag(FLAGS_rounds)}));
  goal.ours = FormatMedian(rounds, 0);
  for (size_t k = 0; k < measured.size(); ++k) {
    goal.peer = absl::StrCat(measured[k]->name, " ", FormatMedian(rounds, k + 1));
    goal.bound = measured[k]->bound;
    goal.figure = RatioOf(rounds.ms[k + 1], rounds.ms[0]);
    report->Add(goal);
  }
  return absl::OkStatus();
}

std::vector<std::string> Words(absl::string_view kind, const std::vector<int64_t>& dims) {
  std::vector<std::string> words = {std::string(kind)};
  for (int64_t dim : dims) words.push_back(absl::StrCat(dim));
  return words;
}

}  // namespace

absl::Status BenchProducts(Report* report) {
  const std::vector<std::vector<int64_t>> products = {
      {64, 512, 784}, {256, 512, 784}, {1024, 1024, 1024}};
  for (const std::vector<int64_t>& d : products) {
    const int64_t m = d[0], n = d[1], k = d[2];
    Graph graph;
    const Scope root(&graph);
    const Output a = ops::Placeholder(root.WithName("a"), DT_FLOAT, {m, k});
    const Output b = ops::Placeholder(root.WithName("b"), DT_FLOAT, {k, n});
    const Output product = ops::MatMul(root, a, b);
    MF_RETURN_IF_ERROR(graph.status());
    MF_RETURN_IF_ERROR(MeasureAgainst(
        {"C3", absl::StrCat("product ", absl::StrJoin(d, "x")), &graph, {a, b}, {product}},
        {{Words("onednn_matmul", d), "bare oneDNN", 0.95},
         {Words("peak", {2 * m * n * k}), "peak of the core", 0.8, /*same_result=*/false}},
        report));
  }
  return absl::OkStatus();
}

absl::Status BenchConvolutions(Report* report) {
  const std::vector<std::vector<int64_t>> convolutions = {
      {32, 28, 32, 64}, {64, 14, 32, 64}, {32, 14, 256, 256}};
  constexpr int64_t kStrides[] = {1, 1, 1, 1};
  for (const std::vector<int64_t>& d : convolutions) {
    const int64_t n = d[0], hw = d[1], in = d[2], out = d[3];
    Graph graph;
    const Scope root(&graph);
    const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {n, hw, hw, in});
    const Output w = ops::Placeholder(root.WithName("w"), DT_FLOAT, {3, 3, in, out});
    const Output dy = ops::Placeholder(root.WithName("dy"), DT_FLOAT, {n, hw, hw, out});
    const Output y = ops::Conv2D(root, x, w, kStrides, "SAME");
    const Output dx = ops::Conv2DBackpropInput(root, ops::VectorConst(root, {n, hw, hw, in}), w, dy,
                                               kStrides, "SAME");
    const Output dw = ops::Conv2DBackpropFilter(root, x, ops::VectorConst(root, {3, 3, in, out}),
                                                dy, kStrides, "SAME");
    MF_RETURN_IF_ERROR(graph.status());
    MF_RETURN_IF_ERROR(
        MeasureAgainst({"C4",
                        absl::StrCat("3x3 convolution ", n, "x", hw, "x", hw, "x", in, " to ", out),
                        &graph,
                        {x, w, dy},
                        {y, dx, dw}},
                       {{Words("eigen_conv", d), "patches, Eigen", 1.9},
                        {Words("onednn_conv", d), "bare oneDNN", 0.95}},
                       report));
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
