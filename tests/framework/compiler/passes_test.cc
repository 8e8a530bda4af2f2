// SPDX-License-Identifier: Apache-2.0
//
// Tests the passes that do not depend on particular ops: compares a step's text before and after
// each pass.
#include <string>

#include "framework/compiler/passes/common_subexpressions.h"
#include "framework/compiler/passes/drop_reader_edges.h"
#include "framework/compiler/passes/infer_and_fold.h"
#include "framework/compiler/passes/order_variables.h"
#include "framework/compiler/passes/prune.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/compilation.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

// Returns the step's text after the passes.
template <typename... P>
std::string After(absl::string_view text, const StepNames& names) {
  const auto step = ParseStep(text, names);
  if (!step.ok()) return step.status().ToString();
  const absl::Status status = RunPasses((*step)->c, P()...);
  if (!status.ok()) return status.ToString();
  const std::string once = StepToText((*step)->c);
  // Running the passes twice must change nothing, because they are idempotent.
  const absl::Status again = RunPasses((*step)->c, P()...);
  EXPECT_TRUE(again.ok()) << again;
  EXPECT_EQ(StepToText((*step)->c), once);
  return once;
}

absl::Status InferenceError(absl::string_view text, const StepNames& names) {
  MF_ASSIGN_OR_RETURN(const auto step, ParseStep(text, names));
  return RunPasses(step->c, InferAndFold());
}

TEST(PruneTest, KeepsFeedsAndNodesThatFetchesAndTargetsNeed) {
  EXPECT_EQ(
      After<Prune>(
          R"(
x = Placeholder() {dtype=float, shape=<?>}
unused_feed = Placeholder() {dtype=float, shape=<?>}
unused = Relu(x) {T=float}
y = Neg(x) {T=float}
v = VarHandleOp() {dtype=float, shape=<2>}
before = NoOp()
write = AssignVariableOp(v, x, ^before) {dtype=float}
other_write = AssignVariableOp(v, y) {dtype=float}
)",
          {.feeds = {{"x", {2}}, {"unused_feed", {2}}}, .fetches = {"y"}, .targets = {"write"}}),
      "x = Placeholder()\n"
      "unused_feed = Placeholder()\n"
      "y = Neg(x)\n"
      "v = VarHandleOp()\n"
      "before = NoOp()\n"
      "write = AssignVariableOp(v, x, ^before)\n");
}

TEST(PruneTest, ReplacesFedNodeWithPlaceholder) {
  EXPECT_EQ(After<Prune>(R"(
x = Placeholder() {dtype=float, shape=<?>}
hidden = Relu(x) {T=float}
y = Neg(hidden) {T=float}
)",
                         {.feeds = {{"hidden", {2}}}, .fetches = {"y", "hidden"}}),
            "hidden/fed = Placeholder()\n"
            "y = Neg(hidden/fed)\n");
}

constexpr char kShapeArithmetic[] = R"(
x = Placeholder() {dtype=float, shape=<?,2,3>}
shape = Shape(x) {T=float}
zero = Const() {dtype=int32, value=int32<1>{0}}
one = Const() {dtype=int32, value=int32<1>{1}}
rows = StridedSlice(shape, zero, one, one) {Index=int32, T=int32, shrink_axis_mask=1}
columns = Const() {dtype=int32, value=int32<>{-1}}
target = Pack(rows, columns) {N=2, T=int32}
y = Reshape(x, target) {T=float}
)";

TEST(InferAndFoldTest, FoldsShapeArithmeticForFedShape) {
  EXPECT_EQ(After<InferAndFold>(kShapeArithmetic, {.feeds = {{"x", {5, 2, 3}}}, .fetches = {"y"}}),
            "x = Placeholder()\n"
            "target/folded = Const() = int32<2>{5, -1}\n"
            "y = Reshape(x, target/folded)\n");
}

