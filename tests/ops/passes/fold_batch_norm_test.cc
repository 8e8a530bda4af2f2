// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fold_batch_norm.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/compiler/passes/infer_and_fold.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/fused_ops.h"
#include "tests/support/compilation.h"
#include "tests/support/run_without_pass.h"
#include "tests/support/tensors.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const Shape kImages({2, 6, 6, 4});  // two rows, so that one of three replicas has none
const std::vector<int64_t> kStrides = {1, 1, 1, 1};
constexpr int64_t kChannels = 8;

// A program with one feed, `x`, and vectors and filters that are variables or constants.
struct Model : PassProgram {
  explicit Model(const Shape& shape = kImages, bool has_variables = true)
      : has_variables(has_variables) {
    Shape declared = shape;
    declared.set_dim(0, kUnknownDim);
    shapes = {shape};
    feeds = {ops::Placeholder(root, DT_FLOAT, declared)};
    x = feeds[0];
  }

  // Returns a value with elements between 0.5 and 1.5, which suit a variance too.
  Output Value(const Shape& shape) {
    Tensor value = RandomTensor(DT_FLOAT, shape, &random);
    for (float& element : value.flat<float>()) element = 1 + element / 2;
    if (!has_variables) return ops::Const(root, value);
    const Variable variable = CreateVariable(
        root, "variable", shape,
        [&](const Scope& s, const Shape&, DataType) { return ops::Const(s, value); });
    last_handle = variable.handle;
    return variable.value;
  }
  Output Vector() { return Value({kChannels}); }

  Output Convolution() {
    return ops::Conv2D(root, x, Value({3, 3, 4, kChannels}), kStrides, "SAME");
  }
  ops::FusedBatchNormV3Outputs BatchNorm(Output value,
                                         const ops::FusedBatchNormV3Options& options = {
                                             .is_training = false}) {
    const Output scale = Vector(), offset = Vector(), mean = Vector(), variance = Vector();
    return ops::FusedBatchNormV3(root, value, scale, offset, mean, variance, options);
  }

  const bool has_variables;
  const Scope root{&graph};
  Random random{1};
  Output x;
  Output last_handle;  // of the last variable
};

// Returns the ops of the program's plan on `replicas` replicas. The values must equal those on one
// replica without the pass, whose ops are in `without`.
std::vector<std::string> OpsOf(const PassProgram& program, int replicas,
                               std::vector<std::string>* without = nullptr) {
  const auto want = program.Run(1, "fold_batch_norm");
  EXPECT_TRUE(want.ok()) << want.status();
  const auto got = program.Run(replicas);
  EXPECT_TRUE(got.ok()) << got.status();
  if (!want.ok() || !got.ok()) return {};
  for (size_t i = 0; i < want->values.size(); ++i) {
    EXPECT_EQ(Difference(want->values[i], got->values[i], {.relative = 1e-5, .absolute = 1e-5}),
              "");
  }
  if (without != nullptr) *without = want->ops;
  return got->ops;
}

// Expects that the product is the only op that is left, on one replica and on three, with variables
// and with constants. `make` returns the fetch.
void ExpectFolds(const Shape& x, const std::string& op, const std::function<Output(Model&)>& make) {
  for (const bool has_variables : {false, true}) {
    SCOPED_TRACE(has_variables ? "variables" : "constants");
    Model model(x, has_variables);
    model.fetches = {make(model)};
    for (const int replicas : {1, 3}) {
      EXPECT_THAT(OpsOf(model, replicas), ElementsAre(op)) << replicas << " replicas";
    }
  }
}

// Expects that the pass leaves the step as it is.
void ExpectUnchanged(const PassProgram& program) {
  std::vector<std::string> without;
  const std::vector<std::string> ops = OpsOf(program, 1, &without);
  EXPECT_FALSE(ops.empty());
  EXPECT_EQ(ops, without);
  OpsOf(program, 3);
}

