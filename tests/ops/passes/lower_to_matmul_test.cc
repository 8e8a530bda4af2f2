// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/lower_to_matmul.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/compiler/passes/infer_and_fold.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/compilation.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Returns the text, after the pass, of a step with an Einsum of operands with these shapes.
std::string Expanded(const char* equation, const Shape& a, const Shape& b) {
  const std::string text =
      absl::StrCat("a = Placeholder() {dtype=float, shape=<", absl::StrJoin(a.dims(), ","),
                   ">}\nb = Placeholder() {dtype=float, shape=<", absl::StrJoin(b.dims(), ","),
                   ">}\ny = Einsum(a, b) {N=2, T=float, equation=\"", equation, "\"}\n");
  const auto step = ParseStep(text, {.feeds = {{"a", a}, {"b", b}}, .fetches = {"y"}});
  if (!step.ok()) return step.status().ToString();
  const absl::Status status = RunPasses((*step)->c, InferAndFold(), LowerToMatmul());
  if (!status.ok()) return status.ToString();
  const absl::StatusOr<bool> again = LowerToMatmul().Run((*step)->c);
  EXPECT_TRUE(again.ok() && !*again);
  return StepToText((*step)->c);
}

TEST(LowerToMatmulTest, ExpandsPlainProductWithoutOtherOps) {
  EXPECT_EQ(Expanded("ij,jk->ik", {2, 3}, {3, 4}),
            "a = Placeholder()\n"
            "b = Placeholder()\n"
            "y/BatchMatMulV2 = BatchMatMulV2(a, b)\n");
}

TEST(LowerToMatmulTest, ExpandsTransposedOperandsWithoutTranspose) {
  const std::string text = Expanded("bji,bkj->bik", {5, 3, 2}, {5, 4, 3});
  EXPECT_THAT(text, HasSubstr("BatchMatMulV2(a, b)"));
  EXPECT_THAT(text, Not(HasSubstr("Transpose")));
}

TEST(LowerToMatmulTest, MergesDimensionsIntoOne) {
  // This is the projection of an attention head.
  const std::string text = Expanded("abc,cde->abde", {2, 3, 4}, {4, 2, 3});
  EXPECT_THAT(text, HasSubstr("Reshape(a, "));
  EXPECT_THAT(text, HasSubstr("Reshape(b, "));
  EXPECT_THAT(text, Not(HasSubstr("Transpose")));
}

TEST(LowerToMatmulTest, LeavesOtherEinsumsUnchanged) {
  for (const char* equation : {"ij,ij->ij", "ii,ij->ij", "ij,jk->iik", "ij,ij->"}) {
    EXPECT_THAT(Expanded(equation, {3, 3}, {3, 3}), HasSubstr("Einsum(a, b)")) << equation;
  }
  EXPECT_THAT(Expanded("...ij,...jk->...ik", {1, 2, 3}, {4, 3, 5}), HasSubstr("Einsum(a, b)"));
}

TEST(LowerToMatmulTest, SumsLabelsOfSingleOperandFirst) {
  const std::string text = Expanded("ij,ik->i", {2, 3}, {2, 4});
  EXPECT_THAT(text, HasSubstr("Sum(a, "));
  EXPECT_THAT(text, HasSubstr("Sum(b, "));
  EXPECT_THAT(text, HasSubstr("Einsum(y/Sum, y/Sum_1)"));
}

// Einsum's kernel, which does not depend on the pass, implements the definition.
TEST(LowerToMatmulTest, ExpansionMatchesDefinition) {
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
      if (!expand) options.session.compile.disabled_passes = {"lower_to_matmul"};
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

constexpr char kProducts[] = R"(
a = Placeholder() {dtype=float, shape=<2,8>}
b = Placeholder() {dtype=float, shape=<2,9>}
a2 = Neg(a) {T=float}
b2 = Neg(b) {T=float}
p = MatMul(a, b) {T=float, transpose_a=true}
q = MatMul(a2, b) {T=float, transpose_a=true}
r = MatMul(a, b2) {T=float, transpose_a=true}
)";

