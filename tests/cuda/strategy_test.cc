// SPDX-License-Identifier: Apache-2.0
//
// Tests MirroredStrategy with GPU kernels, on fakes of the GPU libraries. Models must train as on
// CPUs.
#include "distribute/strategy/strategy.h"

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/step_plans.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/nccl/fake_nccl.h"
#include "tests/support/classifier_training.h"
#include "tests/support/is_error.h"
#include "tools/models/transformer.h"
#include "train/optimizers/optimizers.h"

namespace mirrorflow {
namespace {

using Devices = std::vector<std::string>;

void Reset(FakeCudaOptions cuda = {}) {
  cuda.num_gpus = 2;
  ResetFakeCuda(cuda);
  ResetFakeNccl();
}

class GpuStrategyTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GpuStrategyTest, TrainingMatchesCpu) {
  const char* const model = GetParam();
  const std::vector<Tensor> batch = ClassifierBatch(model, 5);  // does not divide evenly
  Reset();
  const auto cpu = MakeClassifierTraining(model, {"CPU:0"});
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  std::vector<float> want;
  for (int i = 0; i < 3; ++i) {
    const auto loss = RunStep(**cpu, batch);
    ASSERT_TRUE(loss.ok()) << loss.status();
    want.push_back(*loss);
  }
  EXPECT_LT(want[2], want[0]);
  const std::vector<Devices> all = {{"GPU:0"}, {"GPU:0", "GPU:1"}, {"GPU:1", "GPU:1"}};
  for (const Devices& devices : all) {
    Reset();
    const auto gpus = MakeClassifierTraining(model, devices);
    ASSERT_TRUE(gpus.ok()) << gpus.status();
    for (int i = 0; i < 3; ++i) {
      const auto loss = RunStep(**gpus, batch);
      ASSERT_TRUE(loss.ok()) << loss.status();
      EXPECT_NEAR(*loss, want[i], 1e-4 * want[i]) << "step " << i << " on " << devices.back();
    }
    EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
    EXPECT_EQ(NcclMisuse(), absl::OkStatus());
    // The second step captures the work of the first, and the third replays it.
    const int launches = NumGraphLaunches();
    EXPECT_GT(launches, 0);
    EXPECT_EQ(launches % 2, 0) << launches;
    if (devices.size() == 1) {
      EXPECT_EQ(launches, 2);  // a step is one graph
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GpuStrategyTest, ::testing::Values("mlp", "cnn"),
                         [](const auto& info) { return info.param; });

// These options change how kernels compute, but not what they compute.
TEST(GpuStrategyOptionsTest, OptionsKeepLossesWithinTolerance) {
  for (const char* const model : {"mlp", "cnn"}) {
    const std::vector<Tensor> batch = ClassifierBatch(model, 4);
    const auto losses = [&](const CompileOptions& compile) {
      Reset();
      std::vector<float> all;
      const auto t = MakeClassifierTraining(model, {"GPU:0"}, compile);
      EXPECT_TRUE(t.ok()) << t.status();
      for (int i = 0; i < 3 && t.ok(); ++i) {
        const auto loss = RunStep(**t, batch);
        EXPECT_TRUE(loss.ok()) << loss.status();
        all.push_back(loss.value_or(0));
      }
      EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
      return all;
    };
    CompileOptions autotune, tf32, mixed;
    autotune.kernels.autotune = true;
    tf32.kernels.allow_tf32 = true;
    mixed.compute_dtype = DT_BFLOAT16;
    const std::vector<float> exact = losses({}), rounded = losses(tf32), low = losses(mixed);
    EXPECT_EQ(losses(autotune), exact) << model;
    EXPECT_NE(rounded, exact) << model;
    EXPECT_NE(low, exact) << model;
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(rounded[i], exact[i], 0.01 * exact[0]) << model;
      EXPECT_NEAR(low[i], exact[i], 0.03 * exact[0]) << model;
    }
  }
}

// A bucket's gradients are in memory registered with NCCL, and one kernel updates its variables.
TEST(GpuStrategyTest, BucketsAreRegisteredAndUpdatedByOneKernel) {
  Reset();
  const auto t = MakeClassifierTraining("mlp", {"GPU:0", "GPU:1"});
  ASSERT_TRUE(t.ok()) << t.status();
  const std::vector<Tensor> batch = ClassifierBatch("mlp", 4);
  const auto loss = RunStep(**t, batch);
  ASSERT_TRUE(loss.ok()) << loss.status();
  const size_t buckets = (*t)->session->layout().buckets().size();
  EXPECT_EQ(buckets, 1);
  EXPECT_EQ(NumNcclRegistrations(), 2 * buckets);
  std::vector<Shape> shapes;
  for (const Tensor& feed : batch) shapes.push_back(feed.shape());
  const auto plans = CompileStep((*t)->step, shapes);
  ASSERT_TRUE(plans.ok()) << plans.status();
  int updates = 0;
  for (const std::string& op : plans->plans[0]->node_ops) {
    updates += absl::StartsWith(op, "ResourceApply");
  }
  EXPECT_EQ(updates, 1);
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());
}

// A layer with Relu runs only three kernels in its forward and backward pass, all of them products.
TEST(GpuStrategyTest, LayerRunsAsThreeKernels) {
  const std::vector<Tensor> batch = ClassifierBatch("mlp", 4);
  using Options = FakeCudaOptions;
  // The masks that cuBLASLt supports in each round. In the last round, layers are not fused.
  // Products that write masks have no transposed operand; products that read masks have one.
  const Options::ReluMasks masks[] = {Options::kAll, Options::kNone, Options::kTransposed,
                                      Options::kPlain, Options::kAll};
  constexpr int kUnfused = 4;
  std::vector<float> losses[kUnfused + 1];
  int operations[kUnfused + 1] = {};
  for (int how = 0; how <= kUnfused; ++how) {
    Reset({.relu_masks = masks[how]});
    CompileOptions compile;
    if (how == kUnfused) compile.disabled_passes = {"fuse_epilogues"};
    const auto t = MakeClassifierTraining("mlp", {"GPU:0", "GPU:1"}, compile);
    ASSERT_TRUE(t.ok()) << t.status();
    for (int i = 0; i < 3; ++i) {
      const auto loss = RunStep(**t, batch);
      ASSERT_TRUE(loss.ok()) << loss.status();
      losses[how].push_back(*loss);
    }
    EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
    operations[how] = NumRecordedOperations();
    const auto plans = CompileStep((*t)->step, {batch[0].shape(), batch[1].shape()});
    ASSERT_TRUE(plans.ok()) << plans.status();
    int products = 0, others = 0;
    for (const std::string& op : plans->plans[0]->node_ops) {
      products += absl::StrContains(op, "MatMul");
      others += op == "Relu" || op == "ReluGrad" || op == "BiasAdd";
    }
    // The first layer does not compute the gradient of its input.
    EXPECT_EQ(products, 3 * 3 - 1);
    // Three bias additions, two Relus and their gradients.
    EXPECT_EQ(others, how == kUnfused ? 7 : 0);
  }
  // Without masks, separate kernels after the products compute the gradients of Relu.
  EXPECT_LT(operations[0], operations[1]);
  EXPECT_EQ(operations[1], operations[2]);
  EXPECT_EQ(operations[1], operations[3]);
  EXPECT_LT(operations[1], operations[kUnfused]);
  for (int how = 0; how < kUnfused; ++how) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(losses[how][i], losses[kUnfused][i], 1e-5 * losses[kUnfused][i]) << how;
    }
  }
}

