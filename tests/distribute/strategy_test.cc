// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/strategy.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "distribute/strategy/devices.h"
#include "framework/core/status.h"
#include "framework/graph/text_form.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/step_plans.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/registry.h"
#include "tests/oracle/in_double.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"
#include "tools/models/classifiers.h"
#include "train/layers/layers.h"
#include "train/optimizers/optimizers.h"

namespace mirrorflow {
namespace {

struct Training {
  std::unique_ptr<MirroredStrategy> strategy;
  Graph graph;
  Classifier model;
  std::unique_ptr<Session> session;
  Step step;
};

absl::StatusOr<std::unique_ptr<Training>> MakeTraining(absl::string_view model, int replicas,
                                                       const std::string& without_pass = "") {
  auto t = std::make_unique<Training>();
  MirroredStrategy::Options options{.num_cpu_replicas = replicas};
  options.pin_threads = false;
  options.compile.check_plan = true;
  options.compile.verify = true;
  options.compile.kernels.allow_winograd = false;  // its operations depend on a replica's rows
  if (!without_pass.empty()) options.compile.disabled_passes = {without_pass};
  MF_ASSIGN_OR_RETURN(t->strategy, MirroredStrategy::Create(options));
  const Scope root(&t->graph);
  auto mirrored = t->strategy->scope();
  MF_ASSIGN_OR_RETURN(t->model, BuildClassifier(root, model));
  const Operation train = Momentum({.learning_rate = 0.1}).Minimize(root, t->model.loss);
  MF_ASSIGN_OR_RETURN(t->session, t->strategy->NewSession(t->graph));
  MF_ASSIGN_OR_RETURN(
      t->step, t->session->Prepare({t->model.images, t->model.labels}, {t->model.loss}, {train}));
  return t;
}

std::vector<Tensor> Batch(int64_t rows) {
  Random random(3);
  const Tensor images = RandomTensor(DT_FLOAT, {rows, 784}, &random);
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < rows; ++i) labels.push_back(static_cast<int32_t>(i % 10));
  return {images, Tensor::Vector<int32_t>(labels)};
}

std::vector<Tensor> Variables(const Session& session, int replica) {
  std::vector<Tensor> values;
  for (const VariableInfo& v : session.layout().variables()) {
    values.push_back(*session.ReadVariable(v.name, replica));
  }
  return values;
}

void ExpectIdentical(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(Tensor::Identical(a[i], b[i])) << i;
}

TEST(MirroredStrategyTest, VariablesStayBitwiseEqualAfterEachStep) {
  auto t = MakeTraining("mlp", 3);
  ASSERT_TRUE(t.ok()) << t.status();
  const std::vector<Tensor> initial = Variables(*(*t)->session, 0);
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE((*t)->step.Run(Batch(16)).ok());
    for (int r = 1; r < 3; ++r) {
      ExpectIdentical(Variables(*(*t)->session, 0), Variables(*(*t)->session, r));
    }
  }
  EXPECT_FALSE(Tensor::Identical(initial[0], Variables(*(*t)->session, 0)[0]));
}

TEST(MirroredStrategyTest, RepeatedRunsGiveSameBits) {
  float losses[2];
  for (float& loss : losses) {
    auto t = MakeTraining("mlp", 2);
    ASSERT_TRUE(t.ok()) << t.status();
    for (int step = 0; step < 3; ++step) {
      const auto out = (*t)->step.Run(Batch(10));
      ASSERT_TRUE(out.ok()) << out.status();
      loss = (*out)[0].scalar<float>();
    }
  }
  EXPECT_EQ(losses[0], losses[1]);
}

