// SPDX-License-Identifier: Apache-2.0
//
// Tests collectives that a graph contains explicitly: their sharding, how they are compiled, and
// their errors.
#include <string>

#include "distribute/passes/count_replicas.h"
#include "distribute/passes/insert_collectives.h"
#include "distribute/passes/propagate_sharding.h"
#include "framework/compiler/passes/infer_and_fold.h"
#include "framework/compiler/row_shards.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/compilation.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

// Returns the step for `replicas` replicas as text, with shardings.
absl::StatusOr<std::string> Compile(const std::string& text, const StepNames& names, int replicas) {
  MF_ASSIGN_OR_RETURN(const auto step, ParseStep(text, names));
  Compilation& c = step->c;
  c.world.size = replicas;
  c.shard = replicas > 1;
  MF_RETURN_IF_ERROR(
      RunPasses(c, CountReplicas(), InferAndFold(), PropagateSharding(), InsertCollectives()));
  return StepToText(c, {.shardings = true});
}

std::string Compiled(const std::string& text, const StepNames& names, int replicas = 2) {
  const absl::StatusOr<std::string> compiled = Compile(text, names, replicas);
  return compiled.ok() ? *compiled : compiled.status().ToString();
}

absl::Status ErrorOf(const std::string& text, const StepNames& names) {
  return Compile(text, names, 2).status();
}

constexpr char kPart[] = R"(
x = Placeholder() {dtype=float, shape=<?,4>}
part = MatMul(x, x) {T=float, transpose_a=true}
)";
const StepNames kFetch = {.feeds = {{"x", {6, 4}}}, .fetches = {"y"}};

TEST(ExplicitCollectives, AllReduceOfPartialValueIsItsReduction) {
  EXPECT_EQ(Compiled(std::string(kPart) + R"(
sum = AllReduce(part) {N=1, T=float}
y = Mul(sum, sum) {T=float}
)",
                     kFetch),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "part = MatMul(x, x) : partial(sum)\n"
            "sum = AllReduce(part) : replicated\n"
            "y = Mul(sum, sum) : replicated\n");
}

// Other ops use the value while it is partial, so only the graph's own collective reduces it.
TEST(ExplicitCollectives, ReducedValueStaysPartialForOtherUses) {
  EXPECT_EQ(Compiled(std::string(kPart) + R"(
sum = AllReduce(part) {N=1, T=float}
product = MatMul(sum, part) {T=float}
lost = Sub(part, product) {T=float}
y = AllReduce(lost) {N=1, T=float}
)",
                     kFetch),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "part = MatMul(x, x) : partial(sum)\n"
            "sum = AllReduce(part) : replicated\n"
            "product = MatMul(sum, part) : partial(sum)\n"
            "lost = Sub(part, product) : partial(sum)\n"
            "y = AllReduce(lost) : replicated\n");
}

TEST(ExplicitCollectives, AnyOpWorksOnLocalPart) {
  EXPECT_EQ(Compiled(std::string(kPart) + R"(
mine = LocalPart(part) {T=float}
square = Mul(mine, mine) {T=float}
narrow = Cast(square) {SrcT=float, DstT=bfloat16}
y = AllReduce(narrow) {N=1, T=bfloat16, reduction="max"}
)",
                     kFetch),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "part = MatMul(x, x) : partial(sum)\n"
            "mine = LocalPart(part) : per-replica\n"
            "square = Mul(mine, mine) : per-replica\n"
            "narrow = Cast(square) : per-replica\n"
            "y = AllReduce(narrow) : replicated\n");
}

// Weight decay in a loss must not cause a reduction of the gradient before the hook's reduction.
TEST(ExplicitCollectives, ReplicatedTermOfPartIsAddedOnFirstReplica) {
  const std::string sum = std::string(kPart) + R"(
v = Placeholder() {dtype=float, shape=<4>}
decay = Neg(v) {T=float}
total = AddV2(part, decay) {T=float}
turned = Neg(total) {T=float}
)";
  const StepNames names = {.feeds = {{"x", {6, 4}}, {"v", {4}}}, .fetches = {"y"}};
  EXPECT_EQ(Compiled(sum + R"(
mine = LocalPart(turned) {T=float}
y = AllReduce(mine) {N=1, T=float}
)",
                     names),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "part = MatMul(x, x) : partial(sum)\n"
            "v = Placeholder() : replicated\n"
            "decay = Neg(v) : replicated\n"
            "decay/part = FirstReplicaOnly(decay) : partial(sum)\n"
            "total = AddV2(part, decay/part) : partial(sum)\n"
            "turned = Neg(total) : partial(sum)\n"
            "mine = LocalPart(turned) : per-replica\n"
            "y = AllReduce(mine) : replicated\n");
  // `part` is reduced first if `total` is also used in another way.
  EXPECT_THAT(Compiled(sum + R"(
mine = LocalPart(turned) {T=float}
all = AllReduce(mine) {N=1, T=float}
y = Mul(all, total) {T=float}
)",
                       names),
              HasSubstr("part/all_reduce = AllReduce(part) : replicated\n"));
}