// Returns the step's text after the pass, which must be idempotent. The step feeds a and b, and c
// if the text defines c. It fetches y, and z if the text defines z.
std::string Merged(const std::string& text, const Shape& c = {1, 1}) {
  StepNames names = {.feeds = {{"a", {2, 8}}, {"b", {2, 9}}}, .fetches = {"y"}};
  if (text.find("c = Placeholder") != std::string::npos) names.feeds.push_back({"c", c});
  if (text.find("z = ") != std::string::npos) names.fetches.push_back("z");
  const auto step = ParseStep(absl::StrCat(kProducts, text), names);
  if (!step.ok()) return step.status().ToString();
  const absl::Status status = RunPasses((*step)->c, InferAndFold(), LowerToMatmul());
  if (!status.ok()) return status.ToString();
  const absl::StatusOr<bool> again = LowerToMatmul().Run((*step)->c);
  EXPECT_TRUE(again.ok() && !*again);
  return StepToText((*step)->c);
}

TEST(LowerToMatmulTest, MergesThreeProductsIntoOne) {
  const std::string text = Merged("y = AddN(p, q, r) {N=3, T=float}\n");
  EXPECT_THAT(text, HasSubstr("Pack(a, a2, a)"));
  EXPECT_THAT(text, HasSubstr("Pack(b, b, b2)"));
  EXPECT_THAT(text, HasSubstr("MatMul(y/Reshape, y/Reshape_1)"));
  EXPECT_THAT(text, Not(HasSubstr("AddN")));
}

TEST(LowerToMatmulTest, KeepsOtherTermsOfSum) {
  const std::string text = Merged(R"(
s = MatMul(a, b) {T=float, transpose_a=true}
other = Exp(s) {T=float}
y = AddN(p, other, q, r) {N=4, T=float}
)");
  EXPECT_THAT(text, HasSubstr("y/AddN = AddN(other, y/MatMul)"));
}

TEST(LowerToMatmulTest, MergesGradientsOfBias) {
  // c has a single row, so the operand is not larger than the bias.
  const std::string text = Merged(R"(
c = Placeholder() {dtype=float, shape=<1,4>}
c2 = Neg(c) {T=float}
c3 = Exp(c) {T=float}
u = BiasAddGrad(c) {T=float}
v = BiasAddGrad(c2) {T=float}
w = BiasAddGrad(c3) {T=float}
y = AddN(u, v, w) {N=3, T=float}
)",
                                  {1, 4});
  EXPECT_THAT(text, HasSubstr("Pack(c, c2, c3)"));
  EXPECT_THAT(text, HasSubstr("BiasAddGrad(y/Reshape)"));
}

TEST(LowerToMatmulTest, SumsWithoutMergeableOrProfitableProductsAreUnchanged) {
  const char* kept[] = {
      // The sum has only two products.
      "y = AddN(p, q) {N=2, T=float}\n",
      // One product has another use.
      "z = Exp(r) {T=float}\ny = AddN(p, q, r) {N=3, T=float}\n",
      // One product has a control input.
      "s = MatMul(a, b, ^a2) {T=float, transpose_a=true}\ny = AddN(p, q, s) {N=3, T=float}\n",
      // The products do not sum over rows.
      R"(
t = Transpose(a, perm) {T=float, Tperm=int32}
perm = Const() {dtype=int32, value=int32<2>{1, 0}}
s = MatMul(t, b) {T=float}
u = MatMul(t, b2) {T=float}
v = MatMul(t, b) {T=float}
y = AddN(s, u, v) {N=3, T=float}
)",
      // The operands are larger than the product.
      R"(
c = Placeholder() {dtype=float, shape=<9,2>}
s = MatMul(c, c) {T=float, transpose_a=true}
u = MatMul(c, c) {T=float, transpose_a=true}
v = MatMul(c, c) {T=float, transpose_a=true}
y = AddN(s, u, v) {N=3, T=float}
)"};
  for (const char* text : kept) {
    const std::string after = Merged(text, {9, 2});
    EXPECT_THAT(after, HasSubstr("y = AddN(")) << text;
    EXPECT_THAT(after, Not(HasSubstr("Pack"))) << text;
  }
}

}  // namespace
}  // namespace mirrorflow
