// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu_check/figures.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "distribute/strategy/strategy.h"
#include "framework/core/json.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/session/step_plans.h"
#include "ops/all/ops.h"
#include "tools/bench/statistics.h"
#include "train/layers/layers.h"
#include "train/losses/losses.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

constexpr int kProducts = 8;
constexpr int kUpdatedVariables = 64;
// How many numbers Adam reads and writes per element: the gradient once, and the weight and two
// moments twice each.
constexpr int kNumbersAnUpdate = 7;
constexpr int64_t kLayerWidth = 512, kLayerRows = 64;
constexpr int kLayers = 2;
constexpr size_t kCapturedKernels = 1000;
constexpr int kCaptures = 5;

// A step on GPU 0 without feeds.
struct UnfedStep {
  std::unique_ptr<Strategy> strategy;
  Graph graph;
  std::vector<Output> fetches;
  std::vector<Operation> targets;
  std::unique_ptr<Session> session;
  Step step;
};

// `build` adds nodes to the graph and sets the fetches and targets of the step.
template <typename Build>
absl::StatusOr<std::unique_ptr<UnfedStep>> Prepare(const Build& build,
                                                   const CompileOptions& compile = {}) {
  auto s = std::make_unique<UnfedStep>();
  MF_ASSIGN_OR_RETURN(s->strategy,
                      OneDeviceStrategy::Create({.device = "GPU:0", .compile = compile}));
  build(Scope(&s->graph), s.get());
  MF_RETURN_IF_ERROR(s->graph.status());
  MF_ASSIGN_OR_RETURN(s->session, s->strategy->NewSession(s->graph));
  MF_ASSIGN_OR_RETURN(s->step, s->session->Prepare({}, s->fetches, s->targets));
  return s;
}

// Measures a rate in units per second, once per round. Each step processes `amount` units.
class Rate {
 public:
  Rate(std::string name, UnfedStep* s, double amount)
      : figure_{std::move(name)},
        amount_(amount),
        side_(MakeSide([s] { return s->step.Run({}).status(); })) {}

  absl::Status TakeTurn(double round_ms) {
    MF_ASSIGN_OR_RETURN(const double ms, side_(round_ms));
    figure_.values.push_back(amount_ / (ms * 1e-3));
    return absl::OkStatus();
  }
  const Figure& figure() const { return figure_; }

 private:
  Figure figure_;
  const double amount_;
  Side side_;
};

// Multiplies several matrices in a row, so the rest of the step is negligible. The values
// keep their magnitude, because a GPU multiplies zeros faster.
absl::StatusOr<Figure> MeasureProduct(const FigureOptions& options) {
  const int64_t n = options.product_size;
  MF_ASSIGN_OR_RETURN(const auto products, Prepare([n](const Scope& root, UnfedStep* s) {
                        const auto matrix = [&](const char* name, double deviation) {
                          return CreateVariable(root, name, {n, n},
                                                initializers::RandomNormal(deviation), DT_BFLOAT16)
                              .value;
                        };
                        const Output factor =
                            matrix("factor", 1 / std::sqrt(static_cast<double>(n)));
                        Output x = matrix("x", 1);
                        for (int i = 0; i < kProducts; ++i) x = ops::MatMul(root, x, factor);
                        const Output begin = ops::Const(root, Tensor::Vector<int32_t>({0, 0}));
                        const Output size = ops::Const(root, Tensor::Vector<int32_t>({1, 1}));
                        s->fetches = {ops::Slice(root, x, begin, size)};
                      }));
  MF_ASSIGN_OR_RETURN(const StepPlans plans, CompileStep(products->step, {}));
  Rate rate("product", products.get(), static_cast<double>(plans.plans[0]->flops));
  for (int i = 0; i < options.rounds; ++i) MF_RETURN_IF_ERROR(rate.TakeTurn(options.round_ms));
  return rate.figure();
}

Shape Floats(int64_t bytes) { return Shape({bytes / static_cast<int64_t>(sizeof(float))}); }