// cuBLASLt rejects products of vectors with a bias. Here, each replica has one row.
TEST(GpuStrategyTest, ProductsOfOneRowMatchCpu) {
  const std::vector<Tensor> batch = ClassifierBatch("mlp", 2);
  std::vector<float> losses[2];
  for (const bool gpus : {false, true}) {
    Reset();
    const auto t =
        MakeClassifierTraining("mlp", gpus ? Devices{"GPU:0", "GPU:1"} : Devices{"CPU:0"});
    ASSERT_TRUE(t.ok()) << t.status();
    for (int i = 0; i < 3; ++i) {
      const auto loss = RunStep(**t, batch);
      ASSERT_TRUE(loss.ok()) << loss.status();
      losses[gpus].push_back(*loss);
    }
  }
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(losses[1][i], losses[0][i], 1e-4 * losses[0][i]);
}

// A rank's step is a single graph that includes its collectives, which use separate communicators.
TEST(GpuStrategyTest, CollectivesAreCapturedOnRequest) {
  std::vector<float> losses[2];
  for (const bool captured : {false, true}) {
    Reset();
    MirroredStrategy::Options options{.devices = {"GPU:0", "GPU:1"}, .seed = 5};
    options.capture_collectives = captured;
    const auto t = MakeClassifierTraining("mlp", options);
    ASSERT_TRUE(t.ok()) << t.status();
    for (int i = 0; i < 5; ++i) {
      const auto loss = RunStep(**t, ClassifierBatch("mlp", 4));
      ASSERT_TRUE(loss.ok()) << loss.status();
      losses[captured].push_back(*loss);
    }
    EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
    EXPECT_EQ(NcclMisuse(), absl::OkStatus());
    // One graph per rank in each step except the first.
    if (captured) {
      EXPECT_EQ(NumGraphLaunches(), 2 * 4);
    }
    EXPECT_GT((*t)->step.host_time(), absl::ZeroDuration());
  }
  EXPECT_EQ(losses[0], losses[1]);
}