// Replicas exchange only the parameters and four statistics per normalised channel (docs/design.md,
// "Division of work"). With `fuse_updates`, they exchange rows instead, which is less data.
TEST(MirroredStrategyTest, ReplicasDivideProductsAndSendParametersOnce) {
  for (const char* model : {"mlp", "cnn", "resnet"}) {
    int64_t flops_of_one = 0;
    for (int replicas : {1, 2, 4, 8}) {
      auto t = MakeTraining(model, replicas, "fuse_updates");
      ASSERT_TRUE(t.ok()) << t.status();
      const Shape images = (*t)->model.images.node->attr<Shape>("shape");
      Shape shape = images;
      shape.set_dim(0, 16);
      const auto plans = CompileStep((*t)->step, {shape, Shape({16})});
      ASSERT_TRUE(plans.ok()) << plans.status();
      int64_t flops = 0;
      for (const auto& plan : plans->plans) flops += plan->flops;
      if (replicas == 1) flops_of_one = flops;
      EXPECT_EQ(flops, flops_of_one) << model << " on " << replicas;
      int64_t parameters = 0, statistics = 0, sent = 0;
      for (const VariableInfo& v : (*t)->session->layout().variables()) {
        const bool moving = absl::StrContains(v.name, "/moving_");
        if (moving) statistics += 2 * v.bytes();
        if (!moving && !v.is_slot) parameters += v.bytes();
      }
      for (const PlannedCollective& c : plans->plans[0]->collectives) {
        EXPECT_TRUE(c.is<PlannedAllReduce>() || c.update() != nullptr) << c.name;
        sent += c.count * static_cast<int64_t>(DataTypeSize(c.dtype));
      }
      if (replicas == 1) {
        EXPECT_EQ(sent, 0);
      } else {
        EXPECT_GE(sent, parameters) << model << " on " << replicas;
        EXPECT_LE(sent, parameters + statistics + 64) << model << " on " << replicas;
      }
      EXPECT_EQ(plans->plans[0]->copied_to_buckets, 0) << model << " on " << replicas;
    }
  }
}

TEST(MirroredStrategyTest, FirstReductionStartsBeforeLastGradientIsComputed) {
  const std::pair<const char*, Shape> models[] = {
      {"mlp", {16, 784}}, {"cnn", {16, 28, 28, 1}}, {"resnet", {16, 28, 28, 1}}};
  for (const auto& [model, images] : models) {
    auto t = MakeTraining(model, 2);
    ASSERT_TRUE(t.ok()) << t.status();
    const auto plans = CompileStep((*t)->step, {images, Shape({16})});
    ASSERT_TRUE(plans.ok()) << plans.status();
    const Plan& plan = *plans->plans[0];
    size_t first_start = 0, first_finish = 0, last_gradient = 0;
    const auto first =
        std::find_if(plan.collectives.begin(), plan.collectives.end(),
                     [](const PlannedCollective& c) { return c.is<PlannedUpdate>(); });
    ASSERT_NE(first, plan.collectives.end()) << model;
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const Instruction& instruction = plan.instructions[i];
      if (instruction.node < 0) continue;
      const bool is_first = instruction.index == first - plan.collectives.begin();
      if (is_first && instruction.kind == InstructionKind::kStart) first_start = i;
      if (is_first && instruction.kind == InstructionKind::kFinish) first_finish = i;
      const std::string& op = plan.node_ops[instruction.node];
      if (op == "MatMul" || op == "Conv2DBackpropFilter") last_gradient = i;
    }
    EXPECT_GT(first_start, 0u) << model;
    EXPECT_LT(first_start, last_gradient) << model;
    EXPECT_GT(first_finish, first_start + 1) << model;
  }
}

TEST(MirroredStrategyTest, LabelOutOfRangeNamesRankAndLeavesVariablesUnchanged) {
  auto t = MakeTraining("mlp", 2);
  ASSERT_TRUE(t.ok()) << t.status();
  ASSERT_TRUE((*t)->step.Run(Batch(8)).ok());
  const std::vector<Tensor> before = Variables(*(*t)->session, 0);
  std::vector<Tensor> bad = Batch(8);
  bad[1].data<int32_t>()[6] = 10;  // on replica 1
  const auto out = (*t)->step.Run(bad);
  EXPECT_THAT(out.status(), IsError(absl::StatusCode::kInvalidArgument,
                                    "SparseSoftmaxCrossEntropyWithLogits(loss/", "rank 1"));
  for (int r = 0; r < 2; ++r) ExpectIdentical(before, Variables(*(*t)->session, r));
  EXPECT_TRUE((*t)->step.Run(Batch(8)).ok())
      << "expected the session to stay usable after a bad batch";
}