TEST(InferAndFoldTest, DoesNotFoldRandomOpsOrLargeResults) {
  EXPECT_EQ(After<InferAndFold>(R"(
small = Const() {dtype=int32, value=int32<1>{4}}
large = Const() {dtype=int32, value=int32<1>{4000}}
one = Const() {dtype=float, value=float<>{1}}
random = RandomUniform(small) {T=int32, dtype=float}
folded = Fill(small, one) {T=float}
kept = Fill(large, one) {T=float}
)",
                                {.fetches = {"random", "folded", "kept"}}),
            "small = Const() = int32<1>{4}\n"
            "large = Const() = int32<1>{4000}\n"
            "one = Const() = float<>{1.0}\n"
            "random = RandomUniform(small)\n"
            "kept = Fill(large, one)\n"
            "folded/folded = Const() = float<4>{1.0, 1.0, 1.0, 1.0}\n");
}

TEST(InferAndFoldTest, FoldsOnesLikeFromShapeAlone) {
  EXPECT_EQ(After<InferAndFold>(R"(
x = Placeholder() {dtype=float, shape=<>}
y = Exp(x) {T=float}
ones = OnesLike(y) {T=float}
z = Neg(ones) {T=float}
)",
                                {.feeds = {{"x", {}}}, .fetches = {"z"}}),
            "x = Placeholder()\n"
            "z/folded = Const() = float<>{-1.0}\n");
}

TEST(InferAndFoldTest, FoldedConstantKeepsControlInputs) {
  EXPECT_EQ(After<InferAndFold>(R"(
v = VarHandleOp() {dtype=float, shape=<>}
one = Const() {dtype=float, value=float<>{1}}
write = AssignVariableOp(v, one) {dtype=float}
minus_one = Neg(one, ^write) {T=float}
y = ReadVariableOp(v, ^minus_one) {dtype=float}
)",
                                {.fetches = {"y", "minus_one"}}),
            "v = VarHandleOp()\n"
            "one = Const() = float<>{1.0}\n"
            "write = AssignVariableOp(v, one)\n"
            "y = ReadVariableOp(v, ^write)\n"
            "minus_one/folded = Const(^write) = float<>{-1.0}\n");
}

TEST(InferAndFoldTest, RejectsDataDependentShapes) {
  EXPECT_THAT(
      InferenceError(R"(
x = Placeholder() {dtype=float, shape=<?>}
shape = Placeholder() {dtype=int32, shape=<1>}
y = Reshape(x, shape) {T=float}
)",
                     {.feeds = {{"x", {6}}, {"shape", {1}}}, .fetches = {"y"}}),
      IsError(absl::StatusCode::kUnimplemented, "Reshape(y): input 1 (shape)", "must be known"));
}

TEST(InferAndFoldTest, RejectsMissingFeedAndFeedOfWrongShape) {
  EXPECT_THAT(InferenceError(kShapeArithmetic, {.fetches = {"y"}}),
              IsError(absl::StatusCode::kInvalidArgument, "Placeholder(x):", "not fed"));
  EXPECT_THAT(InferenceError(kShapeArithmetic, {.feeds = {{"x", {5, 2}}}, .fetches = {"y"}}),
              IsError(absl::StatusCode::kInvalidArgument, "feed x:", "[?,2,3], got [5,2]"));
}

TEST(CommonSubexpressionsTest, MergesNodesThatComputeSameValue) {
  EXPECT_EQ(
      After<CommonSubexpressions>(R"(
x = Placeholder() {dtype=float, shape=<2>}
y = Placeholder() {dtype=float, shape=<2>}
a = AddV2(x, y) {T=float}
b = AddV2(y, x) {T=float}
c = Relu(a) {T=float}
d = Relu(b) {T=float}
e = Sub(x, y) {T=float}
f = Sub(y, x) {T=float}
sum = AddN(c, d, e, f) {N=4, T=float}
)",
                                  {.feeds = {{"x", {2}}, {"y", {2}}}, .fetches = {"sum", "d"}}),
      "x = Placeholder()\n"
      "y = Placeholder()\n"
      "a = AddV2(x, y)\n"
      "c = Relu(a)\n"
      "e = Sub(x, y)\n"
      "f = Sub(y, x)\n"
      "sum = AddN(c, c, e, f)\n");
}