// A failure ends the step immediately, although aborting a communicator waits for the graphs that
// contain its collectives: the graph of this step, and the graph of another step that is not
// running.
TEST(GpuStrategyTest, FailureOfCapturedCollectivesEndsStep) {
  Reset();
  ResetFakeNccl({.failing_rank = 1, .failing_collective = -1, .failing_replay = 2});
  MirroredStrategy::Options options{.devices = {"GPU:0", "GPU:1"}, .seed = 5};
  options.capture_collectives = true;
  auto t = MakeClassifierTraining("mlp", options);
  ASSERT_TRUE(t.ok()) << t.status();
  const std::vector<Tensor> batch = ClassifierBatch("mlp", 4), other = ClassifierBatch("mlp", 6);
  // The arena of `other` is larger, so the step of `batch` is captured anew, and its third replay
  // fails.
  for (const std::vector<Tensor>* each : {&batch, &other, &other, &batch, &batch, &batch}) {
    const auto loss = RunStep(**t, *each);
    ASSERT_TRUE(loss.ok()) << loss.status();
  }
  const MonotonicTime begin = MonotonicTime::Now();
  const auto loss = RunStep(**t, batch);
  EXPECT_THAT(loss.status(), IsError(absl::StatusCode::kUnavailable, "step 7", "NCCL"));
  EXPECT_LT(MonotonicTime::Now() - begin, absl::Seconds(4));
  *t = nullptr;
  EXPECT_LT(MonotonicTime::Now() - begin, absl::Seconds(4));
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());
}

// A replica that cannot capture its collectives must not run them while others replay theirs.
TEST(GpuStrategyTest, CollectivesThatCannotBeCapturedFailStep) {
  Reset();
  MirroredStrategy::Options options{.devices = {"GPU:0", "GPU:1"}, .seed = 5};
  options.capture_collectives = true;
  auto t = MakeClassifierTraining("mlp", options);
  ASSERT_TRUE(t.ok()) << t.status();
  const std::vector<Tensor> batch = ClassifierBatch("mlp", 4);
  ASSERT_EQ(RunStep(**t, batch).status(), absl::OkStatus());
  Reset({.failing_call = "cudaStreamBeginCapture"});
  const MonotonicTime begin = MonotonicTime::Now();
  const absl::Status failed = RunStep(**t, batch).status();
  EXPECT_THAT(failed, IsError(absl::StatusCode::kInternal, "capturing"));
  *t = nullptr;
  EXPECT_LT(MonotonicTime::Now() - begin, absl::Seconds(4));
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());
}

