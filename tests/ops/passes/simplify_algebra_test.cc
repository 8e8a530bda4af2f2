// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/simplify_algebra.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/compiler/passes/common_subexpressions.h"
#include "framework/compiler/passes/infer_and_fold.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/compilation.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

// Returns the step's text after the pass, which must be idempotent.
std::string Simplified(absl::string_view text, const StepNames& names) {
  const auto step = ParseStep(text, names);
  if (!step.ok()) return step.status().ToString();
  Compilation& c = (*step)->c;
  const absl::Status status = RunPasses(c, InferAndFold(), SimplifyAlgebra());
  if (!status.ok()) return status.ToString();
  const absl::StatusOr<bool> again = SimplifyAlgebra().Run(c);
  EXPECT_TRUE(again.ok() && !*again);
  std::string fetches;
  for (const Output& fetch : c.fetches) absl::StrAppend(&fetches, " ", fetch.ToString());
  return absl::StrCat(StepToText(c), "->", fetches);
}

TEST(SimplifyAlgebraTest, RemovesIdentitiesAndTrivialViews) {
  EXPECT_EQ(Simplified(R"(
x = Placeholder() {dtype=float, shape=<2,3>}
shape = Const() {dtype=int32, value=int32<2>{2, -1}}
a = Identity(x) {T=float}
b = StopGradient(a) {T=float}
c = Reshape(b, shape) {T=float}
d = Squeeze(c) {T=float}
y = Relu(d) {T=float}
)",
                       {.feeds = {{"x", {2, 3}}}, .fetches = {"y", "c"}}),
            "x = Placeholder()\n"
            "y = Relu(x)\n"
            "-> y x");
}

TEST(SimplifyAlgebraTest, RemovesIdentityN) {
  EXPECT_EQ(Simplified(R"(
x = Placeholder() {dtype=float, shape=<2,3>}
a = Tanh(x) {T=float}
both = IdentityN(x, a) {T=[float, float]}
y = Relu(both:1) {T=float}
z = Neg(x, ^both) {T=float}
)",
                       {.feeds = {{"x", {2, 3}}}, .fetches = {"both", "y", "z"}}),
            "x = Placeholder()\n"
            "a = Tanh(x)\n"
            "y = Relu(a)\n"
            "both_1 = NoOp(^x, ^a)\n"
            "z = Neg(x, ^both_1)\n"
            "-> x y z");
}

TEST(SimplifyAlgebraTest, RemovesIdentitiesOfHandlesAndReads) {
  EXPECT_EQ(Simplified(R"(
v = VarHandleOp() {dtype=float, shape=<2>}
handle = Identity(v) {T=resource}
read = ReadVariableOp(handle) {dtype=float}
y = Identity(read) {T=float}
)",
                       {.fetches = {"y"}}),
            "v = VarHandleOp()\n"
            "read = ReadVariableOp(v)\n"
            "-> read");
}

TEST(SimplifyAlgebraTest, MergesConsecutiveViews) {
  EXPECT_EQ(Simplified(R"(
x = Placeholder() {dtype=float, shape=<2,6>}
flat = Const() {dtype=int32, value=int32<1>{12}}
first = Const() {dtype=int32, value=int32<>{0}}
thirds = Const() {dtype=int32, value=int32<2>{3, 4}}
halves = Const() {dtype=int32, value=int32<2>{2, 6}}
a = Reshape(x, flat) {T=float}
b = ExpandDims(a, first) {T=float}
c = Reshape(b, thirds) {T=float}
d = Reshape(c, halves) {T=float}
y = Relu(c) {T=float}
z = Relu(d) {T=float}
)",
                       {.feeds = {{"x", {2, 6}}}, .fetches = {"y", "z"}}),
            "x = Placeholder()\n"
            "z = Relu(x)\n"
            "c_1 = Const() = int64<2>{3, 4}\n"
            "c_2 = Reshape(x, c_1)\n"
            "y = Relu(c_2)\n"
            "-> y z");
}

TEST(SimplifyAlgebraTest, MergesTransposesAndRemovesTrivialOnes) {
  EXPECT_EQ(Simplified(R"(
x = Placeholder() {dtype=float, shape=<2,3,4>}
turn = Const() {dtype=int32, value=int32<3>{1, 2, 0}}
back = Const() {dtype=int32, value=int32<3>{2, 0, 1}}
stay = Const() {dtype=int32, value=int32<3>{0, 1, 2}}
once = Transpose(x, turn) {T=float}
twice = Transpose(once, turn) {T=float}
thrice = Transpose(twice, turn) {T=float}
there_and_back = Transpose(once, back) {T=float}
stays = Transpose(x, stay) {T=float}
)",
                       {.feeds = {{"x", {2, 3, 4}}},
                        .fetches = {"once", "twice", "thrice", "there_and_back", "stays"}}),
            "x = Placeholder()\n"
            "turn = Const() = int32<3>{1, 2, 0}\n"
            "once = Transpose(x, turn)\n"
            "twice/perm = Const() = int32<3>{2, 0, 1}\n"
            "twice_1 = Transpose(x, twice/perm)\n"
            "-> once twice_1 x x x");
}

