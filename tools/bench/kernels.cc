// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "mirrorflow_debug.h"
#include "nlohmann/json.hpp"
#include "tools/bench/benchmarks.h"
#include "tools/bench/machine.h"
#include "tools/bench/start_peers.h"
#include "tools/bench/statistics.h"

namespace mirrorflow {
namespace {

constexpr double kSameResult = 1e-3;
constexpr char kPeak[] = "peak";

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
  double bound = 0;
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

// A graph's step in its own session, with feeds. Its outputs are targets rather than fetches,
// because fetching copies them, and the peers do not copy their results.
struct FedStep {
  std::unique_ptr<Session> session;
  Step step;
  std::vector<Tensor> feeds;
  double squares = 0;  // the sum of the squares of the results

  static absl::StatusOr<FedStep> Make(const Ours& ours) {
    FedStep fed;
    MF_ASSIGN_OR_RETURN(const auto strategy, OneDeviceStrategy::Create());
    MF_ASSIGN_OR_RETURN(fed.session, strategy->NewSession(*ours.graph));
    std::vector<Operation> targets;
    for (const Output& output : ours.outputs) targets.push_back({output.node});
    MF_ASSIGN_OR_RETURN(fed.step, fed.session->Prepare(ours.inputs, {}, targets));
    for (const Output& input : ours.inputs) {
      const Shape shape = ours.graph->values().shape(input);
      MF_ASSIGN_OR_RETURN(Tensor feed, Numbers(shape, static_cast<int64_t>(fed.feeds.size()) + 1));
      fed.feeds.push_back(std::move(feed));
    }
    MF_ASSIGN_OR_RETURN(Step fetching, fed.session->Prepare(ours.inputs, ours.outputs));
    MF_ASSIGN_OR_RETURN(const StepOutputs results, fetching.Run(fed.feeds));
    for (const Tensor& result : results) {
      for (const float x : result.flat<float>()) fed.squares += static_cast<double>(x) * x;
    }
    return fed;
  }
  // Returns a side of the benchmark that runs the step on core 0. It refers to this object.
  Side OnOneCore() {
    return [work = MakeSide([this] { return step.Run(feeds).status(); })](double ms) {
      const PinnedTo core(0);
      return work(ms);
    };
  }
};

// Starts the peer, and compares its results with ours.
absl::StatusOr<Side> SideOf(const Rival& rival, double squares) {
  MF_ASSIGN_OR_RETURN(auto peer, StartPeer("kernels", rival.args));
  const std::vector<double>& theirs = peer->start().losses;
  if (rival.same_result &&
      (theirs.empty() || !(std::abs(theirs[0] - squares) <= kSameResult * squares))) {
    return absl::FailedPreconditionError(
        absl::StrCat("wrong sum of squares of its results; expected ", squares, ", got ",
                     absl::StrJoin(theirs, ", ")));
  }
  return MakeSide(std::move(peer));
}

absl::Status MeasureAgainst(const Ours& ours, const std::vector<Rival>& rivals, Report* report) {
  MF_ASSIGN_OR_RETURN(FedStep fed, FedStep::Make(ours));
  std::vector<Side> sides = {fed.OnOneCore()};
  Goal goal = {.gate = ours.gate, .what = ours.what};
  std::vector<const Rival*> measured;
  for (const Rival& rival : rivals) {
    goal.peer = rival.name;
    goal.bound = rival.bound;
    absl::StatusOr<Side> side = SideOf(rival, fed.squares);
    if (!side.ok()) {
      report->AddUnmeasured(goal, side.status().message());
      continue;
    }
    sides.push_back(*std::move(side));
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

// An inference kernel: its input is fed, and its weights are constant.
struct InferenceKernel {
  std::string what;
  Output input;
  Output output;
  std::vector<std::string> peer;  // the arguments of kernels_peer
  int64_t flops = 0;
};

// Compares the kernel with oneDNN's, and with the core's peak: the time to run as many operations
// on registers.
absl::Status MeasureInferenceKernel(const Graph& graph, const InferenceKernel& kernel,
                                    Report* report) {
  MF_RETURN_IF_ERROR(graph.status());
  const Ours ours = {
      .what = kernel.what, .graph = &graph, .inputs = {kernel.input}, .outputs = {kernel.output}};
  MF_ASSIGN_OR_RETURN(FedStep fed, FedStep::Make(ours));
  std::vector<Side> sides = {fed.OnOneCore()};
  for (const Rival& rival : {Rival{.args = Words(kPeak, {kernel.flops}), .same_result = false},
                             Rival{.args = kernel.peer}}) {
    MF_ASSIGN_OR_RETURN(Side side, Annotate(SideOf(rival, fed.squares), kernel.what));
    sides.push_back(std::move(side));
  }
  MF_ASSIGN_OR_RETURN(const Rounds rounds,
                      MeasureInTurns(sides, {.rounds = absl::GetFlag(FLAGS_rounds)}));
  const Estimate of_peak = RatioOf(rounds.ms[1], rounds.ms[0]);
  const Estimate onednn_of_peak = RatioOf(rounds.ms[1], rounds.ms[2]);
  const Estimate ratio = RatioOf(rounds.ms[2], rounds.ms[0]);
  report->AddLine(
      absl::StrCat(kernel.what, ": ", FormatMedian(rounds, 0), ", ", FormatNumber(of_peak.median),
                   " of the peak; oneDNN ", FormatNumber(onednn_of_peak.median),
                   " of the peak; oneDNN / ours ", FormatNumber(ratio.median), " (",
                   FormatNumber(ratio.low), " to ", FormatNumber(ratio.high), ")"),
      {{"case", kernel.what},
       {"median_ms", TimingOf(rounds, 0).median_ms},
       {"of_peak", of_peak.median},
       {"onednn_of_peak", onednn_of_peak.median},
       {"onednn_to_ours", ratio.median},
       {"onednn_to_ours_90", {ratio.low, ratio.high}}});
  return absl::OkStatus();
}

absl::Status MeasureInferenceProduct(int64_t rows, int64_t columns, int64_t depth, Report* report) {
  Graph graph;
  const Scope root(&graph);
  const Output a = ops::Placeholder(root.WithName("a"), DT_FLOAT, {rows, depth});
  MF_ASSIGN_OR_RETURN(Tensor weights, Numbers({depth, columns}, 2));
  const Output product = ops::MatMul(root, a, ops::Const(root, std::move(weights)));
  return MeasureInferenceKernel(graph,
                                {.what = absl::StrCat("product ", rows, "x", columns, "x", depth),
                                 .input = a,
                                 .output = product,
                                 .peer = Words("onednn_packed_matmul", {rows, columns, depth}),
                                 .flops = 2 * rows * columns * depth},
                                report);
}

// The sizes of a convolution with square images and windows, and padding SAME.
struct ConvolutionSizes {
  int64_t batch, pixels, in, out, window, stride;
};

absl::Status MeasureInferenceConvolution(const ConvolutionSizes& c, Report* report) {
  const bool depthwise = c.out == 0;
  Graph graph;
  const Scope root(&graph);
  const int64_t strides[] = {1, c.stride, c.stride, 1};
  const Output x =
      ops::Placeholder(root.WithName("x"), DT_FLOAT, {c.batch, c.pixels, c.pixels, c.in});
  MF_ASSIGN_OR_RETURN(Tensor weights,
                      Numbers({c.window, c.window, c.in, depthwise ? 1 : c.out}, 2));
  const Output filter = ops::Const(root, std::move(weights));
  const Output y = depthwise ? ops::DepthwiseConv2dNative(root, x, filter, strides, "SAME")
                             : ops::Conv2D(root, x, filter, strides, "SAME");
  const std::string window = absl::StrCat(c.window, "x", c.window);
  const std::string images = absl::StrCat(c.batch, "x", c.pixels, "x", c.pixels, "x", c.in);
  const int64_t outputs = graph.values().shape(y).num_elements();
  const std::vector<int64_t> dims = {c.batch, c.pixels, c.in, c.out, c.window, c.stride};
  return MeasureInferenceKernel(
      graph,
      {.what = absl::StrCat(window, depthwise ? " depthwise convolution " : " convolution ", images,
                            depthwise ? "" : absl::StrCat(" to ", c.out), ", stride ", c.stride),
       .input = x,
       .output = y,
       .peer = Words("onednn_inference_conv", dims),
       .flops = 2 * c.window * c.window * outputs * (depthwise ? 1 : c.in)},
      report);
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
         {Words(kPeak, {2 * m * n * k}), "peak of the core", 0.8, /*same_result=*/false}},
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

// The sizes occur in the models that tests/benchmark/peers/export_models.py writes.
absl::Status BenchInferenceKernels(Report* report) {
  constexpr int64_t kProducts[][3] = {
      {1, 1024, 1024},  {4, 1024, 1024}, {32, 1024, 1024}, {128, 256, 256},
      {128, 1024, 256}, {512, 256, 256}, {512, 1024, 256}, {512, 256, 1024},
  };
  // `out` is 0 for a depthwise convolution.
  constexpr ConvolutionSizes kConvolutions[] = {
      {1, 112, 16, 96, 1, 1},  {1, 56, 144, 24, 1, 1},  {1, 28, 32, 192, 1, 1},
      {1, 14, 576, 96, 1, 1},  {1, 7, 960, 320, 1, 1},  {32, 14, 384, 64, 1, 1},
      {32, 7, 960, 320, 1, 1}, {1, 56, 256, 64, 1, 1},  {1, 14, 1024, 256, 1, 1},
      {1, 56, 64, 64, 3, 1},   {1, 28, 128, 128, 3, 1}, {1, 14, 256, 256, 3, 1},
      {1, 7, 512, 512, 3, 1},  {32, 8, 256, 256, 3, 1}, {1, 56, 128, 128, 3, 2},
      {1, 224, 3, 32, 3, 2},   {1, 112, 96, 0, 3, 2},   {1, 56, 144, 0, 3, 1},
      {1, 14, 576, 0, 3, 1},   {1, 7, 960, 0, 3, 1},
  };
  for (const auto& [rows, columns, depth] : kProducts) {
    MF_RETURN_IF_ERROR(MeasureInferenceProduct(rows, columns, depth, report));
  }
  for (const ConvolutionSizes& sizes : kConvolutions) {
    MF_RETURN_IF_ERROR(MeasureInferenceConvolution(sizes, report));
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