// Computes a convolution with bias and Relu with one cuDNN graph, with a cuDNN graph and our own
// bias kernel, and with only our own kernels, including when cuDNN fails. With stride 2, SAME pads
// more after the images than before them.
TEST(GpuStrategyTest, FusedConvolutionMatchesCpu) {
  std::vector<float> images(3 * 6 * 6 * 2), weights(3 * 3 * 2 * 4);
  for (size_t i = 0; i < images.size(); ++i) images[i] = std::sin(static_cast<float>(i));
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = std::cos(static_cast<float>(i));
  images[0] = std::nanf("");  // Relu propagates NaN
  for (const int64_t stride : {1, 2}) {
    const auto run = [&](const std::string& device) -> absl::StatusOr<Tensor> {
      MF_ASSIGN_OR_RETURN(const auto strategy, MirroredStrategy::Create({.devices = {device}}));
      Graph graph;
      const Scope root(&graph);
      const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 6, 6, 2});
      const Output filter = ops::Placeholder(root, DT_FLOAT, {3, 3, 2, 4});
      const Output bias = ops::Placeholder(root, DT_FLOAT, {4});
      const Output y = ops::Relu(
          root,
          ops::BiasAdd(root, ops::Conv2D(root, x, filter, {1, stride, stride, 1}, "SAME"), bias));
      MF_ASSIGN_OR_RETURN(const auto session, strategy->NewSession(graph));
      MF_ASSIGN_OR_RETURN(Step step, session->Prepare({x, filter, bias}, {y}, {}));
      MF_ASSIGN_OR_RETURN(const StepOutputs out,
                          step.Run({Tensor::Of<float>({3, 6, 6, 2}, images),
                                    Tensor::Of<float>({3, 3, 2, 4}, weights),
                                    Tensor::Vector<float>({0.1f, -0.2f, 0.3f, -0.4f})}));
      return out[0].Clone();
    };
    const auto want = run("CPU:0");
    ASSERT_TRUE(want.ok()) << want.status();
    EXPECT_TRUE(std::isnan(want->flat<float>()[0]));
    std::map<FakeCudaOptions::Convolutions, int> operations;
    for (const auto library : {FakeCudaOptions::kFused, FakeCudaOptions::kUnfused,
                               FakeCudaOptions::kNoConvolutions, FakeCudaOptions::kBroken}) {
      Reset({.convolutions = library});
      const auto got = run("GPU:0");
      ASSERT_TRUE(got.ok()) << got.status();
      for (int64_t i = 0; i < want->num_elements(); ++i) {
        const float x = got->flat<float>()[i], y = want->flat<float>()[i];
        if (std::isnan(y)) {
          EXPECT_TRUE(std::isnan(x)) << i;
        } else {
          EXPECT_NEAR(x, y, 1e-5) << i;
        }
      }
      EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
      operations[library] = NumRecordedOperations();
    }
    EXPECT_EQ(operations[FakeCudaOptions::kUnfused], operations[FakeCudaOptions::kFused] + 1);
    EXPECT_LT(operations[FakeCudaOptions::kNoConvolutions], operations[FakeCudaOptions::kFused]);
    EXPECT_EQ(operations[FakeCudaOptions::kBroken], operations[FakeCudaOptions::kNoConvolutions]);
    // Falling back to our own kernel does not hide a CUDA error.
    Reset({.failing_call = "cudaGetLastError", .convolutions = FakeCudaOptions::kBroken});
    EXPECT_THAT(run("GPU:0").status(), IsError(absl::StatusCode::kInternal, "cudaGetLastError"));
  }
}

// One message reduces all sums over the batch. The sums are the images of convolutions, which
// require aligned operands.
TEST(GpuStrategyTest, ResultsThatShareMessageAreAligned) {
  Reset();
  Graph graph;
  const Scope root(&graph);
  const auto strategy = MirroredStrategy::Create({.devices = {"GPU:0", "GPU:1"}});
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  const Output filter = ops::Reshape(root, ops::ScalarConst(root, DT_FLOAT, 2), {1, 1, 1, 1});
  std::vector<Output> feeds, convolved;
  std::vector<Tensor> rows;
  for (const int64_t n : {3, 5, 7}) {
    feeds.push_back(ops::Placeholder(root, DT_FLOAT, {-1, n}));
    rows.push_back(Tensor::Of<float>({4, n}, std::vector<float>(4 * n, 1)));
    const Output images = ops::Reshape(root, ops::Sum(root, feeds.back(), {0}), {1, n, 1, 1});
    convolved.push_back(ops::Conv2D(root, images, filter, {1, 1, 1, 1}, "VALID"));
  }
  const auto session = (*strategy)->NewSession(graph);
  ASSERT_TRUE(session.ok()) << session.status();
  auto step = (*session)->Prepare(feeds, convolved, {});
  ASSERT_TRUE(step.ok()) << step.status();
  const auto outputs = step->Run(rows);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(NumNcclCollectives(), 2);
  for (const Tensor& output : *outputs) {
    for (const float value : output.flat<float>()) EXPECT_EQ(value, 8);
  }
}