// A function that adds ops on channels after a product.
using After = std::function<Output(Model&, Output)>;
struct Pattern {
  const char* name;
  bool shifts;
  After after;
};
const std::vector<Pattern>& Patterns() {
  static const auto* const patterns = new std::vector<Pattern>{
      {"Mul", false, [](Model& m, Output y) { return ops::Mul(m.root, y, m.Vector()); }},
      {"MulFromLeft", false, [](Model& m, Output y) { return ops::Mul(m.root, m.Vector(), y); }},
      {"TwoMuls", false,
       [](Model& m, Output y) {
         return ops::Mul(m.root, ops::Mul(m.root, y, m.Vector()), m.Vector());
       }},
      {"AddV2", true, [](Model& m, Output y) { return ops::AddV2(m.root, y, m.Vector()); }},
      {"AddFromLeft", true, [](Model& m, Output y) { return ops::Add(m.root, m.Vector(), y); }},
      {"Sub", true, [](Model& m, Output y) { return ops::Sub(m.root, y, m.Vector()); }},
      {"RankOfOutput", true,
       [](Model& m, Output y) {
         const bool is_image = y.node->op().name != ops::kMatMul;
         const Shape shape = is_image ? Shape({1, 1, 1, kChannels}) : Shape({1, kChannels});
         return ops::AddV2(m.root, ops::Mul(m.root, y, m.Value(shape)), m.Value(shape));
       }},
      {"BiasAddMulAddV2", true,
       [](Model& m, Output y) {
         y = ops::BiasAdd(m.root, y, m.Vector());
         return ops::AddV2(m.root, ops::Mul(m.root, y, m.Vector()), m.Vector());
       }},
      {"AddSubMulSub", true,
       [](Model& m, Output y) {
         y = ops::Sub(m.root, ops::AddV2(m.root, y, m.Vector()), m.Vector());
         return ops::Sub(m.root, ops::Mul(m.root, y, m.Vector()), m.Vector());
       }},
  };
  return *patterns;
}

void ExpectFoldsPatterns(const Shape& x, const std::string& op,
                         const std::function<Output(Model&)>& product) {
  for (const Pattern& pattern : Patterns()) {
    SCOPED_TRACE(pattern.name);
    ExpectFolds(x, pattern.shifts ? ops::Fused(op) : op,
                [&](Model& m) { return pattern.after(m, product(m)); });
  }
}

TEST(FoldBatchNormTest, FoldsIntoConvolution) {
  ExpectFoldsPatterns(kImages, ops::kConv2D, [](Model& m) { return m.Convolution(); });
}

TEST(FoldBatchNormTest, FoldsIntoGroupedConvolution) {
  ExpectFoldsPatterns(kImages, ops::kConv2D, [](Model& m) {
    return ops::Conv2D(m.root, m.x, m.Value({3, 3, 2, kChannels}), {1, 2, 2, 1}, "VALID");
  });
}

TEST(FoldBatchNormTest, FoldsIntoDepthwiseConvolution) {
  for (const int64_t multiplier : {1, 2}) {
    SCOPED_TRACE(multiplier);
    const int64_t channels = kChannels / multiplier;
    ExpectFoldsPatterns({2, 6, 6, channels}, ops::kDepthwiseConv2dNative, [&](Model& m) {
      return ops::DepthwiseConv2dNative(m.root, m.x, m.Value({3, 3, channels, multiplier}),
                                        kStrides, "SAME");
    });
  }
}

TEST(FoldBatchNormTest, FoldsIntoProduct) {
  for (const bool transpose : {false, true}) {
    SCOPED_TRACE(transpose);
    // A square matrix, so that a scale of the wrong dimension would go unnoticed by shape
    // inference.
    ExpectFoldsPatterns({5, kChannels}, ops::kMatMul, [&](Model& m) {
      return ops::MatMul(m.root, m.x, m.Value({kChannels, kChannels}), {.transpose_b = transpose});
    });
  }
}

TEST(FoldBatchNormTest, FoldsBatchNorm) {
  const auto batch_norm = [](Model& m, Output y) { return m.BatchNorm(y).y; };
  ExpectFolds(kImages, ops::Fused(ops::kConv2D),
              [&](Model& m) { return batch_norm(m, m.Convolution()); });
  ExpectFolds(kImages, ops::Fused(ops::kConv2D), [&](Model& m) {
    return batch_norm(m, ops::BiasAdd(m.root, m.Convolution(), m.Vector()));
  });
  ExpectFolds(kImages, ops::Fused(ops::kConv2D), [&](Model& m) {
    return ops::Mul(m.root, batch_norm(m, batch_norm(m, m.Convolution())), m.Vector());
  });
  ExpectFolds(kImages, ops::Fused(ops::kDepthwiseConv2dNative), [&](Model& m) {
    return batch_norm(
        m, ops::DepthwiseConv2dNative(m.root, m.x, m.Value({3, 3, 4, 2}), kStrides, "SAME"));
  });
}

