// SPDX-License-Identifier: Apache-2.0
//
// Tests batch normalisation with the attribute that makes each replica normalise its rows
// separately, as in TensorFlow's MirroredStrategy.
#include <numeric>

#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/gradients.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

constexpr float kFactor = 0.25f;
constexpr int kChannels = 2;
// The indices of Program's fetches.
enum { kY, kMean, kVariance, kDx, kDgamma, kDbeta, kNumFetches };

struct Program {
  Graph graph;
  Scope root{&graph};
  Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 1, 2, kChannels});
  ops::FusedBatchNormV3Outputs norm;
  std::vector<Output> fetches;

  explicit Program(bool per_replica) {
    auto channels = [&](float a, float b) {
      return ops::Const(root, Tensor::Vector<float>({a, b}));
    };
    const Output gamma = channels(1.5f, -0.5f), beta = channels(0.25f, 1);
    norm = ops::FusedBatchNormV3(
        root.WithName("norm"), x, gamma, beta, channels(0.5f, -1), channels(2, 3),
        {.epsilon = 1e-3f, .exponential_avg_factor = kFactor, .per_replica = per_replica});
    const Output cube = ops::Mul(root, norm.y, ops::Mul(root, norm.y, norm.y));
    const auto d = Gradients(root, {ops::Sum(root, cube, {0, 1, 2, 3})}, {x, gamma, beta}).value();
    fetches = {norm.y, norm.batch_mean, norm.batch_variance, d[0], d[1], d[2]};
  }

  absl::StatusOr<std::vector<Tensor>> Run(const Tensor& value, std::vector<int64_t> rows,
                                          int64_t microbatch_bytes = 0) const {
    TestSessionOptions options{.replicas = static_cast<int>(rows.size())};
    options.session.compile.microbatch_bytes = microbatch_bytes;
    MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(graph, options));
    MF_ASSIGN_OR_RETURN(Step step, session->Prepare({x}, fetches, {}));
    MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run({value}, {.replica_rows = rows}));
    std::vector<Tensor> results;
    for (const Tensor& t : out) results.push_back(t.Clone().value());
    return results;
  }
};

Tensor Images(int64_t rows) {
  Random random(5);
  return RandomTensor(DT_FLOAT, Shape({rows, 1, 2, kChannels}), &random);
}

// Evaluates each replica's slice as a separate batch and combines the results. Means and variances
// are averaged over the slices with `weights`.
std::vector<Tensor> OfEachSlice(const Tensor& value, const std::vector<int64_t>& rows,
                                const std::vector<double>& weights) {
  const Program program(/*per_replica=*/false);
  Interpreter reference = Interpreter::Create(program.graph, TestKernels()).value();
  std::vector<std::vector<Tensor>> parts(kNumFetches);
  std::vector<double> used;
  int64_t first = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const Tensor slice = SliceAlong(value, 0, first, first + rows[r]);
    first += rows[r];
    if (rows[r] == 0) continue;  // contributes nothing
    const std::vector<Tensor> local = reference.Run({{program.x, slice}}, program.fetches).value();
    for (int i = 0; i < kNumFetches; ++i) parts[i].push_back(local[i]);
    used.push_back(weights[r]);
  }
  return {ConcatenateAlong(parts[kY], 0),
          Combine(parts[kMean], Reduction::kMean, used),
          Combine(parts[kVariance], Reduction::kMean, used),
          ConcatenateAlong(parts[kDx], 0),
          Combine(parts[kDgamma], Reduction::kSum, {}),
          Combine(parts[kDbeta], Reduction::kSum, {})};
}

// Returns the index of the first fetch that differs, or -1.
int FirstDifference(const std::vector<Tensor>& want, const std::vector<Tensor>& got) {
  for (int i = 0; i < kNumFetches; ++i) {
    if (!Difference(want[i], got[i], {1e-4, 1e-4}).empty()) return i;
  }
  return -1;
}

std::vector<double> ByRows(const std::vector<int64_t>& rows) {
  const double all = static_cast<double>(std::accumulate(rows.begin(), rows.end(), int64_t{0}));
  std::vector<double> weights;
  for (const int64_t r : rows) weights.push_back(static_cast<double>(r) / all);
  return weights;
}

// With micro-batches, each would be normalised by its own statistics. The step fetches only a
// function of `y`, so no use of the statistics prevents the split.
TEST(PerReplicaBatchNorm, StatisticsCoverAllRowsOfReplica) {
  const Tensor value = Images(32);
  for (const std::vector<int64_t>& rows : std::vector<std::vector<int64_t>>{{32}, {20, 12}}) {
    Program program(/*per_replica=*/true);
    program.fetches = {ops::Tanh(program.root, program.norm.y)};
    const auto want = program.Run(value, rows);
    const auto got = program.Run(value, rows, /*microbatch_bytes=*/64);
    ASSERT_TRUE(want.ok()) << want.status();
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(Difference((*want)[0], (*got)[0], {1e-5, 1e-5}), "");
  }
}