// Returns the losses of three steps of a tiny language model.
absl::StatusOr<std::vector<float>> TrainTransformer(const Devices& devices) {
  const TransformerConfig config = {
      .vocabulary = 7, .context = 5, .width = 8, .heads = 2, .blocks = 1};
  MF_ASSIGN_OR_RETURN(const auto strategy,
                      MirroredStrategy::Create({.devices = devices, .seed = 5}));
  Graph graph;
  const Scope root(&graph);
  const auto mirrored = strategy->scope();
  const LanguageModel model = BuildTransformer(root, config);
  const Operation train = Adam({.learning_rate = 0.01}).Minimize(root, model.loss);
  MF_ASSIGN_OR_RETURN(const auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step,
                      session->Prepare({model.tokens, model.next}, {model.loss}, {train}));
  std::vector<int32_t> tokens, next;
  for (int32_t i = 0; i < 3 * 5; ++i) {
    tokens.push_back(i % 7);
    next.push_back((i + 1) % 7);
  }
  const std::vector<Tensor> batch = {Tensor::Of<int32_t>({3, 5}, tokens),
                                     Tensor::Of<int32_t>({3, 5}, next)};
  std::vector<float> losses;
  for (int i = 0; i < 3; ++i) {
    MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run(batch));
    losses.push_back(out[0].scalar<float>());
  }
  return losses;
}

TEST(GpuTransformerTest, TrainingMatchesCpu) {
  Reset();
  const auto want = TrainTransformer({"CPU:0"});
  ASSERT_TRUE(want.ok()) << want.status();
  EXPECT_LT((*want)[2], (*want)[0]);
  for (const Devices& devices : std::vector<Devices>{{"GPU:0"}, {"GPU:0", "GPU:1"}}) {
    Reset();
    const auto got = TrainTransformer(devices);
    ASSERT_TRUE(got.ok()) << got.status();
    for (int i = 0; i < 3; ++i) EXPECT_NEAR((*got)[i], (*want)[i], 1e-4 * (*want)[i]);
    EXPECT_EQ(CheckRecordedOrder(), absl::OkStatus());
    EXPECT_EQ(NcclMisuse(), absl::OkStatus());
  }
}

// Returns the number of kernels in a transformer step, compiled without the pass `without`.
absl::StatusOr<size_t> KernelsOfTransformer(const char* without) {
  const TransformerConfig config = {
      .vocabulary = 7, .context = 5, .width = 8, .heads = 2, .blocks = 1};
  MirroredStrategy::Options options{.devices = {"GPU:0"}};
  if (*without != '\0') options.compile.disabled_passes = {without};
  MF_ASSIGN_OR_RETURN(const auto strategy, MirroredStrategy::Create(options));
  Graph graph;
  const Scope root(&graph);
  const auto mirrored = strategy->scope();
  const LanguageModel model = BuildTransformer(root, config);
  const Operation train = Adam({.learning_rate = 0.01}).Minimize(root, model.loss);
  MF_ASSIGN_OR_RETURN(const auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step,
                      session->Prepare({model.tokens, model.next}, {model.loss}, {train}));
  MF_ASSIGN_OR_RETURN(const StepPlans plans, CompileStep(step, {Shape({3, 5}), Shape({3, 5})}));
  return plans.plans[0]->kernels.size();
}

absl::StatusOr<size_t> KernelsOfMlp(const char* without) {
  CompileOptions compile;
  if (*without != '\0') compile.disabled_passes = {without};
  MF_ASSIGN_OR_RETURN(const auto t, MakeClassifierTraining("mlp", {"GPU:0"}, compile));
  const std::vector<Tensor> batch = ClassifierBatch("mlp", 4);
  MF_ASSIGN_OR_RETURN(const StepPlans plans,
                      CompileStep(t->step, {batch[0].shape(), batch[1].shape()}));
  return plans.plans[0]->kernels.size();
}