TEST(FoldBatchNormTest, FoldsSeveralLayers) {
  Model m;
  const Output y = m.BatchNorm(m.Convolution()).y;
  m.fetches = {ops::Mul(
      m.root, ops::Conv2D(m.root, ops::Relu(m.root, y), m.Value({1, 1, 8, 8}), kStrides, "SAME"),
      m.Vector())};
  for (const int replicas : {1, 3}) {
    EXPECT_THAT(OpsOf(m, replicas),
                ElementsAre(ops::Fused(ops::kConv2D, {.activation = ops::kRelu}), "Conv2D"));
  }
}

// A filter that two convolutions share becomes a filter of each.
TEST(FoldBatchNormTest, ConvolutionsCanShareFilter) {
  Model m;
  const Output filter = m.Value({3, 3, 4, kChannels});
  for (int i = 0; i < 2; ++i) {
    const Output x = i == 0 ? m.x : ops::Neg(m.root, m.x);
    m.fetches.push_back(
        ops::Mul(m.root, ops::Conv2D(m.root, x, filter, kStrides, "SAME"), m.Vector()));
  }
  EXPECT_THAT(OpsOf(m, 1), testing::UnorderedElementsAre("Conv2D", "Neg", "Conv2D"));
  OpsOf(m, 3);
}

// The step computes these from other invariant values.
TEST(FoldBatchNormTest, FilterAndVectorsCanBeComputed) {
  ExpectFolds(kImages, ops::Fused(ops::kConv2D), [](Model& m) {
    const Output filter = ops::Transpose(m.root, m.Value({kChannels, 3, 3, 4}),
                                         ops::VectorConst(m.root, {1, 2, 3, 0}));
    const Output y = ops::Conv2D(m.root, m.x, filter, kStrides, "SAME");
    const Output scale = ops::Sqrt(m.root, ops::Reshape(m.root, m.Value({2, 4}), {kChannels}));
    return ops::AddV2(m.root, ops::Mul(m.root, y, scale), ops::Neg(m.root, m.Vector()));
  });
}

TEST(FoldBatchNormTest, SingleBiasIsLeftToFusion) {
  Model m;
  m.fetches = {ops::BiasAdd(m.root, m.Convolution(), m.Vector())};
  ExpectUnchanged(m);
}

TEST(FoldBatchNormTest, ValuesWithOtherUsesAreNotFolded) {
  Model fetched;
  const Output y = fetched.Convolution();
  fetched.fetches = {y, ops::Mul(fetched.root, y, fetched.Vector())};
  ExpectUnchanged(fetched);

  Model used;
  const Output z = used.Convolution();
  used.fetches = {ops::Neg(used.root, z), ops::Mul(used.root, z, used.Vector())};
  ExpectUnchanged(used);

  // The step folds the first scale only.
  Model later;
  const Output scaled = ops::Mul(later.root, later.Convolution(), later.Vector());
  later.fetches = {scaled, ops::Mul(later.root, scaled, later.Vector())};
  EXPECT_THAT(OpsOf(later, 1), ElementsAre("Conv2D", "Mul"));
  OpsOf(later, 3);
}

TEST(FoldBatchNormTest, OtherOutputsOfBatchNormAreKept) {
  Model fetched;
  const auto outputs = fetched.BatchNorm(fetched.Convolution());
  fetched.fetches = {outputs.y, outputs.batch_mean};
  ExpectUnchanged(fetched);

  Model used;
  const auto more = used.BatchNorm(used.Convolution());
  used.fetches = {more.y, ops::Neg(used.root, more.batch_variance)};
  ExpectUnchanged(used);
}

TEST(FoldBatchNormTest, ValuesThatStepWritesAreNotFolded) {
  Model vector;
  Output y = vector.Convolution();
  vector.fetches = {ops::Mul(vector.root, y, vector.Vector())};
  const Output vector_handle = vector.last_handle;
  vector.targets = {ops::AssignAddVariableOp(vector.root, vector_handle, vector.Vector())};
  ExpectUnchanged(vector);

  Model filter;
  y = filter.Convolution();
  const Output filter_handle = filter.last_handle;
  const Output change = filter.Value({3, 3, 4, kChannels});
  filter.targets = {ops::AssignAddVariableOp(filter.root, filter_handle, change)};
  filter.fetches = {ops::Mul(filter.root, y, filter.Vector())};
  ExpectUnchanged(filter);
}