// The other replicas have zeros; otherwise, the parts would not add up to the value.
TEST(ExplicitCollectives, LocalPartOfReplicatedValueIsOnFirstReplica) {
  EXPECT_EQ(Compiled(R"(
x = Placeholder() {dtype=float, shape=<?,4>}
v = Placeholder() {dtype=float, shape=<4>}
mine = LocalPart(v) {T=float}
again = LocalPart(mine) {T=float}
y = AllReduce(again) {N=1, T=float}
)",
                     {.feeds = {{"x", {6, 4}}, {"v", {4}}}, .fetches = {"x", "y"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "v = Placeholder() : replicated\n"
            "v/part = FirstReplicaOnly(v) : partial(sum)\n"
            "mine = LocalPart(v/part) : per-replica\n"
            "again = LocalPart(mine) : per-replica\n"
            "y = AllReduce(again) : replicated\n");
}

TEST(ExplicitCollectives, LocalPartOfConstantIsOnFirstReplica) {
  EXPECT_THAT(Compiled(R"(
x = Placeholder() {dtype=float, shape=<?,4>}
c = Const() {dtype=float, value=float<>{2}}
mine = LocalPart(c) {T=float}
y = AllReduce(mine) {N=1, T=float}
)",
                       {.feeds = {{"x", {6, 4}}}, .fetches = {"x", "y"}}),
              HasSubstr("c/part = FirstReplicaOnly(c) : partial(sum)\n"
                        "mine = LocalPart(c/part) : per-replica\n"));
}

TEST(ExplicitCollectives, ScatteredRowsAreEqualShardsForAnyFeedRows) {
  EXPECT_EQ(Compiled(std::string(kPart) + R"(
share = ReduceScatter(part) {T=float}
scaled = Neg(share) {T=float}
y = AllGather(scaled) {T=float}
)",
                     kFetch),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "part = MatMul(x, x) : partial(sum)\n"
            "share = ReduceScatter(part) : sharded(a1, dim 0, x2)\n"
            "scaled = Neg(share) : sharded(a1, dim 0, x2)\n"
            "scaled/gather/AllGather = AllGather(scaled) : replicated\n");
  const std::vector<Axis> axes = {{.size = 6}, {.size = 2, .of_replicas = true}};
  EXPECT_EQ(*ShardRows(axes, {6, 0}, 2), (RowShards{{6, 0}, {1, 1}}));
}

TEST(ExplicitCollectives, RowsNotDivisibleByReplicasAreReducedWhole) {
  EXPECT_EQ(Compiled(std::string(kPart) + R"(
share = ReduceScatter(part) {T=float}
y = AllGather(share) {T=float}
)",
                     kFetch, 3),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "part = MatMul(x, x) : partial(sum)\n"
            "share/AllReduce = AllReduce(part) : replicated\n");
}

TEST(ExplicitCollectives, ProductOfScatteredRowsIsPartial) {
  EXPECT_THAT(Compiled(std::string(kPart) + R"(
mine = LocalPart(part) {T=float}
share = ReduceScatter(mine) {T=float}
product = MatMul(share, share) {T=float, transpose_a=true}
y = AllReduce(product) {N=1, T=float}
)",
                       kFetch),
              HasSubstr("share = ReduceScatter(mine) : sharded(a1, dim 0, x2)\n"
                        "product = MatMul(share, share) : partial(sum)\n"
                        "y = AllReduce(product) : replicated\n"));
}

TEST(ExplicitCollectives, ReplicatedValueNeedsNoCollective) {
  EXPECT_EQ(Compiled(R"(
x = Placeholder() {dtype=float, shape=<?,4>}
v = Placeholder() {dtype=float, shape=<4>}
reduced = AllReduce(v) {N=1, T=float}
gathered = AllGather(reduced) {T=float}
equal = EnsureReplicated(gathered) {T=float, what="v"}
y = Neg(equal) {T=float}
)",
                     {.feeds = {{"x", {6, 4}}, {"v", {4}}}, .fetches = {"x", "y"}}),
            "x = Placeholder() : sharded(a0, dim 0, x1)\n"
            "v = Placeholder() : replicated\n"
            "y = Neg(v) : replicated\n");
}