TEST(MirroredStrategyTest, NonFiniteLossChangesNoVariable) {
  auto t = MakeTraining("mlp", 2);
  ASSERT_TRUE(t.ok()) << t.status();
  ASSERT_TRUE((*t)->step.Run(Batch(8)).ok());
  const std::vector<Tensor> before = Variables(*(*t)->session, 0);
  std::vector<Tensor> bad = Batch(8);
  bad[0].data<float>()[5] = std::numeric_limits<float>::quiet_NaN();  // on replica 0
  const auto out = (*t)->step.Run(bad);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_TRUE(std::isnan((*out)[0].scalar<float>()));
  for (int r = 0; r < 2; ++r) ExpectIdentical(before, Variables(*(*t)->session, r));
}

TEST(MirroredStrategyTest, UnevenAndEmptyShardsMatchLossOfOneReplica) {
  auto one = MakeTraining("mlp", 1);
  ASSERT_TRUE(one.ok()) << one.status();
  const auto want = (*one)->step.Run(Batch(7));
  ASSERT_TRUE(want.ok()) << want.status();
  for (const std::vector<int64_t>& rows :
       std::vector<std::vector<int64_t>>{{3, 2, 2}, {7, 0, 0}, {0, 1, 6}}) {
    auto t = MakeTraining("mlp", 3);
    ASSERT_TRUE(t.ok()) << t.status();
    const auto got = (*t)->step.Run(Batch(7), {.replica_rows = rows});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_NEAR((*got)[0].scalar<float>(), (*want)[0].scalar<float>(), 1e-5);
  }
}

TEST(MirroredStrategyTest, VariableCreatedOutsideScopeIsRejected) {
  auto strategy = MirroredStrategy::Create({.num_cpu_replicas = 2});
  ASSERT_TRUE(strategy.ok());
  Graph graph;
  const Scope root(&graph);
  CreateVariable(root, "stray", {2}, initializers::Zeros());
  EXPECT_THAT((*strategy)->NewSession(graph).status(),
              IsError(absl::StatusCode::kInvalidArgument, "VarHandleOp(stray)"));
}

// The printed text parses to a graph that any strategy accepts.
TEST(MirroredStrategyTest, PrintedGraphNamesStrategyOfEachVariable) {
  const auto first = MirroredStrategy::Create({.num_cpu_replicas = 2}).value();
  const auto second = MirroredStrategy::Create({.num_cpu_replicas = 2}).value();
  EXPECT_NE(first->name(), second->name());
  Graph graph;
  const Scope root(&graph);
  {
    auto mirrored = first->scope();
    CreateVariable(root, "a", {2}, initializers::Zeros());
    auto inner = second->scope();
    CreateVariable(root, "b", {2}, initializers::Zeros());
  }
  CreateVariable(root, "c", {2}, initializers::Zeros());
  const std::string text = GraphToText(graph);
  const auto comment_of = [&](absl::string_view variable) {
    const std::vector<std::string> lines = absl::StrSplit(text, '\n');
    for (const std::string& line : lines) {
      if (!absl::StartsWith(line, absl::StrCat(variable, " = VarHandleOp"))) continue;
      const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits("  # ", 1));
      return parts.size() == 2 ? parts[1] : "";
    }
    return std::string("no such line");
  };
  EXPECT_EQ(comment_of("a"), absl::StrCat("in the scope of ", first->name()));
  EXPECT_EQ(comment_of("b"), absl::StrCat("in the scope of ", second->name()));
  EXPECT_EQ(comment_of("c"), "");
  EXPECT_THAT(first->NewSession(graph).status(),
              IsError(absl::StatusCode::kInvalidArgument, "VarHandleOp(b)", second->name()));
  const Graph read = ParseGraph(text, AllOps()).value();
  EXPECT_TRUE(first->NewSession(read).ok());
  EXPECT_EQ(GraphToText(read), GraphToText(graph, {.comment = nullptr}));
}