TEST(FoldBatchNormTest, ValuesThatChangeAreNotFolded) {
  Model m;
  m.shapes.push_back({kChannels});
  m.feeds.push_back(ops::Placeholder(m.root, DT_FLOAT, {kChannels}));
  m.fetches = {ops::Mul(m.root, m.Convolution(), m.feeds[1])};
  ExpectUnchanged(m);
}

TEST(FoldBatchNormTest, TrainingIsNotFolded) {
  Model m;
  m.fetches = {m.BatchNorm(m.Convolution(), {.is_training = true}).y};
  ExpectUnchanged(m);
}

TEST(FoldBatchNormTest, ChannelsFirstIsNotFolded) {
  Model m({2, 4, 8, 8});
  const Output y = ops::Conv2D(m.root, m.x, m.Value({3, 3, 4, kChannels}), kStrides, "SAME",
                               {.data_format = "NCHW"});
  m.fetches = {m.BatchNorm(y, {.data_format = "NCHW", .is_training = false}).y};
  ExpectUnchanged(m);
  // The last dimension, which is the width, is as long as a vector of channels.
  m.fetches = {ops::Mul(m.root, y, m.Vector())};
  ExpectUnchanged(m);
}

TEST(FoldBatchNormTest, OperandsOtherThanChannelsAreNotFolded) {
  // The output is [2,8,8,8]: a factor of 8 elements can belong to any of its dimensions.
  const Shape images({2, 8, 8, 4});
  for (const Shape& shape : {Shape(), Shape({1}), Shape({8, 1}), Shape({8, 1, 1}), Shape({8, 8}),
                             Shape({1, 8, 8}), Shape({1, 1, 8, 8})}) {
    SCOPED_TRACE(shape.ToString());
    Model m(images);
    m.fetches = {ops::Mul(m.root, m.Convolution(), m.Value(shape))};
    ExpectUnchanged(m);
  }
  Model difference;
  difference.fetches = {ops::Sub(difference.root, difference.Vector(), difference.Convolution())};
  ExpectUnchanged(difference);
}

TEST(FoldBatchNormTest, VectorsThatEnlargeResultAreNotFolded) {
  Model m({5, kChannels});
  const Output y = ops::MatMul(m.root, m.x, m.Value({kChannels, kChannels}));
  m.fetches = {ops::Mul(m.root, y, m.Value({1, 1, kChannels}))};
  ExpectUnchanged(m);

  // A product with a single column is enlarged by a vector.
  Model wider({5, kChannels});
  const Output column = ops::MatMul(wider.root, wider.x, wider.Value({kChannels, 1}));
  wider.fetches = {ops::Mul(wider.root, column, wider.Vector())};
  ExpectUnchanged(wider);
}

// Control edges from the nodes of the text lead to and from what replaces `y`.
constexpr char kStep[] = R"(
x = Placeholder() {dtype=float, shape=<2,4>}
w = VarHandleOp() {dtype=float, shape=<4,3>}
v = VarHandleOp() {dtype=float, shape=<3>}
filter = ReadVariableOp(w) {dtype=float}
vector = ReadVariableOp(v) {dtype=float}
first = Neg(x) {T=float}
second = Exp(x) {T=float}
product = MatMul(x, filter, ^first) {T=float}
y = Mul(product, vector, ^second) {T=float}
last = Abs(x, ^y) {T=float}
)";

// Returns the step's text after the pass.
std::string Folded(bool keeps_forms, const std::vector<std::string>& fetches) {
  const auto step = ParseStep(kStep, {.feeds = {{"x", {2, 4}}}, .fetches = fetches});
  if (!step.ok()) return step.status().ToString();
  (*step)->c.keeps_forms = keeps_forms;
  const absl::Status status = RunPasses((*step)->c, InferAndFold(), FoldBatchNorm());
  return status.ok() ? StepToText((*step)->c) : status.ToString();
}

TEST(FoldBatchNormTest, ControlDependenciesAreKept) {
  const std::string text = Folded(true, {"last"});
  EXPECT_THAT(text, HasSubstr("MatMul(x, product_1, ^second, ^first)")) << text;
  EXPECT_THAT(text, HasSubstr("last = Abs(x, ^product_2)")) << text;
  EXPECT_THAT(text, Not(HasSubstr("y = Mul"))) << text;
}

// Without forms, each step would have to compute the new filter.
TEST(FoldBatchNormTest, PlansWithoutFormsAreUnchanged) {
  EXPECT_THAT(Folded(false, {"y"}), HasSubstr("y = Mul(product, vector, ^second)"));
}

}  // namespace
}  // namespace mirrorflow