TEST(CommonSubexpressionsTest, DoesNotMergeNodesWithDifferentAttributesControlsOrRandomNumbers) {
  EXPECT_EQ(
      After<CommonSubexpressions>(R"(
x = Placeholder() {dtype=float, shape=<2,2>}
shape = Const() {dtype=int32, value=int32<1>{2}}
a = MatMul(x, x) {T=float}
b = MatMul(x, x) {T=float, transpose_b=true}
event = NoOp()
c = MatMul(x, x, ^event) {T=float}
r = RandomUniform(shape) {T=int32, dtype=float}
s = RandomUniform(shape) {T=int32, dtype=float}
)",
                                  {.feeds = {{"x", {2, 2}}}, .fetches = {"a", "b", "c", "r", "s"}}),
      "x = Placeholder()\n"
      "shape = Const() = int32<1>{2}\n"
      "a = MatMul(x, x)\n"
      "b = MatMul(x, x)\n"
      "event = NoOp()\n"
      "c = MatMul(x, x, ^event)\n"
      "r = RandomUniform(shape)\n"
      "s = RandomUniform(shape)\n");
}

TEST(CommonSubexpressionsTest, DoesNotMergeReadsIfHandleCarriesOrder) {
  EXPECT_EQ(After<CommonSubexpressions>(R"(
v = VarHandleOp() {dtype=float, shape=<>, shared_name="v"}
one = Const() {dtype=float, value=float<>{1}}
before = ReadVariableOp(v) {dtype=float}
write = AssignVariableOp(v, one) {dtype=float}
same_v = Identity(v, ^write) {T=resource}
after = ReadVariableOp(same_v) {dtype=float}
)",
                                        {.fetches = {"before", "after"}}),
            "v = VarHandleOp()\n"
            "one = Const() = float<>{1.0}\n"
            "before = ReadVariableOp(v)\n"
            "write = AssignVariableOp(v, one)\n"
            "same_v = Identity(v, ^write)\n"
            "after = ReadVariableOp(same_v)\n");
}

TEST(CommonSubexpressionsTest, MergesReadsBetweenSameWrites) {
  EXPECT_EQ(After<CommonSubexpressions>(R"(
v = VarHandleOp() {dtype=float, shape=<>, shared_name="v"}
also_v = VarHandleOp() {dtype=float, shape=<>, shared_name="v"}
one = Const() {dtype=float, value=float<>{1}}
before = ReadVariableOp(v) {dtype=float}
also_before = ReadVariableOp(also_v) {dtype=float}
write = AssignAddVariableOp(v, one) {dtype=float}
same_write = AssignAddVariableOp(v, one) {dtype=float}
after = ReadVariableOp(v, ^write) {dtype=float}
)",
                                        {.fetches = {"before", "also_before", "after"},
                                         .targets = {"write", "same_write"}}),
            "v = VarHandleOp()\n"
            "one = Const() = float<>{1.0}\n"
            "before = ReadVariableOp(v)\n"
            "write = AssignAddVariableOp(v, one)\n"
            "same_write = AssignAddVariableOp(v, one)\n"
            "after = ReadVariableOp(v, ^write)\n");
}

TEST(OrderVariablesTest, OrdersUsersOfReadBeforeWrite) {
  EXPECT_EQ(After<OrderVariables>(R"(
v = VarHandleOp() {dtype=float, shape=<2>}
shape = Const() {dtype=int32, value=int32<2>{1, 2}}
read = ReadVariableOp(v) {dtype=float}
view = Reshape(read, shape) {T=float}
user = Neg(view) {T=float}
one = Const() {dtype=float, value=float<2>{1, 1}}
write = AssignVariableOp(v, one) {dtype=float}
)",
                                  {.fetches = {"user"}, .targets = {"write"}}),
            "v = VarHandleOp()\n"
            "shape = Const() = int32<2>{1, 2}\n"
            "read = ReadVariableOp(v)\n"
            "view = Reshape(read, shape)\n"
            "user = Neg(view)\n"
            "one = Const() = float<2>{1.0, 1.0}\n"
            "write = AssignVariableOp(v, one, ^view, ^user)\n");
}