TEST(MirroredStrategyTest, DefaultReplicasShareOutAllCores) {
  for (int cores = 1; cores <= 128; ++cores) {
    const CpuReplicas by_default = DefaultCpuReplicas(cores);
    EXPECT_LE(by_default.replicas, 16);
    EXPECT_EQ(by_default.threads_per_replica, cores / by_default.replicas);
    const int unused = cores - by_default.replicas * by_default.threads_per_replica;
    EXPECT_LE(unused, cores <= 16 || cores % 16 == 0 ? 0 : 8) << cores;
  }
}

TEST(MirroredStrategyTest, ChosenReplicasHaveOneThreadByDefault) {
  EXPECT_EQ(ChooseDevices({}, 3, std::nullopt)->threads_per_replica, 1);
  EXPECT_EQ(ChooseDevices({"CPU:0"}, std::nullopt, std::nullopt)->threads_per_replica, 1);
  EXPECT_EQ(ChooseDevices({}, 3, 2)->threads_per_replica, 2);
  EXPECT_EQ(ChooseDevices({}, std::nullopt, 256)->names.size(), 1);
}

TEST(MirroredStrategyTest, InvalidDevicesAndReplicaCountsAreRejected) {
  for (const int count : {0, -1, 1025}) {
    const absl::Status status = MirroredStrategy::Create({.num_cpu_replicas = count}).status();
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "1 to 1024",
                                absl::StrCat("got ", count)));
  }
  EXPECT_THAT(MirroredStrategy::Create({.devices = {"TPU:0"}}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "device 'TPU:0'", "CPU:0"));
  const auto strategy = MirroredStrategy::Create({.devices = {"CPU:0", "CPU:0"}});
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  EXPECT_EQ((*strategy)->num_replicas_in_sync(), 2);
  // By default, the strategy uses the available devices.
  const auto chosen = MirroredStrategy::Create();
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_GE((*chosen)->num_replicas_in_sync(), 1);
  EXPECT_LE((*chosen)->num_replicas_in_sync(), 8);
}

TEST(MirroredStrategyTest, NewSessionReportsGraphErrorsWithNode) {
  auto strategy = MirroredStrategy::Create({.num_cpu_replicas = 2});
  ASSERT_TRUE(strategy.ok());
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 3});
  const Output w = ops::Const(root, Tensor::Of<float>({2, 1}, {1, 2}));
  ops::MatMul(root.WithName("bad"), x, w);
  EXPECT_THAT((*strategy)->NewSession(graph).status(),
              IsError(absl::StatusCode::kInvalidArgument, "MatMul(bad)"));
}

TEST(MirroredStrategyTest, FeedsOfWrongDtypeOrShapeAreRejected) {
  auto t = MakeTraining("mlp", 2);
  ASSERT_TRUE(t.ok()) << t.status();
  std::vector<Tensor> feeds = Batch(4);
  std::swap(feeds[0], feeds[1]);
  EXPECT_THAT((*t)->step.Run(feeds).status(),
              IsError(absl::StatusCode::kInvalidArgument, "feed images", "float"));
  feeds = {Tensor::Of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), Batch(4)[1]};
  EXPECT_THAT((*t)->step.Run(feeds).status(),
              IsError(absl::StatusCode::kInvalidArgument, "feed images", "[4,2]"));
}

TEST(MirroredStrategyTest, PerReplicaFetchReturnsValueOfEachReplica) {
  auto strategy = MirroredStrategy::Create({.num_cpu_replicas = 3}).value();
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_INT32, {});
  const Output sum = ops::Add(root, x, ops::ReplicaIndex(root));
  auto session = strategy->NewSession(graph).value();
  Step step = session->Prepare({x}, {sum, x}).value();
  const auto out = step.Run({Tensor::Scalar<int32_t>(10)});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_FALSE((*out)[0].has_value());
  EXPECT_EQ((*out)[1].scalar<int32_t>(), 10);
  const std::vector<Tensor> values = step.PerReplica(0).value();
  ASSERT_EQ(values.size(), 3);
  for (int r = 0; r < 3; ++r) EXPECT_EQ(values[r].scalar<int32_t>(), 10 + r);
}