TEST(SimplifyAlgebraTest, RemovesOnlyCastsToSameDtype) {
  EXPECT_EQ(Simplified(R"(
x = Placeholder() {dtype=float, shape=<2>}
same = Cast(x) {DstT=float, SrcT=float}
wide = Cast(x) {DstT=double, SrcT=float}
narrow = Cast(wide) {DstT=float, SrcT=double}
)",
                       {.feeds = {{"x", {2}}}, .fetches = {"same", "wide", "narrow"}}),
            "x = Placeholder()\n"
            "wide = Cast(x)\n"
            "narrow = Cast(wide)\n"
            "-> x wide narrow");
}

TEST(SimplifyAlgebraTest, RemovesDoubleNegationButKeepsFetchedOne) {
  EXPECT_EQ(Simplified(R"(
x = Placeholder() {dtype=float, shape=<2>}
a = Neg(x) {T=float}
b = Neg(a) {T=float}
c = Neg(b) {T=float}
)",
                       {.feeds = {{"x", {2}}}, .fetches = {"a", "b", "c"}}),
            "x = Placeholder()\n"
            "a = Neg(x)\n"
            "c = Neg(x)\n"
            "-> a x c");
}

TEST(SimplifyAlgebraTest, RemovesReductionsOverNoDimensions) {
  EXPECT_EQ(Simplified(R"(
x = Placeholder() {dtype=float, shape=<1,3>}
none = Const() {dtype=int32, value=int32<0>{}}
first = Const() {dtype=int32, value=int32<1>{0}}
sum = Sum(x, none) {T=float}
mean = Mean(x, none) {T=float, keep_dims=true}
of_one = Sum(x, first) {T=float}
)",
                       {.feeds = {{"x", {1, 3}}}, .fetches = {"sum", "mean", "of_one"}}),
            "x = Placeholder()\n"
            "first = Const() = int32<1>{0}\n"
            "of_one = Sum(x, first)\n"
            "-> x x of_one");
}

// Whether the pass replaces `op` applied to x and `number` with x.
struct NeutralRow {
  const char* op;
  const char* dtype;
  const char* number;
  bool left;  // if true, the number is the left operand
  bool dropped;
};

TEST(SimplifyAlgebraTest, RemovesBitwiseNeutralOperands) {
  constexpr NeutralRow kRows[] = {
      {"AddV2", "float", "-0", false, true},   {"AddV2", "float", "-0", true, true},
      {"AddV2", "float", "0", false, false},  // -0 + 0 is 0, not -0
      {"AddV2", "int32", "0", false, true},    {"Add", "int64", "0", true, true},
      {"Add", "float", "1", false, false},     {"Sub", "float", "0", false, true},
      {"Sub", "float", "0", true, false},      {"Sub", "float", "-0", false, false},
      {"Sub", "uint8", "0", false, true},      {"Mul", "float", "1", false, true},
      {"Mul", "double", "1", true, true},      {"Mul", "float", "-1", false, false},
      {"Mul", "float", "0", false, false},  // NaN * 0 is NaN, not 0
      {"Mul", "int32", "1", true, true},       {"Div", "int32", "1", false, true},
      {"Div", "float", "1", true, false},      {"RealDiv", "double", "1", false, true},
      {"DivNoNan", "float", "1", false, true}, {"FloorDiv", "float", "1", false, false},
      {"Pow", "float", "1", false, false},
  };
  for (const NeutralRow& row : kRows) {
    const std::string text = absl::StrCat("x = Placeholder() {dtype=", row.dtype, ", shape=<2>}\n",
                                          "n = Const() {dtype=", row.dtype, ", value=", row.dtype,
                                          "<>{", row.number, "}}\n", "y = ", row.op,
                                          row.left ? "(n, x)" : "(x, n)", " {T=", row.dtype, "}\n");
    const std::string after = Simplified(text, {.feeds = {{"x", {2}}}, .fetches = {"y"}});
    const bool dropped = after == "x = Placeholder()\n-> x";
    EXPECT_EQ(dropped, row.dropped) << text << after;
  }
}