TEST(OrderVariablesTest, CopiesReadFetchedOrUsedAfterWrite) {
  const auto step =
      ParseStep(R"(
v = VarHandleOp() {dtype=float, shape=<2>}
w = VarHandleOp() {dtype=float, shape=<2>}
fetched = ReadVariableOp(v) {dtype=float}
used_late = ReadVariableOp(w) {dtype=float}
one = Const() {dtype=float, value=float<2>{1, 1}}
write_v = AssignVariableOp(v, one) {dtype=float}
write_w = AssignVariableOp(w, one) {dtype=float}
late = Neg(used_late, ^write_w) {T=float}
seen_after = ReadVariableOp(w, ^write_w) {dtype=float}
)",
                {.fetches = {"fetched", "late", "seen_after"}, .targets = {"write_v"}});
  ASSERT_TRUE(step.ok()) << step.status();
  Compilation& c = (*step)->c;
  ASSERT_TRUE(RunPasses(c, OrderVariables()).ok());
  EXPECT_EQ(StepToText(c),
            "v = VarHandleOp()\n"
            "w = VarHandleOp()\n"
            "fetched = ReadVariableOp(v)\n"
            "used_late = ReadVariableOp(w)\n"
            "one = Const() = float<2>{1.0, 1.0}\n"
            "write_v = AssignVariableOp(v, one, ^fetched)\n"
            "write_w = AssignVariableOp(w, one, ^used_late)\n"
            "late = Neg(used_late, ^write_w)\n"
            "seen_after = ReadVariableOp(w, ^write_w)\n");
  EXPECT_TRUE(c.graph.FindNode("fetched")->has_attr(kCopyAttr));
  EXPECT_TRUE(c.graph.FindNode("used_late")->has_attr(kCopyAttr));
  EXPECT_FALSE(c.graph.FindNode("seen_after")->has_attr(kCopyAttr));
}

TEST(OrderVariablesTest, RunsUnorderedWritesInOrderOfCreation) {
  EXPECT_EQ(After<OrderVariables>(R"(
v = VarHandleOp() {dtype=float, shape=<>}
w = VarHandleOp() {dtype=float, shape=<>}
one = Const() {dtype=float, value=float<>{1}}
first = AssignAddVariableOp(v, one) {dtype=float}
second = AssignAddVariableOp(v, one) {dtype=float}
of_another = AssignAddVariableOp(w, one) {dtype=float}
third = AssignAddVariableOp(v, one) {dtype=float}
)",
                                  {.targets = {"third", "second", "of_another", "first"}}),
            "v = VarHandleOp()\n"
            "w = VarHandleOp()\n"
            "one = Const() = float<>{1.0}\n"
            "first = AssignAddVariableOp(v, one)\n"
            "second = AssignAddVariableOp(v, one, ^first)\n"
            "of_another = AssignAddVariableOp(w, one)\n"
            "third = AssignAddVariableOp(v, one, ^first, ^second)\n");
}

TEST(DropReaderEdgesTest, RemovesEdgesOfReadersAndKeepsOrderOfWrites) {
  const auto step = ParseStep(R"(
v = VarHandleOp() {dtype=float, shape=<2>}
x = Placeholder() {dtype=float, shape=<2>}
asked = Neg(x) {T=float}
read = ReadVariableOp(v) {dtype=float}
user = Neg(read) {T=float}
first = AssignAddVariableOp(v, x, ^asked) {dtype=float}
second = AssignVariableOp(v, x) {dtype=float}
)",
                              {.fetches = {"user"}, .targets = {"first", "second"}});
  ASSERT_TRUE(step.ok()) << step.status();
  Compilation& c = (*step)->c;
  const std::string unordered = StepToText(c);
  ASSERT_TRUE(RunPasses(c, OrderVariables()).ok());
  const std::string ordered = StepToText(c);
  EXPECT_EQ(ordered,
            "v = VarHandleOp()\n"
            "x = Placeholder()\n"
            "asked = Neg(x)\n"
            "read = ReadVariableOp(v)\n"
            "user = Neg(read)\n"
            "first = AssignAddVariableOp(v, x, ^asked, ^user)\n"
            "second = AssignVariableOp(v, x, ^first, ^user)\n");
  ASSERT_TRUE(RunPasses(c, DropReaderEdges()).ok());
  EXPECT_EQ(StepToText(c),
            "v = VarHandleOp()\n"
            "x = Placeholder()\n"
            "asked = Neg(x)\n"
            "read = ReadVariableOp(v)\n"
            "user = Neg(read)\n"
            "first = AssignAddVariableOp(v, x, ^asked)\n"
            "second = AssignVariableOp(v, x, ^first)\n");
  ASSERT_TRUE(RunPasses(c, OrderVariables()).ok());
  EXPECT_EQ(StepToText(c), ordered);
}

