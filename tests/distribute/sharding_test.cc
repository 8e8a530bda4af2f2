// SPDX-License-Identifier: Apache-2.0
//
// Tests small programs that are easy to shard incorrectly. Under MirroredStrategy, they must give
// the same results as on one device.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/graph/creation_scope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow_debug.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

Tensor Rows(int64_t rows, int64_t columns) {
  Tensor t = Tensor::Allocate(DT_FLOAT, Shape({rows, columns})).value();
  int i = 0;
  for (float& x : t.flat<float>()) x = static_cast<float>((i++ * 5) % 7 - 3);
  return t;
}

struct Program {
  Graph graph;
  Scope root{&graph};
  Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 4});
  std::vector<Output> fetches;
  std::vector<Operation> targets;

  Variable AddVariable(const std::string& name, const Shape& shape, double value) {
    const Variable variable = CreateVariable(root, name, shape, initializers::Constant(value));
    // Removes the creation scope, as in a graph from a file, so that every strategy runs the graph.
    graph.SetAttr(variable.handle.node, kCreationScopeAttr, false);
    return variable;
  }

  absl::StatusOr<std::vector<Tensor>> Run(const Strategy& strategy, const Tensor& value) {
    MF_ASSIGN_OR_RETURN(auto session, strategy.NewSession(graph));
    MF_ASSIGN_OR_RETURN(Step step, session->Prepare({x}, fetches, targets));
    MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run({value}));
    std::vector<Tensor> results;
    for (const Tensor& t : out) results.push_back(*t.Clone());
    for (const VariableInfo& v : session->layout().variables()) {
      results.push_back(*session->ReadVariable(v.name));
    }
    return results;
  }

  void ExpectTheSameOnAnyNumberOfReplicas() {
    const Tensor value = Rows(5, 4);
    const auto want = Run(*OneDeviceStrategy::Create().value(), value);
    ASSERT_TRUE(want.ok()) << want.status();
    for (int replicas : {2, 3, 7}) {
      const auto got =
          Run(*MirroredStrategy::Create(
                   {.num_cpu_replicas = replicas, .compile = {.verify = true, .check_plan = true}})
                   .value(),
              value);
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(got->size(), want->size());
      for (size_t i = 0; i < want->size(); ++i) {
        EXPECT_EQ(Difference((*want)[i], (*got)[i], {1e-5, 1e-5}), "")
            << "value " << i << " on " << replicas << " replicas";
      }
    }
  }
};

TEST(Sharding, MaximumAndSumAreReducedSeparately) {
  Program p;
  const Output max = ops::Max(p.root, p.x, {0}), sum = ops::Sum(p.root, p.x, {0});
  p.fetches = {ops::AddV2(p.root, max, sum), ops::AddV2(p.root, sum, max),
               ops::AddN(p.root, {max, sum, sum}), ops::Sub(p.root, max, sum),
               ops::ConcatV2(p.root, {max, sum}, 0)};
  p.ExpectTheSameOnAnyNumberOfReplicas();
}

TEST(Sharding, MeanOverBatchIsValidTarget) {
  Program p;
  const Output mean = ops::Mean(p.root, p.x, {0, 1});
  p.targets = {Operation{mean.node}};
  p.ExpectTheSameOnAnyNumberOfReplicas();
}

TEST(Sharding, IntegerMeanOfNoElementsMatchesOneDevice) {
  Program p;
  const Output none = ops::Slice(p.root, ops::Cast(p.root, p.x, DT_INT32),
                                 ops::VectorConst(p.root, std::vector<int64_t>{0, 0}),
                                 ops::VectorConst(p.root, std::vector<int64_t>{-1, 0}));
  p.fetches = {ops::Mean(p.root, none, {0, 1})};
  p.ExpectTheSameOnAnyNumberOfReplicas();
}

TEST(Sharding, ReducedValueServesShardedUseWithoutGather) {
  Program p;
  auto strategy = MirroredStrategy::Create({.num_cpu_replicas = 2}).value();
  const Output gram = ops::MatMul(p.root, p.x, p.x, {.transpose_a = true});
  const Output share = ops::Sum(p.root, p.x, {1}, {.keep_dims = true});
  const Output product = ops::Mul(p.root, gram, share);
  p.fetches = {ops::Tanh(p.root, product), ops::Tanh(p.root, gram)};
  auto session = strategy->NewSession(p.graph).value();
  Step step = session->Prepare({p.x}, p.fetches, {}).value();
  const std::string program = CompileStep(step, {Shape({4, 4})})->program->ToString();
  EXPECT_FALSE(absl::StrContains(program, "AllGather(")) << program;
}

TEST(Sharding, UpdatedVariableCanBeSlotOfAnother) {
  Program p;
  const Variable first = p.AddVariable("first", {4}, 1), second = p.AddVariable("second", {4}, 2),
                 slot = p.AddVariable("slot", {4}, 0);
  const Output rate = ops::ScalarConst(p.root, DT_FLOAT, 0.5),
               momentum = ops::ScalarConst(p.root, DT_FLOAT, 0.25);
  const Output one = ops::Sum(p.root, p.x, {0}),
               two = ops::Sum(p.root, ops::Square(p.root, p.x), {0});
  p.targets = {
      ops::ResourceApplyMomentum(p.root, first.handle, slot.handle, rate, one, momentum),
      ops::ResourceApplyMomentum(p.root, second.handle, first.handle, rate, two, momentum)};
  p.ExpectTheSameOnAnyNumberOfReplicas();
}