TEST(MirroredStrategyTest, PerReplicaValueWrittenToMirroredVariableReportsPath) {
  auto strategy = MirroredStrategy::Create({.num_cpu_replicas = 2}).value();
  Graph graph;
  const Scope root(&graph);
  Operation write;
  {
    auto mirrored = strategy->scope();
    const Variable v = CreateVariable(root, "v", {}, initializers::Zeros(), DT_INT32);
    const Output index = ops::ReplicaIndex(root.WithName("index"));
    const Output negated = ops::Neg(root.WithName("negated"), index);
    write = ops::AssignVariableOp(root.WithName("write"), v.handle, negated);
  }
  auto session = strategy->NewSession(graph).value();
  const auto ran = session->Prepare({}, {}, {write}).value().Run({});
  EXPECT_THAT(ran.status(),
              IsError(absl::StatusCode::kInvalidArgument, "mirrored variable",
                      "ReplicaIndex(index) -> Neg(negated)", "AssignVariableOp(write)"));
  EXPECT_EQ(session->ReadVariable("v")->scalar<int32_t>(), 0);
}

TEST(StrategyTest, ReduceRoundsHalfAndBfloat16Once) {
  for (const DataType dtype : {DT_HALF, DT_BFLOAT16}) {
    // The values are 1 and two halves of an ulp of 1. Rounding after each addition would lose both
    // halves; rounding once keeps their sum.
    const float ulp = dtype == DT_HALF ? 0x1p-10f : 0x1p-7f;
    std::vector<Tensor> values;
    for (const float value : {1.0f, ulp / 2, ulp / 2, -2.0f}) {
      values.push_back(*ConvertFloating(Tensor::Of<float>({2}, {value, -value}), dtype));
    }
    const auto reduced = [&](Reduction reduction) {
      return *ConvertFloating(*Strategy::Reduce(reduction, values), DT_FLOAT);
    };
    const auto want = [](float x, float y) { return Tensor::Of<float>({2}, {x, y}); };
    EXPECT_EQ(Difference(want(ulp - 1, 1 - ulp), reduced(Reduction::kSum), {}), "");
    EXPECT_EQ(Difference(want((ulp - 1) / 4, (1 - ulp) / 4), reduced(Reduction::kMean), {}), "");
    EXPECT_EQ(Difference(want(1, 2), reduced(Reduction::kMax), {}), "");
    EXPECT_EQ(Difference(want(-2, -1), reduced(Reduction::kMin), {}), "");
    EXPECT_EQ(Strategy::Reduce(Reduction::kSum, values)->dtype(), dtype);
  }
}

TEST(StrategyTest, ReduceAndGatherCombineReplicaValues) {
  const std::vector<Tensor> values = {Tensor::Of<float>({1, 2}, {1, 5}),
                                      Tensor::Of<float>({1, 2}, {3, 4})};
  const auto sum = Strategy::Reduce(Reduction::kSum, values);
  ASSERT_TRUE(sum.ok());
  EXPECT_EQ(Difference(Tensor::Of<float>({1, 2}, {4, 9}), *sum, {}), "");
  const auto max = Strategy::Reduce(Reduction::kMax, values);
  ASSERT_TRUE(max.ok());
  EXPECT_EQ(Difference(Tensor::Of<float>({1, 2}, {3, 5}), *max, {}), "");
  const auto rows = Strategy::Gather(values, 0);
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(Difference(Tensor::Of<float>({2, 2}, {1, 5, 3, 4}), *rows, {}), "");
  EXPECT_THAT(Strategy::Gather(values, 2).status(),
              IsError(absl::StatusCode::kInvalidArgument, "axis", "[0, 2)", "got 2"));
  EXPECT_THAT(Strategy::Reduce(Reduction::kSum, {}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "value", "got none"));
  // The mean of 256 values divides by 256, which is 0 in uint8.
  const std::vector<Tensor> bytes(256, Tensor::Scalar<uint8_t>(1));
  const absl::Status status = Strategy::Reduce(Reduction::kMean, bytes).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "uint8", "mean"));
  EXPECT_THAT(Strategy::Reduce(Reduction::kMax, {Tensor::Scalar<bool>(true)}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "bool", "max"));
}

}  // namespace
}  // namespace mirrorflow