// Gradients are also variables, so no kernel needs to compute them.
absl::StatusOr<std::vector<Figure>> MeasureUpdateAndCopy(const FigureOptions& options) {
  MF_ASSIGN_OR_RETURN(
      const auto update, Prepare([&](const Scope& root, UnfedStep* s) {
        const Shape shape = Floats(options.updated_bytes / kUpdatedVariables);
        std::vector<GradientAndVariable> all;
        for (int i = 0; i < kUpdatedVariables; ++i) {
          all.push_back(
              {CreateVariable(root, absl::StrCat("gradient_", i), shape,
                              initializers::Constant(0.01), DT_FLOAT, {.trainable = false})
                   .value,
               CreateVariable(root, absl::StrCat("weight_", i), shape, initializers::Zeros())
                   .handle});
        }
        s->targets = {Adam({.learning_rate = 1e-4}).ApplyGradients(root, all)};
      }));
  MF_ASSIGN_OR_RETURN(
      const auto copy, Prepare([&](const Scope& root, UnfedStep* s) {
        const Shape shape = Floats(options.copied_bytes);
        const Variable from = CreateVariable(root, "from", shape, initializers::Ones());
        const Variable to = CreateVariable(root, "to", shape, initializers::Zeros());
        s->targets = {ops::AssignVariableOp(root, to.handle, from.value)};
      }));
  Rate updates("update", update.get(), 1.0 * kNumbersAnUpdate * options.updated_bytes);
  Rate copies("copy", copy.get(), 2.0 * options.copied_bytes);
  for (int i = 0; i < options.rounds; ++i) {
    MF_RETURN_IF_ERROR(updates.TakeTurn(options.round_ms));
    MF_RETURN_IF_ERROR(copies.TakeTurn(options.round_ms));
  }
  return std::vector<Figure>{updates.figure(), copies.figure()};
}

// Returns the number of kernels in a training step of a model with `layers` hidden layers.
absl::StatusOr<size_t> CountKernels(int layers) {
  MF_ASSIGN_OR_RETURN(const auto strategy, OneDeviceStrategy::Create({.device = "GPU:0"}));
  Graph graph;
  const Scope root(&graph);
  const Output inputs = ops::Placeholder(root, DT_FLOAT, {-1, kLayerWidth});
  const Output labels = ops::Placeholder(root, DT_INT32, {-1});
  Output x = inputs;
  for (int i = 0; i < layers; ++i) x = layers::Dense(root, x, kLayerWidth, ops::Relu);
  const Output loss = losses::SparseSoftmaxCrossEntropy(root, layers::Dense(root, x, 10), labels);
  const Operation train = Adam({}).Minimize(root, loss);
  MF_ASSIGN_OR_RETURN(const auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({inputs, labels}, {loss}, {train}));
  MF_ASSIGN_OR_RETURN(const StepPlans plans,
                      CompileStep(step, {Shape({kLayerRows, kLayerWidth}), Shape({kLayerRows})}));
  return plans.plans[0]->kernels.size();
}

absl::StatusOr<Figure> CountKernelsOfALayer() {
  MF_ASSIGN_OR_RETURN(const size_t less, CountKernels(kLayers));
  MF_ASSIGN_OR_RETURN(const size_t more, CountKernels(kLayers + 1));
  return Figure{"layer", {static_cast<double>(more) - static_cast<double>(less)}};
}

// The first step compiles, the second captures, and the third launches the captured graph.
absl::StatusOr<double> MeasureCapture() {
  CompileOptions compile;
  compile.disabled_passes = {"fuse_elementwise"};  // it would fuse the chain into one kernel
  MF_ASSIGN_OR_RETURN(const auto chain,
                      Prepare(
                          [](const Scope& root, UnfedStep* s) {
                            Output x = CreateVariable(root, "x", {}, initializers::Ones()).value;
                            for (size_t i = 0; i < kCapturedKernels; ++i) x = ops::Sin(root, x);
                            s->fetches = {x};
                          },
                          compile));
  MF_ASSIGN_OR_RETURN(const StepPlans plans, CompileStep(chain->step, {}));
  if (const size_t kernels = plans.plans[0]->kernels.size(); kernels < kCapturedKernels) {
    return absl::InternalError(
        absl::StrCat("expected ", kCapturedKernels, " kernels to capture, got ", kernels));
  }
  double ms[3];
  for (double& one : ms) {
    const MonotonicTime start = MonotonicTime::Now();
    MF_RETURN_IF_ERROR(chain->step.Run({}).status());
    one = absl::ToDoubleMilliseconds(MonotonicTime::Now() - start);
  }
  return ms[1] - ms[2];
}

absl::StatusOr<Figure> MeasureCaptures() {
  Figure figure{"capture"};
  for (int i = 0; i < kCaptures; ++i) {
    MF_ASSIGN_OR_RETURN(const double ms, MeasureCapture());
    figure.values.push_back(ms);
  }
  return figure;
}

}  // namespace

absl::StatusOr<std::vector<Figure>> MeasureFigures(const FigureOptions& options) {
  MF_ASSIGN_OR_RETURN(std::vector<Figure> figures, MeasureUpdateAndCopy(options));
  for (absl::StatusOr<Figure> figure :
       {MeasureProduct(options), CountKernelsOfALayer(), MeasureCaptures()}) {
    MF_RETURN_IF_ERROR(figure.status());
    figures.push_back(*std::move(figure));
  }
  return figures;
}

absl::Status PrintFigures() {
  MF_ASSIGN_OR_RETURN(const std::vector<Figure> figures, MeasureFigures());
  for (const Figure& figure : figures) {
    absl::PrintF("{\"figure\":%s,\"values\":[%s]}\n", JsonQuote(figure.name),
                 absl::StrJoin(figure.values, ","));
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
