// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/merge_row_sums.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/compiler/passes/infer_and_fold.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/ops.h"
#include "tests/support/compilation.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kProducts[] = R"(
a = Placeholder() {dtype=float, shape=<2,8>}
b = Placeholder() {dtype=float, shape=<2,9>}
a2 = Neg(a) {T=float}
b2 = Neg(b) {T=float}
p = MatMul(a, b) {T=float, transpose_a=true}
q = MatMul(a2, b) {T=float, transpose_a=true}
r = MatMul(a, b2) {T=float, transpose_a=true}
)";

// The step that fetches y, and z if there is one, after the pass, which then has nothing more to
// do. What else it feeds is c.
std::string Merged(const std::string& text, const Shape& c = {1, 1}) {
  StepNames names = {.feeds = {{"a", {2, 8}}, {"b", {2, 9}}}, .fetches = {"y"}};
  if (text.find("c = Placeholder") != std::string::npos) names.feeds.push_back({"c", c});
  if (text.find("z = ") != std::string::npos) names.fetches.push_back("z");
  const auto step = ParseStep(absl::StrCat(kProducts, text), names);
  if (!step.ok()) return step.status().ToString();
  const absl::Status status = RunPasses((*step)->c, InferAndFold(), MergeRowSums());
  if (!status.ok()) return std::string(status.message());
  const absl::StatusOr<bool> again = MergeRowSums().Run((*step)->c);
  EXPECT_TRUE(again.ok() && !*again);
  return StepToText((*step)->c);
}

TEST(MergeRowSumsTest, MakesOneProductOfThree) {
  const std::string text = Merged("y = AddN(p, q, r) {N=3, T=float}\n");
  EXPECT_THAT(text, HasSubstr("Pack(a, a2, a)"));
  EXPECT_THAT(text, HasSubstr("Pack(b, b, b2)"));
  EXPECT_THAT(text, HasSubstr("MatMul(y/Reshape, y/Reshape_1)"));
  EXPECT_THAT(text, Not(HasSubstr("AddN")));
}

TEST(MergeRowSumsTest, AddsWhatElseThereIs) {
  const std::string text = Merged(R"(
s = MatMul(a, b) {T=float, transpose_a=true}
other = Exp(s) {T=float}
y = AddN(p, other, q, r) {N=4, T=float}
)");
  EXPECT_THAT(text, HasSubstr("y/AddN = AddN(other, y/MatMul)"));
}

TEST(MergeRowSumsTest, MergesGradientsOfABias) {
  // Of one row: a bias is no larger.
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

TEST(MergeRowSumsTest, LeavesWhatItCannotMergeOrWhatDoesNotPay) {
  const char* kept[] = {
      // Two.
      "y = AddN(p, q) {N=2, T=float}\n",
      // One is used again.
      "z = Exp(r) {T=float}\ny = AddN(p, q, r) {N=3, T=float}\n",
      // One waits for something.
      "s = MatMul(a, b, ^a2) {T=float, transpose_a=true}\ny = AddN(p, q, s) {N=3, T=float}\n",
      // What is summed over is not the rows.
      R"(
t = Transpose(a, perm) {T=float, Tperm=int32}
perm = Const() {dtype=int32, value=int32<2>{1, 0}}
s = MatMul(t, b) {T=float}
u = MatMul(t, b2) {T=float}
v = MatMul(t, b) {T=float}
y = AddN(s, u, v) {N=3, T=float}
)",
      // Operands larger than the product.
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