// The replacement takes the original's position among the collectives and among the writes.
TEST(DropReaderEdgesTest, ReplacementTakesPositionOfOriginal) {
  const auto step = ParseStep(R"(
v = VarHandleOp() {dtype=float, shape=<2>}
rate = Placeholder() {dtype=float, shape=<>}
x = Placeholder() {dtype=float, shape=<2>}
read = ReadVariableOp(v) {dtype=float}
user = Neg(read) {T=float}
update = ResourceApplyGradientDescent(v, rate, x) {T=float, _reduction="sum"}
write = AssignAddVariableOp(v, x) {dtype=float}
)",
                              {.fetches = {"user"}, .targets = {"update", "write"}});
  ASSERT_TRUE(step.ok()) << step.status();
  Compilation& c = (*step)->c;
  Node* const update = c.graph.FindNode("update");
  c.collectives = {update};
  ASSERT_TRUE(RunPasses(c, OrderVariables()).ok());
  const auto other = c.graph.AddNode(
      "other", update->op(), update->attrs(), {update->inputs().begin(), update->inputs().end()},
      {update->control_inputs().begin(), update->control_inputs().end()});
  ASSERT_TRUE(other.ok()) << other.status();
  c.ReplaceOperation(update, *other);
  c.graph.RemoveNode(update);
  EXPECT_EQ(c.collectives, std::vector<Node*>{*other});
  ASSERT_TRUE(RunPasses(c, DropReaderEdges(), OrderVariables()).ok());
  EXPECT_EQ(StepToText(c),
            "v = VarHandleOp()\n"
            "rate = Placeholder()\n"
            "x = Placeholder()\n"
            "read = ReadVariableOp(v)\n"
            "user = Neg(read)\n"
            "other = ResourceApplyGradientDescent(v, rate, x, ^user)\n"
            "write = AssignAddVariableOp(v, x, ^other, ^user)\n");
}

// In the second half of the compiler, the collectives are ordered: `early` precedes `late`, so
// `user` cannot run before `write`.
TEST(OrderVariablesTest, CopiesReadWhoseUserFollowsWriteInCollectiveOrder) {
  const auto step = ParseStep(R"(
v = VarHandleOp() {dtype=float, shape=<2>}
x = Placeholder() {dtype=float, shape=<2>}
write = AssignVariableOp(v, x) {dtype=float}
early = AllReduce(x, ^write) {N=1, T=float}
late = AllReduce(x) {N=1, T=float}
read = ReadVariableOp(v) {dtype=float}
user = Mul(read, late) {T=float}
)",
                              {.fetches = {"user", "early"}});
  ASSERT_TRUE(step.ok()) << step.status();
  Compilation& c = (*step)->c;
  for (const char* name : {"early", "late"}) c.collectives.push_back(c.graph.FindNode(name));
  ASSERT_TRUE(RunPasses(c, OrderVariables()).ok());
  EXPECT_TRUE(c.graph.FindNode("read")->has_attr(kCopyAttr));
  EXPECT_EQ(c.graph.FindNode("write")->CallString(), "write = AssignVariableOp(v, x, ^read)");
}

}  // namespace
}  // namespace mirrorflow
