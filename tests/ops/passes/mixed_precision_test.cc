// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/mixed_precision.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/classifier_training.h"
#include "tests/support/compilation.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

constexpr char kInputs[] = R"(
x = Placeholder() {dtype=float, shape=<8,4>}
w = Placeholder() {dtype=float, shape=<4,4>}
b = Placeholder() {dtype=float, shape=<4>}
)";

absl::StatusOr<std::string> Mixed(const std::string& text, std::vector<std::string> fetches,
                                  DataType dtype = DT_BFLOAT16) {
  MF_ASSIGN_OR_RETURN(const auto step, ParseStep(kInputs + text, {.fetches = std::move(fetches)}));
  Compilation& c = step->c;
  c.options.compute_dtype = dtype;
  c.RemoveDeadNodes();
  MF_RETURN_IF_ERROR(RunPasses(c, MixedPrecision()));
  std::string result;
  for (const Node* node : c.graph.Nodes()) {
    if (node->op().role == OpRole::kPlaceholder) continue;
    absl::StrAppend(&result, node->op().name, " ", DataTypeName(node->output_dtype(0)), "\n");
  }
  return result;
}

void ExpectMixed(const std::string& text, std::vector<std::string> fetches,
                 const std::string& want) {
  const auto got = Mixed(text, std::move(fetches));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ("\n" + *got, want);
}

TEST(MixedPrecisionTest, LayerIsCastOnlyAtItsEnds) {
  ExpectMixed(R"(
product = MatMul(x, w) {T=float}
sum = BiasAdd(product, b) {T=float}
act = Relu(sum) {T=float}
loss = Softmax(act) {T=float}
)",
              {"loss"}, R"(
Softmax float
Cast bfloat16
Cast bfloat16
MatMul bfloat16
Cast bfloat16
BiasAdd bfloat16
Relu bfloat16
Cast float
)");
}

// In reduced precision, the logarithm of a number near 1 would lose its significant digits.
TEST(MixedPrecisionTest, OpsThatNeedPrecisionStayFloat) {
  ExpectMixed(R"(
product = MatMul(x, w) {T=float}
chance = Sigmoid(product) {T=float}
loss = Log(chance) {T=float}
)",
              {"loss"}, R"(
Log float
Cast bfloat16
Cast bfloat16
MatMul bfloat16
Sigmoid bfloat16
Cast float
)");
}

// A transformer's residual stream stays float; the values that are added to it are cast.
TEST(MixedPrecisionTest, SumWithFloatOfSameSizeStaysFloat) {
  ExpectMixed(R"(
product = MatMul(x, w) {T=float}
out = AddV2(x, product) {T=float}
)",
              {"out"}, R"(
AddV2 float
Cast bfloat16
Cast bfloat16
MatMul bfloat16
Cast float
)");
}

TEST(MixedPrecisionTest, ValueIsCastOnceForAllUsers) {
  ExpectMixed(R"(
once = MatMul(x, w) {T=float}
twice = MatMul(once, w) {T=float}
)",
              {"once", "twice"}, R"(
Cast bfloat16
Cast bfloat16
MatMul bfloat16
Cast float
MatMul bfloat16
Cast float
)");
}

TEST(MixedPrecisionTest, FloatIsDefaultAndDoubleIsRejected) {
  EXPECT_EQ(*Mixed("product = MatMul(x, w) {T=float}", {"product"}, DT_FLOAT), "MatMul float\n");
  const absl::Status refused =
      Mixed("product = MatMul(x, w) {T=float}", {"product"}, DT_DOUBLE).status();
  EXPECT_THAT(refused, IsError(absl::StatusCode::kInvalidArgument, "compute_dtype", "got double"));
}

TEST(MixedPrecisionTest, HalfIsCastLikeBfloat16) {
  EXPECT_EQ(*Mixed("product = MatMul(x, w) {T=float}", {"product"}, DT_HALF),
            "Cast half\nCast half\nMatMul half\nCast float\n");
}

class TrainingIn : public ::testing::TestWithParam<DataType> {};

// Training on two replicas must give the same losses as in float, up to rounding.
TEST_P(TrainingIn, LossesAreCloseToFloat) {
  for (const char* model : {"mlp", "cnn"}) {
    const std::vector<Tensor> batch = ClassifierBatch(model, 6);
    std::vector<float> losses[2];
    for (const bool mixed : {false, true}) {
      CompileOptions compile;
      if (mixed) compile.compute_dtype = GetParam();
      const auto t = MakeClassifierTraining(model, {"CPU:0", "CPU:1"}, compile);
      ASSERT_TRUE(t.ok()) << t.status();
      for (int i = 0; i < 4; ++i) {
        const auto loss = RunStep(**t, batch);
        ASSERT_TRUE(loss.ok()) << loss.status();
        losses[mixed].push_back(*loss);
      }
    }
    EXPECT_LT(losses[1].back(), losses[1].front()) << model;
    EXPECT_NE(losses[0], losses[1]) << model;
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(losses[1][i], losses[0][i], 0.03 * losses[0][i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, TrainingIn, ::testing::Values(DT_BFLOAT16, DT_HALF),
                         [](const auto& info) { return std::string(DataTypeName(info.param)); });

}  // namespace
}  // namespace mirrorflow