// Checks the rows of docs/benchmarks.md about passes that reduce the number of GPU kernels.
TEST(GpuStrategyTest, KernelCountsMatchTableInBenchmarks) {
  Reset();
  EXPECT_EQ(KernelsOfMlp("").value(), 14u);
  EXPECT_EQ(KernelsOfMlp("fuse_epilogues").value(), 23u);
  EXPECT_EQ(KernelsOfTransformer("").value(), 56u);
  EXPECT_EQ(KernelsOfTransformer("fuse_updates").value(), 75u);
  EXPECT_EQ(KernelsOfTransformer("fuse_elementwise").value(), 58u);
  EXPECT_EQ(KernelsOfTransformer("elide_attention_transposes").value(), 64u);
}

// Invalid data on one GPU is an error on every replica and changes no variable.
TEST(GpuStrategyErrorsTest, LabelOutOfRangeNamesDeviceAndLeavesVariablesUnchanged) {
  for (const Devices& devices : std::vector<Devices>{{"GPU:0"}, {"GPU:0", "GPU:1"}}) {
    Reset();
    const auto t = MakeClassifierTraining("mlp", devices);
    ASSERT_TRUE(t.ok()) << t.status();
    std::vector<Tensor> batch = ClassifierBatch("mlp", 4);
    ASSERT_TRUE(RunStep(**t, batch).ok());
    std::vector<Tensor> before;
    const std::vector<VariableInfo>& variables = (*t)->session->layout().variables();
    for (const VariableInfo& v : variables) {
      before.push_back(*(*t)->session->ReadVariable(v.name, 0)->Clone());
    }
    batch[1] = Tensor::Vector<int32_t>({1, 2, 3, 10});
    const auto loss = RunStep(**t, batch);
    EXPECT_THAT(loss.status(),
                IsError(absl::StatusCode::kInvalidArgument, "got 10", devices.back()));
    for (size_t i = 0; i < variables.size(); ++i) {
      for (size_t r = 0; r < devices.size(); ++r) {
        const auto after = (*t)->session->ReadVariable(variables[i].name, static_cast<int>(r));
        ASSERT_TRUE(after.ok()) << after.status();
        EXPECT_TRUE(Tensor::Identical(*after, before[i])) << variables[i].name << " on " << r;
      }
    }
    batch = ClassifierBatch("mlp", 4);
    const auto after = RunStep(**t, batch);
    EXPECT_TRUE(after.ok()) << after.status();
  }
}

TEST(GpuStrategyErrorsTest, UsesEveryGpuAndRejectsInvalidDevices) {
  Reset();
  const auto all = MirroredStrategy::Create();
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ((*all)->topology().devices(), Devices({"GPU:0", "GPU:1"}));
  const auto cpus = MirroredStrategy::Create({.num_cpu_replicas = 3});
  ASSERT_TRUE(cpus.ok()) << cpus.status();
  EXPECT_EQ((*cpus)->topology().devices(), Devices({"CPU:0", "CPU:1", "CPU:2"}));
  struct {
    Devices devices;
    const char* place;
    const char* token;
    absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  } const kRefused[] = {
      {{"GPU:0", "CPU:0"}, "devices:", "only CPUs, got GPU:0, CPU:0"},
      {{"GPU:0", "GPU:0", "GPU:1"}, "devices:", "distinct GPUs"},
      {{"GPU:2"}, "device 'GPU:2':", "no such GPU", absl::StatusCode::kNotFound},
      {{"GPU:x"}, "device 'GPU:x':", "expected CPU:0"},
  };
  for (const auto& refused : kRefused) {
    EXPECT_THAT(MirroredStrategy::Create({.devices = refused.devices}).status(),
                IsError(refused.code, refused.place, refused.token));
  }
  Reset({.failing_call = "cudaGetDeviceCount", .error = cudaErrorNoDevice});
  const auto none = MirroredStrategy::Create();
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ((*none)->topology().devices()[0], "CPU:0");
}

}  // namespace
}  // namespace mirrorflow