TEST(SimplifyAlgebraTest, KeepsOperandThatBroadcastsTheOther) {
  EXPECT_EQ(Simplified(R"(
x = Placeholder() {dtype=float, shape=<2>}
ones = Const() {dtype=float, value=float<2,2>{1, 1, 1, 1}}
mixed = Const() {dtype=float, value=float<2>{1, 2}}
wide = Mul(x, ones) {T=float}
some = Mul(x, mixed) {T=float}
)",
                       {.feeds = {{"x", {2}}}, .fetches = {"wide", "some"}}),
            "x = Placeholder()\n"
            "ones = Const() = float<2,2>{1.0, 1.0, 1.0, 1.0}\n"
            "mixed = Const() = float<2>{1.0, 2.0}\n"
            "wide = Mul(x, ones)\n"
            "some = Mul(x, mixed)\n"
            "-> wide some");
}

TEST(SimplifyAlgebraTest, KeepsNodesOrderedByControlEdges) {
  EXPECT_EQ(Simplified(R"(
x = Placeholder() {dtype=float, shape=<2>}
event = NoOp()
a = Identity(x, ^event) {T=float}
b = Neg(x, ^event) {T=float}
c = Neg(b) {T=float}
after = NoOp(^d)
d = Identity(x) {T=float}
)",
                       {.feeds = {{"x", {2}}}, .fetches = {"a", "c"}, .targets = {"after"}}),
            "x = Placeholder()\n"
            "event = NoOp()\n"
            "a = Identity(x, ^event)\n"
            "b = Neg(x, ^event)\n"
            "c = Neg(b)\n"
            "after = NoOp(^x)\n"
            "-> a c");
}

TEST(SimplifyAlgebraTest, BecomesStableTogetherWithCommonSubexpressions) {
  const auto step = ParseStep(R"(
x = Placeholder() {dtype=float, shape=<2,3>}
flat = Const() {dtype=int32, value=int32<1>{6}}
whole = Const() {dtype=int32, value=int32<2>{2, 3}}
a = Reshape(x, flat) {T=float}
b = Reshape(a, whole) {T=float}
c = Relu(b) {T=float}
d = Relu(x) {T=float}
e = Neg(c) {T=float}
f = Neg(e) {T=float}
y = Sub(f, d) {T=float}
)",
                              {.feeds = {{"x", {2, 3}}}, .fetches = {"y"}});
  ASSERT_TRUE(step.ok()) << step.status();
  Compilation& c = (*step)->c;
  Pipeline pipeline;
  c.facts = kPruned | kBodiesMade | kListsLowered;
  pipeline.Add<InferAndFold>();
  pipeline.AddUntilStable<SimplifyAlgebra, CommonSubexpressions>(4);
  ASSERT_TRUE(pipeline.Run(c).ok());
  EXPECT_EQ(StepToText(c),
            "x = Placeholder()\n"
            "c = Relu(x)\n"
            "y = Sub(c, c)\n");
}

// Compares the results of every rule on special values with those without the pass.
TEST(SimplifyAlgebraTest, KeepsBitsOfNaNsInfinitiesZerosAndDenormals) {
  using Limits = std::numeric_limits<float>;
  const Tensor x = Tensor::Of<float>(
      {2, 4}, {0.0f, -0.0f, Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::infinity(),
               -Limits::infinity(), Limits::denorm_min(), -Limits::max()});
  Graph graph;
  const Scope s(&graph);
  const Output in = ops::Placeholder(s, DT_FLOAT, {2, 4});
  const Output zero = ops::ScalarConst(s, DT_FLOAT, 0), one = ops::ScalarConst(s, DT_FLOAT, 1);
  const Output minus_zero = ops::Const(s, Tensor::Scalar<float>(-0.0f));
  const std::vector<Output> outputs = {
      ops::AddV2(s, in, zero),
      ops::AddV2(s, minus_zero, in),
      ops::Sub(s, in, zero),
      ops::Sub(s, in, minus_zero),
      ops::Mul(s, one, in),
      ops::Mul(s, in, zero),
      ops::Div(s, in, one),
      ops::RealDiv(s, in, one),
      ops::DivNoNan(s, in, one),
      ops::Neg(s, ops::Neg(s, in)),
      ops::Transpose(s, ops::Transpose(s, in, {1, 0}), {1, 0}),
      ops::Cast(s, in, DT_FLOAT),
      ops::Reshape(s, ops::Reshape(s, in, Shape({8})), Shape({4, 2})),
  };
  std::vector<Tensor> values[2];
  for (const bool without : {false, true}) {
    TestSessionOptions options;
    if (without) options.session.compile.disabled_passes = {"simplify_algebra"};
    const auto session = CreateTestSession(graph, options);
    ASSERT_TRUE(session.ok()) << session.status();
    const auto run = (*session)->Run({{in, x}}, outputs);
    ASSERT_TRUE(run.ok()) << run.status();
    values[without] = *run;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_TRUE(Tensor::Identical(values[0][i], values[1][i])) << outputs[i].node->DebugString();
  }
}

}  // namespace
}  // namespace mirrorflow