TEST(ExplicitCollectives, OneReplicaGetsIdentities) {
  const StepNames names = {.feeds = {{"x", {6, 4}}}, .fetches = {"y", "n"}};
  EXPECT_EQ(Compiled(std::string(kPart) + R"(
mine = LocalPart(part) {T=float}
sum = AllReduce(mine) {N=1, T=float, reduction="mean"}
share = ReduceScatter(sum) {T=float}
whole = AllGather(share) {T=float}
equal = EnsureReplicated(whole) {T=float, what="part"}
y = Neg(equal) {T=float}
n = NumReplicas()
)",
                     names, 1),
            "x = Placeholder() : replicated\n"
            "part = MatMul(x, x) : replicated\n"
            "y = Neg(part) : replicated\n"
            "n/Const = Const() = int32<>{1} : replicated\n");
}

TEST(ExplicitCollectives, ControlInputsOfRemovedNodeStay) {
  EXPECT_THAT(Compiled(R"(
x = Placeholder() {dtype=float, shape=<?,4>}
v = Placeholder() {dtype=float, shape=<4>}
before = Neg(v) {T=float}
reduced = AllReduce(v, ^before) {N=1, T=float}
y = Neg(reduced) {T=float}
)",
                       {.feeds = {{"x", {6, 4}}, {"v", {4}}}, .fetches = {"x", "y"}}),
              HasSubstr("Identity(v, ^before)"));
}

TEST(ExplicitCollectives, NumReplicasIsConstant) {
  EXPECT_THAT(Compiled(R"(
x = Placeholder() {dtype=float, shape=<?,4>}
n = NumReplicas()
one = Const() {dtype=float, value=float<>{1}}
zero = Const() {dtype=float, value=float<>{0}}
replica = ReplicaIndex()
y = OneHot(replica, n, one, zero) {T=float, TI=int32}
)",
                       {.feeds = {{"x", {6, 4}}}, .fetches = {"x", "y"}}, 3),
              HasSubstr("n/Const = Const() = int32<>{3}"));
}

// ---- Errors ----------------------------------------------------------------------------------

TEST(ExplicitCollectives, OtherReductionOfPartialValueIsReported) {
  EXPECT_THAT(ErrorOf(std::string(kPart) + "y = AllReduce(part) {N=1, T=float, reduction=\"mean\"}",
                      kFetch),
              IsError(kInvalid, "AllReduce(y):", "partial(sum), got mean"));
}

TEST(ExplicitCollectives, GatherOfValueWithoutSplitRowsIsReported) {
  EXPECT_THAT(ErrorOf(std::string(kPart) + "y = AllGather(part) {T=float}", kFetch),
              IsError(kInvalid, "AllGather(y):", "partial(sum): MatMul(part) -> AllGather(y)"));
  EXPECT_THAT(
      ErrorOf(std::string(kPart) + R"(
mine = LocalPart(part) {T=float}
y = AllGather(mine) {T=float}
)",
              kFetch),
      IsError(kInvalid, "AllGather(y):", "got per-replica: LocalPart(mine) -> AllGather(y)"));
}

TEST(ExplicitCollectives, UnequalValueReportsPath) {
  const std::string check = "y = EnsureReplicated(z) {T=float, what=\"the result\"}\n";
  EXPECT_THAT(ErrorOf(std::string(kPart) + "z = Neg(part) {T=float}\n" + check, kFetch),
              IsError(kInvalid, "the result:",
                      "partial(sum): MatMul(part) -> Neg(z) -> EnsureReplicated(y)"));
  EXPECT_THAT(ErrorOf(std::string(kPart) + "z = LocalPart(part) {T=float}\n" + check, kFetch),
              IsError(kInvalid, "the result:", "per-replica: LocalPart(z) -> EnsureReplicated(y)"));
}

TEST(ExplicitCollectives, LocalPartWrittenToMirroredVariableIsRejected) {
  EXPECT_THAT(ErrorOf(std::string(kPart) + R"(
v = VarHandleOp() {dtype=float, shape=<4,4>}
mine = LocalPart(part) {T=float}
write = AssignVariableOp(v, mine) {dtype=float}
)",
                      {.feeds = {{"x", {6, 4}}}, .targets = {"write"}}),
              IsError(kInvalid, "mirrored variable", "LocalPart(mine) -> AssignVariableOp(write)"));
}

}  // namespace
}  // namespace mirrorflow