TEST(PerReplicaBatchNorm, NormalisesEachReplicaSliceSeparately) {
  const Tensor value = Images(7);
  for (const std::vector<int64_t>& rows : std::vector<std::vector<int64_t>>{
           {7}, {4, 3}, {6, 1}, {7, 0}, {0, 7}, {0, 5, 2}, {2, 2, 2, 1}}) {
    const auto got = Program(/*per_replica=*/true).Run(value, rows);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(FirstDifference(OfEachSlice(value, rows, ByRows(rows)), *got), -1);
  }
}

// The expected values come from TensorFlow 2.21's FusedBatchNormV3 and its gradient, for the first
// three rows and for the last two.
TEST(PerReplicaBatchNorm, MatchesTensorFlowForEachSlice) {
  const Shape images({5, 1, 2, kChannels});
  const Tensor value = Tensor::Of<float>(
      images, {1, -2, 3, 0.5, 2, 4, -1, 1, 0, 1, 5, -3, 2, 2, 1, -1, -4, 0.5, 3, 2});
  const std::vector<Tensor> want = {
      Tensor::Of<float>(images, {-0.2570273f, 1.4958867f,  1.2640548f, 0.9449015f,  0.5035137f,
                                 0.1735222f,  -1.7781093f, 0.8347044f, -1.0175684f, 0.8347044f,
                                 2.7851369f,  1.7162808f,  1.0855714f, 0.5478791f,  0.5285238f,
                                 1.7535348f,  -2.2567143f, 1.1507070f, 1.6426190f,  0.5478791f}),
      Tensor::Vector<float>({0.675f, -0.625f}),
      Tensor::Vector<float>({3.1666667f, 3.3825002f}),
      Tensor::Of<float>(images, {-3.9595268f, -0.0158784f, -3.9586296f, 0.1653178f,  -5.2788205f,
                                 -0.2554429f, 6.5975165f,  0.1533832f,  -0.0007476f, 0.1533832f,
                                 6.6002088f,  -0.2007630f, -0.6617798f, -0.0788701f, -2.9862413f,
                                 -0.1606413f, 0.9482213f,  0.3183812f,  2.6998000f,  -0.0788701f}),
      Tensor::Vector<float>({11.2906828f, -30.9616337f}),
      Tensor::Vector<float>({69.3608627f, 37.4971848f})};
  const auto got = Program(/*per_replica=*/true).Run(value, {3, 2});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(FirstDifference(want, *got), -1);
}

TEST(PerReplicaBatchNorm, DiffersFromGlobalBatchOnTwoReplicas) {
  const Tensor value = Images(7);
  const auto exact = Program(/*per_replica=*/false).Run(value, {4, 3});
  const auto local = Program(/*per_replica=*/true).Run(value, {4, 3});
  ASSERT_TRUE(exact.ok() && local.ok()) << exact.status() << local.status();
  EXPECT_EQ(FirstDifference(*exact, *local), kY);
  // On one replica, both modes give the same results.
  EXPECT_EQ(FirstDifference(Program(false).Run(value, {7}).value(),
                            Program(true).Run(value, {7}).value()),
            -1);
}

// Planted bug: a mean over the replicas instead of over the rows.
TEST(PerReplicaBatchNorm, MeanNotWeightedByRowsIsDetected) {
  const Tensor value = Images(7);
  const auto got = Program(/*per_replica=*/true).Run(value, {6, 1});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(FirstDifference(OfEachSlice(value, {6, 1}, {0.5, 0.5}), *got), kMean);
  EXPECT_EQ(FirstDifference(OfEachSlice(value, {5, 2}, ByRows({5, 2})), *got), kY);
}

absl::Status Prepared(const Program& program, Output fetch, std::vector<Operation> targets) {
  auto session = CreateTestSession(program.graph, {.replicas = 2});
  if (!session.ok()) return session.status();
  auto step = (*session)->Prepare({program.x}, {fetch}, targets);
  if (!step.ok()) return step.status();
  return step->Run({Images(4)}).status();
}

TEST(PerReplicaBatchNorm, ReserveSpaceUsedOutsideGradientIsRejected) {
  Program program(/*per_replica=*/true);
  const Output wrong = ops::Neg(program.root.WithName("wrong"), program.norm.reserve_space_1);
  const absl::Status used = Prepared(program, wrong, {});
  EXPECT_THAT(used,
              IsError(absl::StatusCode::kInvalidArgument, "FusedBatchNormV3(norm) -> Neg(wrong)"));

  const Variable variable =
      CreateVariable(program.root, "kept", {kChannels}, initializers::Zeros());
  const Operation write = ops::AssignVariableOp(program.root.WithName("write"), variable.handle,
                                                program.norm.reserve_space_2);
  const absl::Status written = Prepared(program, program.norm.y, {write});
  EXPECT_THAT(written, IsError(absl::StatusCode::kInvalidArgument,
                               "FusedBatchNormV3(norm) -> AssignVariableOp(write)"));
}

TEST(PerReplicaBatchNorm, UnknownAttributeValueIsRejected) {
  Program program(/*per_replica=*/true);
  program.graph.SetAttr(program.norm.y.node, ops::kBatchNormAttr, "per_host");
  const absl::Status status = Prepared(program, program.norm.y, {});
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "attribute _batch_norm",
                              "\"per_replica\", got \"per_host\""));
}

}  // namespace
}  // namespace mirrorflow
