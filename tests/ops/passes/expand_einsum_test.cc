// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/expand_einsum.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/compiler/passes/infer_and_fold.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/ops.h"
#include "tests/support/compilation.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What the pass makes of an Einsum of operands of these shapes; or the error.
std::string Expanded(const char* equation, const Shape& a, const Shape& b) {
  const std::string text =
      absl::StrCat("a = Placeholder() {dtype=float, shape=<", absl::StrJoin(a.dims(), ","),
                   ">}\nb = Placeholder() {dtype=float, shape=<", absl::StrJoin(b.dims(), ","),
                   ">}\ny = Einsum(a, b) {N=2, T=float, equation=\"", equation, "\"}\n");
  const auto step = ParseStep(text, {.feeds = {{"a", a}, {"b", b}}, .fetches = {"y"}});
  if (!step.ok()) return step.status().ToString();
  const absl::Status status = RunPasses((*step)->c, InferAndFold(), ExpandEinsum());
  if (!status.ok()) return std::string(status.message());
  const absl::StatusOr<bool> again = ExpandEinsum().Run((*step)->c);
  EXPECT_TRUE(again.ok() && !*again);
  return StepToText((*step)->c);
}

TEST(ExpandEinsumTest, TakesAProductAsItIs) {
  EXPECT_EQ(Expanded("ij,jk->ik", {2, 3}, {3, 4}),
            "a = Placeholder()\n"
            "b = Placeholder()\n"
            "y/BatchMatMulV2 = BatchMatMulV2(a, b)\n");
}

TEST(ExpandEinsumTest, TakesATransposedOperandWhereItLies) {
  const std::string text = Expanded("bji,bkj->bik", {5, 3, 2}, {5, 4, 3});
  EXPECT_THAT(text, HasSubstr("BatchMatMulV2(a, b)"));
  EXPECT_THAT(text, Not(HasSubstr("Transpose")));
}

TEST(ExpandEinsumTest, MakesOneDimensionOfSeveral) {
  // The projection of a head of attention.
  const std::string text = Expanded("abc,cde->abde", {2, 3, 4}, {4, 2, 3});
  EXPECT_THAT(text, HasSubstr("Reshape(a, "));
  EXPECT_THAT(text, HasSubstr("Reshape(b, "));
  EXPECT_THAT(text, Not(HasSubstr("Transpose")));
}

TEST(ExpandEinsumTest, LeavesWhatIsNoProductOfMatrices) {
  for (const char* equation : {"ij,ij->ij", "ii,ij->ij", "ij,jk->iik", "ij,ij->"}) {
    EXPECT_THAT(Expanded(equation, {3, 3}, {3, 3}), HasSubstr("Einsum(a, b)")) << equation;
  }
  EXPECT_THAT(Expanded("...ij,...jk->...ik", {1, 2, 3}, {4, 3, 5}), HasSubstr("Einsum(a, b)"));
}

TEST(ExpandEinsumTest, SumsFirstWhatOneOperandAloneHas) {
  const std::string text = Expanded("ij,ik->i", {2, 3}, {2, 4});
  EXPECT_THAT(text, HasSubstr("Sum(a, "));
  EXPECT_THAT(text, HasSubstr("Sum(b, "));
  EXPECT_THAT(text, HasSubstr("Einsum(y/Sum, y/Sum_1)"));
}

// The kernel goes by the definition, which the pass knows nothing of.
TEST(ExpandEinsumTest, GivesWhatTheDefinitionGives) {
  struct Example {
    const char* equation;
    Shape a, b;
  };
  const Example kExamples[] = {
      {"ij,jk->ik", {6, 3}, {3, 4}},
      {"ji,jk->ki", {6, 3}, {6, 4}},
      {"bij,bjk->bki", {6, 2, 3}, {6, 3, 4}},
      {"aecd,abcd->acbe", {6, 3, 2, 4}, {6, 5, 2, 4}},
      {"acbe,aecd->abcd", {6, 2, 5, 3}, {6, 3, 2, 4}},
      {"abc,cde->abde", {6, 3, 4}, {4, 2, 3}},
      {"cabd,dec->aeb", {2, 6, 3, 4}, {4, 5, 2}},
      {"ijl,jk->ik", {6, 3, 2}, {3, 4}},
      {"ij,jkl->ik", {6, 3}, {3, 4, 2}},
      {"...ij,...jk->...ik", {6, 2, 3}, {6, 3, 4}},
      {"ij,j->i", {6, 3}, {3}},
      {"ij,ik->i", {6, 3}, {6, 4}},
      {"...i,...j->...", {6, 2, 3}, {6, 2, 4}},
      {"ij,kl->", {6, 3}, {2, 4}},
      {"ij,jk->ik", {6, 0}, {0, 4}},
      {"ij,jk->ik", {0, 3}, {3, 4}},
  };
  Random random(1);
  for (const Example& example : kExamples) {
    SCOPED_TRACE(example.equation);
    Graph graph;
    Scope root(&graph);
    Shape rows = example.a;
    rows.set_dim(0, kUnknownDim);
    const auto a = ops::Placeholder(root, DT_DOUBLE, rows);
    const auto b = ops::Placeholder(root, DT_DOUBLE, example.b);
    const Output y = ops::Einsum(root, {a, b}, example.equation);
    const std::vector<Tensor> feeds = {RandomTensor(DT_DOUBLE, example.a, &random),
                                       RandomTensor(DT_DOUBLE, example.b, &random)};
    auto result = [&](int replicas, bool expand) -> absl::StatusOr<Tensor> {
      TestSessionOptions options{.replicas = replicas};
      if (!expand) options.session.compile.disabled_passes = {"expand_einsum"};
      MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(graph, options));
      MF_ASSIGN_OR_RETURN(Step step, session->Prepare({a, b}, {y}));
      MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run(feeds));
      return out[0].Clone();
    };
    const auto want = result(1, false);
    ASSERT_TRUE(want.ok()) << want.status();
    for (const int replicas : {1, 3}) {
      const auto got = result(replicas, true);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(Difference(*want, *got, {.relative = 1e-12, .absolute = 1e-12}), "");
    }
  }
}

}  // namespace
}  // namespace mirrorflow
