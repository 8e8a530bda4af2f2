// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/calibrate.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/thread.h"
#include "framework/runtime/trace.h"
#include "framework/session/step_tracer.h"
#include "kernels/cpu/float_vectors.h"
#include "kernels/cpu/vectorize.h"
#include "mirrorflow_debug.h"
#include "tools/bench/training_case.h"

namespace mirrorflow {
namespace {

// ---- the arithmetic limit -----------------------------------------------------------------------

constexpr int kFmaIterations = 20000;
constexpr int kBursts = 20;
// The number of independent dependency chains: enough to hide the latency of a multiply-add (4
// cycles) at two issues per cycle, but few enough to fit in registers.
constexpr int kChains = 12;

double NowNs() { return absl::ToDoubleNanoseconds(MonotonicTime::Now() - MonotonicTime()); }

// Runs multiply-adds. Returns a value that depends on all of them, so the compiler cannot optimise
// any of them away.
template <int kFloats>
MF_INLINE inline float Burst() {
  using Vector = typename VectorOf<kFloats>::type;
  Vector sums[kChains];
  for (int k = 0; k < kChains; ++k) sums[k] = Vector{} + static_cast<float>(1 + k);
  for (int i = 0; i < kFmaIterations; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) sums[k] = sums[k] * 0.999f + 0.001f;
  }
  for (int k = 1; k < kChains; ++k) sums[0] += sums[k];
  return sums[0][0];
}

MF_AVX512 float Burst512() { return Burst<16>(); }
float Burst256() { return Burst<8>(); }

// Measures a core's arithmetic limit in float operations per nanosecond; a multiply-add is
// two operations. Runs independent multiply-adds in registers, with the processor's widest vectors,
// and returns the best of several bursts of about 0.1 ms.
double FmaFlopsPerNs() {
  const bool wide = HasAvx512();
  const double flops = 2.0 * kFmaIterations * kChains * (wide ? 16 : 8);
  double best = 0;
  for (int burst = 0; burst < kBursts; ++burst) {
    const double begin = NowNs();
    volatile float sink = wide ? Burst512() : Burst256();
    (void)sink;
    const double rate = flops / (NowNs() - begin);
    best = std::max(best, rate);
  }
  return best;
}

// ---- the prices of instructions -----------------------------------------------------------------

// The same network in several sizes: with weights that exceed every cache; with weights that fit in
// the last-level cache; with a lot of arithmetic on few bytes, so that the fit can separate the
// prices of arithmetic and memory; and with a working set that fits in the first-level cache. The
// networks for inference only have few rows: one has weights that exceed every cache, and the
// others are small, so that the fit captures the fixed cost of a call.
struct Net {
  int64_t rows;     // per replica
  int64_t width;    // multiplies the widths of dense layers
  int64_t filters;  // multiplies the filter counts of convolutions
  int64_t side;     // side length of the images
  bool trains = true;
};
constexpr Net kNets[] = {{48, 8, 8, 40},
                         {96, 4, 1, 10},
                         {320, 2, 8, 10},
                         {6, 1, 1, 5},
                         {.rows = 1, .width = 16, .filters = 96, .side = 24, .trains = false},
                         {.rows = 2, .width = 1, .filters = 8, .side = 48, .trains = false},
                         {.rows = 3, .width = 2, .filters = 16, .side = 28, .trains = false},
                         {.rows = 1, .width = 1, .filters = 24, .side = 10, .trains = false},
                         {.rows = 1, .width = 4, .filters = 12, .side = 16, .trains = false}};
constexpr int kWarmUpSteps = 2;
constexpr int kMinTracedSteps = 4;
constexpr int kMaxTracedSteps = 100;
constexpr absl::Duration kBudget = absl::Milliseconds(75);  // per step

// The fraction of a core's multiply-add rate that matrix products are assumed to reach.
constexpr double kShareOfFma = 0.8;

struct Sample {
  Amounts demands;
  double ns;
};
using Samples = std::map<std::string, std::vector<Sample>>;  // by PricedAs()

// Refits prices by ridge regression of the samples' relative errors, with coordinate descent from
// `prices`; no price falls below `least`. Samples that are slower than `prices` predict have less
// weight, because noise can only make a measurement slower.
Amounts Refit(const std::vector<Sample>& samples, const Amounts& prices, const Amounts& guess,
              const Amounts& least) {
  constexpr double kTrustInGuess = 0.01;
  constexpr double kUncertainNs = 200;  // added to each sample's time
  constexpr int kSweeps = 500;
  Amounts factors;  // prices as multiples of the guess
  for (int j = 0; j < kNumResources; ++j) factors[j] = prices[j] / guess[j];
  std::vector<Amounts> rows;
  std::vector<double> errors;
  for (const Sample& sample : samples) {
    const double expected = CostOf(sample.demands, prices);
    const double scale = std::min(1.0, (expected + kUncertainNs) / (sample.ns + kUncertainNs)) /
                         (sample.ns + kUncertainNs);
    Amounts& row = rows.emplace_back();
    for (int j = 0; j < kNumResources; ++j) row[j] = sample.demands[j] * guess[j] * scale;
    errors.push_back((sample.ns - expected) * scale);
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (int j = 0; j < kNumResources; ++j) {
      double slope = kTrustInGuess * (1 - factors[j]), curvature = kTrustInGuess;
      for (size_t i = 0; i < rows.size(); ++i) {
        slope += rows[i][j] * errors[i];
        curvature += rows[i][j] * rows[i][j];
      }
      const double change = std::max(slope / curvature, least[j] / guess[j] - factors[j]);
      factors[j] += change;
      for (size_t i = 0; i < rows.size(); ++i) errors[i] -= rows[i][j] * change;
    }
  }
  Amounts refitted;
  for (int j = 0; j < kNumResources; ++j) refitted[j] = factors[j] * guess[j];
  return refitted;
}

// Fits prices to the samples. Prices that the samples barely determine stay near `guess`, which
// must be above 0.
Amounts FitPrices(const std::vector<Sample>& samples, const Amounts& guess, const Amounts& least) {
  constexpr int kRounds = 8;
  Amounts prices = guess;
  for (int round = 0; round < kRounds; ++round) prices = Refit(samples, prices, guess, least);
  return prices;
}

// Returns the size in bytes of the first core's cache at this level, or `otherwise` if Linux does
// not report it. Linux reports sizes in a form such as `32768K`.
int64_t CacheBytes(int level, int64_t otherwise) {
  for (int index = 0; index < 8; ++index) {
    const std::string path = absl::StrCat("/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    int64_t its_level = 0, kib = 0;
    if (std::ifstream(path + "level") >> its_level && its_level == level &&
        std::ifstream(path + "size") >> kib) {
      return kib << 10;
    }
  }
  return otherwise;
}

struct CalibrationStep {
  Output rows, images, labels;
  Output logits;
  Output loss;
  Operation train;
};

// Adds convolutions, depthwise convolutions, squeeze-and-excitation and sums, with the activations
// that kernels apply in inference.
Output AddResidualBlocks(const Scope& root, Output x) {
  const auto swish = [](const Scope& s, Output y) { return ops::Mul(s, y, ops::Sigmoid(s, y)); };
  const int64_t channels = root.shape(x).dim(3);
  for (const layers::Activation& activation :
       {layers::Activation(ops::Relu), layers::Activation(ops::Relu6),
        layers::Activation(ops::Sigmoid), layers::Activation(swish), layers::Activation()}) {
    Output y = layers::Conv2D(root, x, 3 * channels, 1, activation);
    for (const int64_t size : {3, 5}) {
      y = layers::DepthwiseConv2D(root, y, size, activation, {.padding = "SAME"});
    }
    Output gate = ops::Mean(root, y, {1, 2}, {.keep_dims = true});
    gate = layers::Conv2D(root, gate, channels / 4, 1, activation);
    y = ops::Mul(root, y, layers::Conv2D(root, gate, 3 * channels, 1, ops::Sigmoid));
    x = activation(root, ops::AddV2(root, x, layers::Conv2D(root, y, channels, 1)));
  }
  return x;
}

// Builds a training step with many kinds of layers, in sizes that do not occur in known models.
CalibrationStep BuildStep(const Scope& root, const Net& net) {
  CalibrationStep t;
  t.rows = ops::Placeholder(root.WithName("rows"), DT_FLOAT, {-1, 40 * net.width});
  t.images = ops::Placeholder(root.WithName("images"), DT_FLOAT, {-1, net.side, net.side, 1});
  t.labels = ops::Placeholder(root.WithName("labels"), DT_INT32, {-1});
  Output x = layers::Dense(root, t.rows, 96 * net.width, ops::Relu);
  x = layers::Dense(root, x, 80 * net.width, ops::Tanh);
  x = layers::Dense(root, x, 160 * net.width, nullptr, {.use_bias = false});
  x = layers::Dense(root, x, 144 * net.width);
  x = layers::Dense(root, x, 112 * net.width, ops::Gelu);
  x = layers::Dense(root, x, 192 * net.width, ops::Sigmoid);
  x = layers::Dense(root, x, 288 * net.width, ops::Relu);
  x = layers::Dense(root, x, 12 * net.width, ops::Relu);
  const layers::Conv2DOptions same = {.padding = "SAME"};
  Output y = layers::Conv2D(root, t.images, 3 * net.filters, 3, ops::Relu, same);
  y = layers::Conv2D(root, layers::MaxPooling2D(root, y), 5 * net.filters, 3, nullptr, same);
  y = layers::MaxPooling2D(root, layers::BatchNorm(root, y, ops::Relu));
  if (!net.trains) y = AddResidualBlocks(root, y);
  y = layers::Flatten(root, layers::Conv2D(root, y, 8 * net.filters, 3, ops::Relu, same));
  y = layers::Dense(root, y, 12 * net.width, ops::Relu);
  t.logits = layers::Dense(root, ops::AddV2(root, x, y), 12);
  t.loss = losses::SparseSoftmaxCrossEntropy(root, t.logits, t.labels);
  t.train = GradientDescent({.learning_rate = 1e-3}).Minimize(root, t.loss);
  return t;
}

// Runs a step with random feeds of `rows` rows, and adds a sample for each instruction.
absl::Status AddSamples(const Graph& graph, Session& session, const std::vector<Output>& inputs,
                        const Output& fetch, const std::vector<Operation>& targets, int64_t rows,
                        const CostTable& caches, Samples* samples) {
  std::vector<Tensor> feeds;
  std::vector<Shape> shapes;
  for (const Output& input : inputs) {
    Shape shape = graph.values().shape(input);
    shape.set_dim(0, rows);
    MF_ASSIGN_OR_RETURN(Tensor value, NoiseOf(input.dtype(), shape));
    feeds.push_back(std::move(value));
    shapes.push_back(shape);
  }
  MF_ASSIGN_OR_RETURN(Step step, session.Prepare(inputs, {fetch}, targets));
  MF_ASSIGN_OR_RETURN(const StepPlans plans, CompileStep(step, shapes));
  const Plan& plan = *plans.plans[0];
  for (int i = 0; i < kWarmUpSteps; ++i) MF_RETURN_IF_ERROR(step.Run(feeds).status());
  MF_ASSIGN_OR_RETURN(const std::vector<double> fastest,
                      FastestInstructions(session, step, feeds, plan, kBudget));
  const std::vector<Amounts> demands = DemandsOf(plan, caches);
  for (size_t i = 0; i < demands.size(); ++i) {
    if (fastest[i] == 0) continue;
    (*samples)[PricedAs(plan, i)].push_back({demands[i], fastest[i]});
  }
  return absl::OkStatus();
}

// Adds samples of the network's steps to those of training and of inference.
absl::Status AddSamples(const MirroredStrategy& strategy, const Net& net, const CostTable& caches,
                        Samples* training, Samples* inference) {
  Graph graph;
  CalibrationStep t;
  {
    auto mirrored = strategy.scope();
    t = BuildStep(Scope(&graph), net);
  }
  const int64_t rows = net.rows * strategy.num_replicas_in_sync();
  MF_ASSIGN_OR_RETURN(auto session, strategy.NewSession(graph));
  MF_RETURN_IF_ERROR(
      AddSamples(graph, *session, {t.rows, t.images}, t.logits, {}, rows, caches, inference));
  if (!net.trains) return absl::OkStatus();
  return AddSamples(graph, *session, {t.rows, t.images, t.labels}, t.loss, {t.train}, rows, caches,
                    training);
}

std::vector<Sample> AllOf(const Samples& samples, bool products) {
  std::vector<Sample> all;
  for (const auto& [op, of_op] : samples) {
    for (const Sample& sample : of_op) {
      if ((sample.demands[kFlops] > 0) == products) all.push_back(sample);
    }
  }
  return all;
}

}  // namespace

absl::StatusOr<std::vector<double>> FastestInstructions(Session& session, Step& step,
                                                        absl::Span<const Tensor> feeds,
                                                        const Plan& plan, absl::Duration budget) {
  TraceWriter trace;
  MF_RETURN_IF_ERROR(session.TraceTo(&trace));
  const MonotonicTime end = MonotonicTime::Now() + budget;
  for (int i = 0; i < kMinTracedSteps || (i < kMaxTracedSteps && MonotonicTime::Now() < end); ++i) {
    absl::Status status = step.Run(feeds).status();
    if (status.ok()) continue;
    status.Update(session.TraceTo(nullptr));
    return status;
  }
  MF_RETURN_IF_ERROR(session.TraceTo(nullptr));
  // The spans of each thread are in dispatch order; the span of the whole step is the last one.
  std::vector<std::vector<int>> dispatched(plan.num_threads);
  for (int t = 0; t < plan.num_threads; ++t) {
    const DispatchList& list = plan.dispatch_of(t);
    for (size_t k = 0; k < list.instructions.size(); ++k) {
      const InstructionKind kind = list.instructions[k].kind;
      const bool orders = kind == InstructionKind::kRecord || kind == InstructionKind::kAwait;
      if (!orders) dispatched[t].push_back(list.original[k]);
    }
  }
  std::vector<double> fastest(plan.instructions.size(), 0);
  std::vector<size_t> at(plan.num_threads, 0);
  int64_t update_ns = 0;  // update time of the collective whose span comes next
  for (const TraceEvent& event : trace.events()) {
    if (event.pid != 0 || event.kind != TraceEvent::kSpan) continue;
    if (absl::StartsWith(event.name, kThreadWait)) continue;
    if (event.category == "step") {
      for (int t = 0; t < plan.num_threads; ++t) MF_CHECK(at[t] == dispatched[t].size());
      absl::c_fill(at, 0);
      continue;
    }
    if (event.category == "update") {
      update_ns = event.duration_ns;
      continue;
    }
    const int thread = std::max(event.tid - kNumLanes + 1, 0);
    MF_CHECK(at[thread] < dispatched[thread].size());
    double& ns = fastest[dispatched[thread][at[thread]++]];
    const auto took = static_cast<double>(std::max<int64_t>(event.duration_ns + update_ns, 1));
    update_ns = 0;
    ns = ns == 0 ? took : std::min(ns, took);
  }
  return fastest;
}

absl::StatusOr<double> MemoryBytesPerNs(int threads) {
  constexpr size_t kWords = size_t{1} << 23;  // per thread; exceeds its share of any cache
  constexpr int kRounds = 4;
  const std::vector<int64_t> ones(kWords, 1);
  std::vector<std::vector<int64_t>> data(threads, ones);
  std::atomic<int64_t> sum = 0;
  std::vector<std::thread> readers;
  absl::Status started;
  const double begin = NowNs();
  for (const std::vector<int64_t>& words : data) {
    absl::StatusOr<std::thread> reader = StartThread("memory bandwidth", [&words, &sum] {
      for (int round = 0; round < kRounds; ++round) sum += absl::c_accumulate(words, int64_t{0});
    });
    started.Update(reader.status());
    if (reader.ok()) readers.push_back(*std::move(reader));
  }
  for (std::thread& reader : readers) reader.join();
  const double ns = NowNs() - begin;
  MF_RETURN_IF_ERROR(started);
  // Using the sum keeps the compiler from eliminating the loops.
  return static_cast<double>(sum) * sizeof(int64_t) / ns;
}

absl::StatusOr<Machine> Calibrate(int replicas) {
  Machine machine;
  machine.fma_flops_per_ns = FmaFlopsPerNs();
  CostTable& table = machine.table;
  table.near_bytes = CacheBytes(2, 1 << 20);
  machine.last_level_cache_bytes = CacheBytes(3, 32 << 20);
  table.shared_bytes = machine.last_level_cache_bytes / replicas;
  MF_ASSIGN_OR_RETURN(auto strategy, MirroredStrategy::Create({.num_cpu_replicas = replicas}));
  Samples samples, inference;
  MirroredStrategy::Options options = {.num_cpu_replicas = replicas};
  options.compile.disabled_passes = {"fuse_elementwise"};
  MF_ASSIGN_OR_RETURN(auto separate, MirroredStrategy::Create(options));
  for (const Net& net : kNets) {
    MF_RETURN_IF_ERROR(AddSamples(*strategy, net, table, &samples, &inference));
    // Element-wise ops, which fusion leaves alone in some steps only.
    if (net.trains) MF_RETURN_IF_ERROR(AddSamples(*separate, net, table, &samples, &inference));
  }
  const std::vector<Sample> products = AllOf(inference, /*products=*/true);
  samples.merge(inference);  // training's samples of an op are enough
  const double flop_ns = 1 / (kShareOfFma * machine.fma_flops_per_ns);
  // The fit starts from typical prices, which are not specific to any machine.
  const Amounts usual = {50, flop_ns, 0.01, 0.005, 0.02, 0.01, 0.005, 0.02};
  Amounts least = {};
  least[kFlops] = 1 / machine.fma_flops_per_ns;
  table.other = FitPrices(AllOf(samples, /*products=*/false), usual, least);
  Amounts guess = table.other;
  for (int j = 0; j < kNumResources; ++j) guess[j] = std::max(guess[j], 0.2 * usual[j]);
  table.products = FitPrices(products, guess, least);
  for (const auto& [op, of_op] : samples) table.prices[op] = FitPrices(of_op, guess, least);
  return machine;
}

}  // namespace mirrorflow