TEST(Sharding, OpWithFortyThousandInputsMatchesOneDevice) {
  Program p;
  p.fetches = {ops::AddN(p.root, std::vector<Output>(40000, ops::Neg(p.root, p.x)))};
  p.ExpectTheSameOnAnyNumberOfReplicas();
}

// More collectives than a communicator accepts at once, each too large to be fused with another.
TEST(Sharding, ThreeHundredFetchedGradientsMatchOneDevice) {
  Program p;
  for (int i = 0; i < 300; ++i) {
    const Variable w = p.AddVariable(absl::StrCat("w", i), {4, 4200}, i);
    p.fetches.push_back(
        ops::MatMul(p.root, p.x, ops::MatMul(p.root, p.x, w.value), {.transpose_a = true}));
  }
  p.ExpectTheSameOnAnyNumberOfReplicas();
}

TEST(Sharding, StepWithoutSplittableFeedIsRejected) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {6, 2});
  const Output y = ops::Neg(root, x);
  auto strategy = MirroredStrategy::Create({.num_cpu_replicas = 2}).value();
  auto session = strategy->NewSession(graph).value();
  const auto out = session->Prepare({x}, {y}, {}).value().Run({Rows(6, 2)});
  EXPECT_THAT(out.status(), IsError(absl::StatusCode::kInvalidArgument, "feed x"));
}

// The replica that looks up the invalid index fails. The other replica must learn of this before it
// writes, although the step reduces no value.
TEST(Sharding, NoReplicaWritesBeforeAllReplicasCheckTheirData) {
  Graph graph;
  const Scope root(&graph);
  auto strategy = MirroredStrategy::Create({.num_cpu_replicas = 2}).value();
  auto mirrored = strategy->scope();
  const Variable steps = CreateVariable(root, "steps", {}, initializers::Zeros());
  const Output ids = ops::Placeholder(root.WithName("ids"), DT_INT32, {-1});
  const Output table = ops::Const(root, Tensor::Of<float>({3, 1}, {1, 2, 3}));
  const Output rows = ops::GatherV2(root, table, ids, ops::ScalarConst(root, DT_INT32, 0));
  const Operation count =
      ops::AssignAddVariableOp(root, steps.handle, ops::ScalarConst(root, DT_FLOAT, 1));
  auto session = strategy->NewSession(graph).value();
  Step step = session->Prepare({ids}, {rows}, {count}).value();
  ASSERT_TRUE(step.Run({Tensor::Vector<int32_t>({0, 1, 2, 0})}).ok());
  for (int bad = 0; bad < 4; ++bad) {
    std::vector<int32_t> wrong = {0, 1, 2, 0};
    wrong[bad] = 9;
    for (int attempt = 0; attempt < 20; ++attempt) {
      const absl::Status failed = step.Run({Tensor::Vector<int32_t>(wrong)}).status();
      // The error names the position in the global batch.
      EXPECT_THAT(failed,
                  IsError(absl::StatusCode::kInvalidArgument, absl::StrCat("indices[", bad, "]")));
      for (int r = 0; r < 2; ++r) {
        ASSERT_EQ(session->ReadVariable("steps", r)->scalar<float>(), 1);
      }
    }
  }
  EXPECT_TRUE(step.Run({Tensor::Vector<int32_t>({0, 1, 2, 0})}).ok());
}

TEST(Sharding, ErrorsInMicrobatchesNameRowOfBatch) {
  Graph graph;
  const Scope root(&graph);
  const Output ids = ops::Placeholder(root.WithName("ids"), DT_INT32, {-1, 16});
  const Output table = ops::Const(root, Tensor::Of<float>({3, 1}, {1, 2, 3}));
  const Output rows =
      ops::Neg(root, ops::GatherV2(root, table, ids, ops::ScalarConst(root, DT_INT32, 0)));
  for (const int replicas : {1, 2}) {
    auto strategy =
        MirroredStrategy::Create({.num_cpu_replicas = replicas, .compile = {.microbatch_bytes = 1}})
            .value();
    auto session = strategy->NewSession(graph).value();
    Step step = session->Prepare({ids}, {rows}, {}).value();
    EXPECT_EQ(CompileStep(step, {Shape({8, 16})})->plans[0]->kernels.size(), 2 * 8 / replicas);
    for (int bad = 0; bad < 8; ++bad) {
      std::vector<int32_t> wrong(8 * 16, 1);
      wrong[16 * bad + 3] = 9;
      EXPECT_THAT(
          step.Run({Tensor::Vector<int32_t>(wrong).Reshaped({8, 16})}).status(),
          IsError(absl::StatusCode::kInvalidArgument, absl::StrCat("indices[", bad, ",3]")));
    }
  }
}

}  // namespace
}  // namespace mirrorflow
