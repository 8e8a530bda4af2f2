// SPDX-License-Identifier: Apache-2.0
//
// Tests the rules in docs/design.md ("Sharding rules", "Partial sums" and "Where collectives come
// from"). Each test compiles a small graph from text to text and checks the sharding of its values,
// or the placement, fusion and order of its collectives.
#include <string>

#include "distribute/passes/bucket_collectives.h"
#include "distribute/passes/insert_collectives.h"
#include "distribute/passes/order_collectives.h"
#include "distribute/passes/propagate_sharding.h"
#include "framework/compiler/passes/infer_and_fold.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/compilation.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

// Returns the step as text, with the collectives that its values need and the sharding of each
// value.
absl::StatusOr<std::string> Shard(absl::string_view text, const StepNames& names) {
  MF_ASSIGN_OR_RETURN(const auto step, ParseStep(text, names));
  MF_RETURN_IF_ERROR(RunPasses(step->c, InferAndFold(), PropagateSharding(), InsertCollectives()));
  return StepToText(step->c, {.shardings = true});
}

std::string Sharded(absl::string_view text, const StepNames& names) {
  const absl::StatusOr<std::string> sharded = Shard(text, names);
  return sharded.ok() ? *sharded : sharded.status().ToString();
}

TEST(PropagateShardingTest, MeanOverBatchBecomesSumDividedByGlobalCount) {
  EXPECT_EQ(Sharded(R"(
x = Placeholder() {dtype=float, shape=<?,2>}
axes = Const() {dtype=int32, value=int32<2>{0, 1}}
mean = Mean(x, axes) {T=float}
)",
                    {.feeds = {{"x", {6, 2}}}, .fetches = {"mean"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "axes = Const() = int32<2>{0, 1} : replicated\n"
            "mean/Const = Const() = float<>{12.0} : replicated\n"
            "mean/Sum = Sum(x, axes) : partial(sum)\n"
            "mean/RealDiv = RealDiv(mean/Sum, mean/Const) : partial(sum)\n"
            "mean/RealDiv/all_reduce = AllReduce(mean/RealDiv) : replicated\n");
}

TEST(PropagateShardingTest, MeanWithinRowsStaysSharded) {
  EXPECT_EQ(Sharded(R"(
x = Placeholder() {dtype=float, shape=<?,2>}
axes = Const() {dtype=int32, value=int32<1>{1}}
mean = Mean(x, axes) {T=float}
)",
                    {.feeds = {{"x", {6, 2}}}, .fetches = {"mean"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "axes = Const() = int32<1>{1} : replicated\n"
            "mean = Mean(x, axes) : sharded(a0, dim 0, x1)\n");
}

TEST(PropagateShardingTest, ContractedBatchGivesPartialValueOfMatchingReduction) {
  EXPECT_EQ(Sharded(R"(
x = Placeholder() {dtype=float, shape=<?,2>}
rows = Const() {dtype=int32, value=int32<1>{0}}
product = MatMul(x, x) {T=float, transpose_a=true}
largest = Max(x, rows) {T=float}
finite = IsFinite(x) {T=float}
all = All(finite, rows)
)",
                    {.feeds = {{"x", {6, 2}}}, .fetches = {"product", "largest", "all"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "rows = Const() = int32<1>{0} : replicated\n"
            "product = MatMul(x, x) : partial(sum)\n"
            "largest = Max(x, rows) : partial(max)\n"
            "finite = IsFinite(x) : sharded(a0, dim 0, x1)\n"
            "all = All(finite, rows) : partial(all)\n"
            "product/all_reduce = AllReduce(product) : replicated\n"
            "largest/all_reduce = AllReduce(largest) : replicated\n"
            "all/all_reduce = AllReduce(all) : replicated\n");
}

// Returns a registry with an op whose decomposition contains the op itself.
const OpRegistry& EndlessOps() {
  static const OpRegistry* const ops = [] {
    auto* registry = new OpRegistry();
    registry->Define("Endless")
        .Input("x: float")
        .Output("y: float")
        .Doc("Decomposes into itself.")
        .NoGradient("test only")
        .Shape([](ShapeContext& c) {
          c.set_output(0, Shape());
          return absl::OkStatus();
        })
        .Sharding([](const ShardContext&) -> absl::StatusOr<ShardingRule> {
          return ShardingRule{.dims = "ab->", .expand = true};
        })
        .Expand([](const Scope& scope, const Node& node) -> absl::StatusOr<std::vector<Output>> {
          return std::vector<Output>{
              scope.Build(EndlessOps(), "Endless").Input(node.input(0)).One()};
        });
    MF_CHECK(registry->Seal().ok());
    return registry;
  }();
  return *ops;
}

TEST(PropagateShardingTest, EndlessDecompositionReportsNode) {
  const auto step = ParseStep("x = Placeholder() {dtype=float, shape=<?,2>}",
                              {.feeds = {{"x", {6, 2}}}, .fetches = {"x"}});
  ASSERT_TRUE(step.ok()) << step.status();
  Compilation& c = (*step)->c;
  c.fetches[0] = c.scope().WithName("loop").Build(EndlessOps(), "Endless").Input(c.feeds[0]).One();
  const absl::Status status = RunPasses(c, InferAndFold(), PropagateSharding());
  EXPECT_THAT(status, IsError(absl::StatusCode::kInternal, "Endless(loop/Endless/", "decomposition",
                              "terminate"));
}

constexpr char kGradient[] = R"(
x = Placeholder() {dtype=float, shape=<?,2>}
v = VarHandleOp() {dtype=float, shape=<2,2>}
w = ReadVariableOp(v) {dtype=float}
gradient = MatMul(x, x) {T=float, transpose_a=true}
)";

TEST(PropagateShardingTest, WeightDecayIsAddedToReducedGradient) {
  EXPECT_EQ(Sharded(std::string(kGradient) + R"(
decayed = AddV2(gradient, w) {T=float}
write = AssignSubVariableOp(v, decayed) {dtype=float}
)",
                    {.feeds = {{"x", {6, 2}}}, .targets = {"write"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "v = VarHandleOp()\n"
            "w = ReadVariableOp(v) : replicated\n"
            "gradient = MatMul(x, x) : partial(sum)\n"
            "gradient/all_reduce = AllReduce(gradient) : replicated\n"
            "decayed = AddV2(gradient/all_reduce, w) : replicated\n"
            "write = AssignSubVariableOp(v, decayed)\n");
}

TEST(PropagateShardingTest, ReplicatedFactorMultipliesGradientBeforeReduction) {
  EXPECT_EQ(Sharded(std::string(kGradient) + R"(
scaled = Mul(gradient, w) {T=float}
write = AssignSubVariableOp(v, scaled) {dtype=float}
)",
                    {.feeds = {{"x", {6, 2}}}, .targets = {"write"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "v = VarHandleOp()\n"
            "w = ReadVariableOp(v) : replicated\n"
            "gradient = MatMul(x, x) : partial(sum)\n"
            "scaled = Mul(gradient, w) : partial(sum)\n"
            "scaled/all_reduce = AllReduce(scaled) : replicated\n"
            "write = AssignSubVariableOp(v, scaled/all_reduce)\n");
}

TEST(PropagateShardingTest, ProductOfPartialFactorsReducesThemFirst) {
  EXPECT_EQ(Sharded(std::string(kGradient) + "square = Mul(gradient, gradient) {T=float}\n",
                    {.feeds = {{"x", {6, 2}}}, .fetches = {"square"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "gradient = MatMul(x, x) : partial(sum)\n"
            "gradient/all_reduce = AllReduce(gradient) : replicated\n"
            "square = Mul(gradient/all_reduce, gradient/all_reduce) : replicated\n");
}

TEST(PropagateShardingTest, GradientsOfTiedWeightsAreAddedBeforeOneReduction) {
  EXPECT_EQ(Sharded(std::string(kGradient) + R"(
other = MatMul(x, x) {T=float, transpose_a=true}
zero = Const() {dtype=float, value=float<2,2>{0, 0, 0, 0}}
sum = AddN(gradient, other, zero) {N=3, T=float}
write = AssignSubVariableOp(v, sum) {dtype=float}
)",
                    {.feeds = {{"x", {6, 2}}}, .targets = {"write"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "v = VarHandleOp()\n"
            "gradient = MatMul(x, x) : partial(sum)\n"
            "other = MatMul(x, x) : partial(sum)\n"
            "zero = Const() = float<2,2>{0.0, 0.0, 0.0, 0.0} : replicated\n"
            "sum = AddN(gradient, other, zero) : partial(sum)\n"
            "sum/all_reduce = AllReduce(sum) : replicated\n"
            "write = AssignSubVariableOp(v, sum/all_reduce)\n");
}

TEST(PropagateShardingTest, PartialValueNeededWholeIsReducedOnceForAllUses) {
  EXPECT_EQ(Sharded(std::string(kGradient) + R"(
square = Square(gradient) {T=float}
negated = Neg(gradient) {T=float}
)",
                    {.feeds = {{"x", {6, 2}}}, .fetches = {"gradient", "square", "negated"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "gradient = MatMul(x, x) : partial(sum)\n"
            "gradient/all_reduce = AllReduce(gradient) : replicated\n"
            "square = Square(gradient/all_reduce) : replicated\n"
            "negated = Neg(gradient/all_reduce) : replicated\n");
}

TEST(PropagateShardingTest, ReshapeKeepsShardingOfOutermostDimension) {
  EXPECT_EQ(Sharded(R"(
x = Placeholder() {dtype=float, shape=<?,4>}
merged_shape = Const() {dtype=int32, value=int32<1>{24}}
split_shape = Const() {dtype=int32, value=int32<3>{6, 2, 2}}
thirds_shape = Const() {dtype=int32, value=int32<2>{12, 2}}
merged = Reshape(x, merged_shape) {T=float}
split = Reshape(merged, split_shape) {T=float}
thirds = Reshape(merged, thirds_shape) {T=float}
)",
                    {.feeds = {{"x", {6, 4}}}, .fetches = {"split", "thirds"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "merged_shape = Const() = int32<1>{24} : replicated\n"
            "split_shape = Const() = int32<3>{6, 2, 2} : replicated\n"
            "thirds_shape = Const() = int32<2>{12, 2} : replicated\n"
            "merged = Reshape(x, merged_shape) : sharded(a0, dim 0, x4)\n"
            "split = Reshape(merged, split_shape) : sharded(a0, dim 0, x1)\n"
            "thirds = Reshape(merged, thirds_shape) : sharded(a0, dim 0, x2)\n");
}

TEST(PropagateShardingTest, ReshapeAcrossShardBoundariesGathers) {
  EXPECT_EQ(Sharded(R"(
x = Placeholder() {dtype=float, shape=<?,2>}
perm = Const() {dtype=int32, value=int32<2>{1, 0}}
columns = Transpose(x, perm) {T=float}
merged_shape = Const() {dtype=int32, value=int32<1>{12}}
merged = Reshape(columns, merged_shape) {T=float}
wide_shape = Const() {dtype=int32, value=int32<2>{3, 4}}
wide = Reshape(x, wide_shape) {T=float}
)",
                    {.feeds = {{"x", {6, 2}}}, .fetches = {"merged", "wide"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "perm = Const() = int32<2>{1, 0} : replicated\n"
            "columns = Transpose(x, perm) : sharded(a0, dim 1, x1)\n"
            "merged_shape = Const() = int32<1>{12} : replicated\n"
            "wide_shape = Const() = int32<2>{3, 4} : replicated\n"
            "columns/gather/Const = Const() = int32<2>{1, 0} : replicated\n"
            "columns/gather/Transpose = Transpose(columns, columns/gather/Const) : sharded(a0, dim "
            "0, x1)\n"
            "columns/gather/AllGather = AllGather(columns/gather/Transpose) : replicated\n"
            "columns/gather/Const_1 = Const() = int32<2>{1, 0} : replicated\n"
            "columns/gather/Transpose_1 = Transpose(columns/gather/AllGather, "
            "columns/gather/Const_1) : replicated\n"
            "merged = Reshape(columns/gather/Transpose_1, merged_shape) : replicated\n"
            "x/gather/AllGather = AllGather(x) : replicated\n"
            "wide = Reshape(x/gather/AllGather, wide_shape) : replicated\n");
}

TEST(PropagateShardingTest, ConcatenationGathersOnlyAlongShardedDimension) {
  EXPECT_EQ(Sharded(R"(
x = Placeholder() {dtype=float, shape=<?,2>}
zero = Const() {dtype=int32, value=int32<>{0}}
one = Const() {dtype=int32, value=int32<>{1}}
rows = ConcatV2(x, x, zero) {N=2, T=float}
columns = ConcatV2(x, x, one) {N=2, T=float}
)",
                    {.feeds = {{"x", {6, 2}}}, .fetches = {"rows", "columns"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "zero = Const() = int32<>{0} : replicated\n"
            "one = Const() = int32<>{1} : replicated\n"
            "columns = ConcatV2(x, x, one) : sharded(a0, dim 0, x1)\n"
            "x/gather/AllGather = AllGather(x) : replicated\n"
            "rows = ConcatV2(x/gather/AllGather, x/gather/AllGather, zero) : replicated\n");
}

TEST(PropagateShardingTest, GeneratedRowsAreShardedLikeTheirUse) {
  EXPECT_EQ(Sharded(R"(
x = Placeholder() {dtype=float, shape=<?,1024>}
shape = Shape(x) {T=float}
one = Const() {dtype=float, value=float<>{1}}
row = Const() {dtype=float, value=float<1,1>{2}}
noise = RandomUniform(shape) {T=int32, dtype=float}
filled = Fill(shape, one) {T=float}
repeated = BroadcastTo(row, shape) {T=float}
sum = AddN(x, noise, filled, repeated) {N=4, T=float}
)",
                    {.feeds = {{"x", {6, 1024}}}, .fetches = {"sum"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "one = Const() = float<>{1.0} : replicated\n"
            "row = Const() = float<1,1>{2.0} : replicated\n"
            "shape/folded = Const() = int32<2>{6, 1024} : replicated\n"
            "noise = RandomUniform(shape/folded) : sharded(a0, dim 0, x1)\n"
            "filled = Fill(shape/folded, one) : sharded(a0, dim 0, x1)\n"
            "repeated = BroadcastTo(row, shape/folded) : sharded(a0, dim 0, x1)\n"
            "sum = AddN(x, noise, filled, repeated) : sharded(a0, dim 0, x1)\n");
}

TEST(PropagateShardingTest, GeneratedRowsNeededWholeAreReplicated) {
  EXPECT_EQ(Sharded(R"(
x = Placeholder() {dtype=float, shape=<?,2>}
shape = Shape(x) {T=float}
noise = RandomUniform(shape) {T=int32, dtype=float}
sum = AddV2(x, noise) {T=float}
)",
                    {.feeds = {{"x", {6, 2}}}, .fetches = {"sum", "noise"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "shape/folded = Const() = int32<2>{6, 2} : replicated\n"
            "noise = RandomUniform(shape/folded) : replicated\n"
            "noise/share = ShardSlice(noise) : sharded(a0, dim 0, x1)\n"
            "sum = AddV2(x, noise/share) : sharded(a0, dim 0, x1)\n");
}

TEST(PropagateShardingTest, BroadcastDimensionIsGathered) {
  EXPECT_EQ(Sharded(R"(
x = Placeholder() {dtype=float, shape=<?,2>}
y = Placeholder() {dtype=float, shape=<3,2>}
sum = AddV2(x, y) {T=float}
)",
                    {.feeds = {{"x", {1, 2}}, {"y", {3, 2}}}, .fetches = {"sum"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "y = Placeholder() : replicated\n"
            "x/gather/AllGather = AllGather(x) : replicated\n"
            "sum = AddV2(x/gather/AllGather, y) : replicated\n");
}

TEST(PropagateShardingTest, FeedsWithEqualRowCountShareAxisAndOthersAreGathered) {
  EXPECT_EQ(Sharded(R"(
x = Placeholder() {dtype=float, shape=<?,4>}
y = Placeholder() {dtype=float, shape=<?,4>}
z = Placeholder() {dtype=float, shape=<?,4>}
sum = AddV2(x, y) {T=float}
product = MatMul(x, z) {T=float, transpose_b=true}
)",
                    {.feeds = {{"x", {6, 4}}, {"y", {6, 4}}, {"z", {3, 4}}},
                     .fetches = {"sum", "product"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "y = Placeholder() : sharded(a0, dim 0, x1)\n"
            "z = Placeholder() : sharded(a1, dim 0, x1)\n"
            "sum = AddV2(x, y) : sharded(a0, dim 0, x1)\n"
            "z/gather/AllGather = AllGather(z) : replicated\n"
            "product = MatMul(x, z/gather/AllGather) : sharded(a0, dim 0, x1)\n");
}

TEST(PropagateShardingTest, GatherByShardedIndicesIsShardedAndItsGradientPartial) {
  EXPECT_EQ(Sharded(R"(
ids = Placeholder() {dtype=int32, shape=<?>}
v = VarHandleOp() {dtype=float, shape=<5,2>}
table = ReadVariableOp(v) {dtype=float}
axis = Const() {dtype=int32, value=int32<>{0}}
rows = GatherV2(table, ids, axis) {Taxis=int32, Tindices=int32, Tparams=float}
count = Const() {dtype=int32, value=int32<>{5}}
gradient = UnsortedSegmentSum(rows, ids, count) {T=float, Tindices=int32}
)",
                    {.feeds = {{"ids", {6}}}, .fetches = {"rows", "gradient"}}),
            "ids = Placeholder() : sharded(a0, dim 0, x1)\n"
            "v = VarHandleOp()\n"
            "table = ReadVariableOp(v) : replicated\n"
            "axis = Const() = int32<>{0} : replicated\n"
            "rows = GatherV2(table, ids, axis) : sharded(a0, dim 0, x1)\n"
            "count = Const() = int32<>{5} : replicated\n"
            "gradient = UnsortedSegmentSum(rows, ids, count) : partial(sum)\n"
            "gradient/all_reduce = AllReduce(gradient) : replicated\n");
}

TEST(PropagateShardingTest, PerReplicaValueWrittenToMirroredVariableReportsPath) {
  EXPECT_THAT(Shard(R"(
x = Placeholder() {dtype=float, shape=<?>}
v = VarHandleOp() {dtype=int32, shape=<>}
index = ReplicaIndex()
scaled = Neg(index) {T=int32}
write = AssignVariableOp(v, scaled) {dtype=int32}
)",
                    {.feeds = {{"x", {6}}}, .targets = {"write"}})
                  .status(),
              IsError(absl::StatusCode::kInvalidArgument, "mirrored variable",
                      "ReplicaIndex(index) -> Neg(scaled) -> AssignVariableOp(write)"));
}

TEST(PropagateShardingTest, PerReplicaOperandMakesResultPerReplicaAndGathersOthers) {
  EXPECT_EQ(Sharded(R"(
x = Placeholder() {dtype=int32, shape=<?>}
index = ReplicaIndex()
sum = AddV2(x, index) {T=int32}
)",
                    {.feeds = {{"x", {6}}}, .fetches = {"sum"}}),

            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "index = ReplicaIndex() : per-replica\n"
            "x/gather/AllGather = AllGather(x) : replicated\n"
            "sum = AddV2(x/gather/AllGather, index) : per-replica\n");
}

// Returns the step's collectives after fusion and ordering, one per line with their attributes.
std::string Ordered(absl::string_view text, const StepNames& names, int64_t small_bucket_bytes) {
  const auto step = ParseStep(text, names);
  if (!step.ok()) return step.status().ToString();
  Compilation& c = (*step)->c;
  const absl::Status status = RunPasses(c, InferAndFold(), PropagateSharding(), InsertCollectives(),
                                        BucketCollectives(small_bucket_bytes), OrderCollectives());
  if (!status.ok()) return status.ToString();
  std::string text_of_collectives;
  for (const Node* node : c.collectives) {
    text_of_collectives += node->CallString() + " " + AttrMapToString(node->attrs()) + "\n";
  }
  return text_of_collectives;
}

// Partial sums in two dtypes, a maximum, and a sum that depends on another sum.
constexpr char kReductions[] = R"(
x = Placeholder() {dtype=float, shape=<?,2>}
y = Placeholder() {dtype=double, shape=<?,2>}
rows = Const() {dtype=int32, value=int32<1>{0}}
sum = Sum(x, rows) {T=float}
product = MatMul(x, x) {T=float, transpose_a=true}
double_sum = Sum(y, rows) {T=double}
largest = Max(x, rows) {T=float}
square = Square(sum) {T=float}
scaled = Mul(x, square) {T=float}
later = Sum(scaled, rows) {T=float}
)";
StepNames ReductionNames() {
  return {.feeds = {{"x", {6, 2}}, {"y", {6, 2}}},
          .fetches = {"product", "double_sum", "largest", "later"}};
}

TEST(BucketCollectivesTest, JoinsReductionsOfSameKindNeededTogether) {
  EXPECT_EQ(Ordered(kReductions, ReductionNames(), 64),
            "double_sum/all_reduce = AllReduce(double_sum) {N=1, T=double, _sequence=0, "
            "bucket=-1, reduction=\"sum\"}\n"
            "largest/all_reduce = AllReduce(largest) {N=1, T=float, _sequence=1, bucket=-1, "
            "reduction=\"max\"}\n"
            "sum/all_reduce_joined = AllReduce(sum, product) {N=2, T=float, _sequence=2, "
            "bucket=-1, reduction=\"sum\"}\n"
            "later/all_reduce = AllReduce(later) {N=1, T=float, _sequence=3, bucket=-1, "
            "reduction=\"sum\"}\n");
}

TEST(BucketCollectivesTest, StartsNewBucketAtSizeLimit) {
  EXPECT_EQ(Ordered(kReductions, ReductionNames(), 16),
            "sum/all_reduce = AllReduce(sum) {N=1, T=float, _sequence=0, bucket=-1, "
            "reduction=\"sum\"}\n"
            "product/all_reduce = AllReduce(product) {N=1, T=float, _sequence=1, bucket=-1, "
            "reduction=\"sum\"}\n"
            "double_sum/all_reduce = AllReduce(double_sum) {N=1, T=double, _sequence=2, "
            "bucket=-1, reduction=\"sum\"}\n"
            "largest/all_reduce = AllReduce(largest) {N=1, T=float, _sequence=3, bucket=-1, "
            "reduction=\"max\"}\n"
            "later/all_reduce = AllReduce(later) {N=1, T=float, _sequence=4, bucket=-1, "
            "reduction=\"sum\"}\n");
}

// Three updates, in an order that differs from the order in which their gradients are computed.
constexpr char kTraining[] = R"(
x = Placeholder() {dtype=float, shape=<?,4>}
rate = Const() {dtype=float, value=float<>{0.1}}
v1 = VarHandleOp() {dtype=float, shape=<4,4>}
v2 = VarHandleOp() {dtype=float, shape=<4,4>}
v3 = VarHandleOp() {dtype=float, shape=<4>}
rows = Const() {dtype=int32, value=int32<1>{0}}
g3 = Sum(x, rows) {T=float}
g2 = MatMul(x, x) {T=float, transpose_a=true}
y = Neg(x) {T=float}
g1 = MatMul(y, x) {T=float, transpose_a=true}
u1 = ResourceApplyGradientDescent(v1, rate, g1) {T=float}
u2 = ResourceApplyGradientDescent(v2, rate, g2) {T=float}
u3 = ResourceApplyGradientDescent(v3, rate, g3) {T=float}
)";

TEST(BucketCollectivesTest, FillsSessionBucketsInOrderOfGradientReadiness) {
  const StepNames names = {.feeds = {{"x", {6, 4}}}, .targets = {"u1", "u2", "u3"}};
  StepNames small = names;
  small.bucket_bytes = 128;
  EXPECT_EQ(Ordered(kTraining, names, 64),
            "all_reduce/bucket_0 = AllReduce(g3, g2, g1) {N=3, T=float, _sequence=0, bucket=0, "
            "reduction=\"sum\"}\n");
  EXPECT_EQ(Ordered(kTraining, small, 64),
            "all_reduce/bucket_0 = AllReduce(g3, g2) {N=2, T=float, _sequence=0, bucket=0, "
            "reduction=\"sum\"}\n"
            "all_reduce/bucket_1 = AllReduce(g1) {N=1, T=float, _sequence=1, bucket=1, "
            "reduction=\"sum\"}\n");
}

TEST(BucketCollectivesTest, SplitsBucketAtUntrainedVariable) {
  EXPECT_EQ(Ordered(kTraining, {.feeds = {{"x", {6, 4}}}, .targets = {"u1", "u3"}}, 64),
            "all_reduce/bucket_0 = AllReduce(g3) {N=1, T=float, _sequence=0, bucket=0, "
            "reduction=\"sum\"}\n"
            "all_reduce/bucket_0_1 = AllReduce(g1) {N=1, T=float, _sequence=1, bucket=0, "
            "reduction=\"sum\"}\n");
}

TEST(InsertCollectivesTest, OneDeviceGetsNoCollectives) {
  const auto step = ParseStep(kReductions, ReductionNames());
  ASSERT_TRUE(step.ok()) << step.status();
  Compilation& c = (*step)->c;
  c.shard = false;
  ASSERT_TRUE(RunPasses(c, InferAndFold()).ok());
  const std::string before = StepToText(c);
  ASSERT_TRUE(RunPasses(c, PropagateSharding(), InsertCollectives(), BucketCollectives(64)).ok());
  EXPECT_EQ(StepToText(c), before);
}

// Both updates wait for the gate, which is deeper in the graph than their gradients.
TEST(OrderCollectivesTest, UpdatesBehindGateFollowGradientReadiness) {
  const auto step = ParseStep(R"(
v = VarHandleOp() {dtype=float, shape=<2>, shared_name="v"}
w = VarHandleOp() {dtype=float, shape=<2>, shared_name="w"}
x = Placeholder() {dtype=float, shape=<2>}
loss = Placeholder() {dtype=float, shape=<>}
reduced = AllReduce(loss) {N=1, T=float}
gate = IsFinite(reduced) {T=float}
second = Neg(x) {T=float}
first = Neg(second) {T=float}
u1 = ResourceApplyGradientDescent(v, loss, first, gate) {T=float, _gates=1, _reduction="sum"}
u2 = ResourceApplyGradientDescent(w, loss, second, gate) {T=float, _gates=1, _reduction="sum"}
)",
                              {.targets = {"u1", "u2"}});
  ASSERT_TRUE(step.ok()) << step.status();
  Compilation& c = (*step)->c;
  ASSERT_TRUE(RunPasses(c, OrderCollectives()).ok());
  std::string order;
  for (const Node* node : c.collectives) order += node->name() + " ";
  EXPECT_EQ(order, "reduced u2 u1 ");
}

}  // namespace
}  // namespace mirrorflow
