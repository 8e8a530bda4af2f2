// SPDX-License-Identifier: Apache-2.0
//
// Tests how FuseEpilogues fuses the sum and the activation that follow a bias.
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/activation.h"
#include "ops/all/ops.h"
#include "ops/conv2d.h"
#include "ops/depthwise_conv2d.h"
#include "ops/fused_ops.h"
#include "ops/gelu.h"
#include "ops/matmul.h"
#include "ops/unary.h"
#include "tests/support/run_without_pass.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr int64_t kSize = 16;
constexpr int64_t kChannels = 64;  // an output image has a quarter of the floats of a block

// Returns special values that an epilogue might mishandle, mixed with numbers of all magnitudes.
Tensor SpecialValues(const Shape& shape) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float kSpecial[] = {std::numeric_limits<float>::quiet_NaN(),
                            kInf,
                            -kInf,
                            0.0f,
                            -0.0f,
                            6.0f,
                            std::nextafter(6.0f, 7.0f),
                            std::numeric_limits<float>::denorm_min(),
                            -std::numeric_limits<float>::min(),
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::lowest()};
  Random random(9);
  Tensor values = RandomTensor(DT_FLOAT, shape, &random);
  for (float& value : values.flat<float>()) {
    const int64_t i = random.Below(3 * std::ssize(kSpecial));
    value = i < std::ssize(kSpecial) ? kSpecial[i] : std::exp(12 * value) * (i % 2 == 0 ? 1 : -1);
  }
  return values;
}

// Returns integers, so that sums of products are exact in any order. Contains no -0, because the
// sign of a sum of zeros can depend on how the sum is computed.
Tensor Integers(const Shape& shape) {
  Random random(5);
  Tensor values = RandomTensor(DT_FLOAT, shape, &random);
  for (float& value : values.flat<float>()) value = std::round(3 * value) + 0.0f;
  return values;
}

// A convolution of integers with a bias. Its result is exact regardless of the order of summation,
// so the fused op must match the ops that it replaces bit for bit. Winograd's algorithm does round,
// but identically with and without the pass.
struct Convolution : PassProgram {
  struct Options {
    bool is_depthwise = false;
    bool is_constant = false;  // the filter, which is then converted once
  };
  explicit Convolution(int64_t batch) : Convolution(batch, Options()) {}
  Convolution(int64_t batch, const Options& options)
      : batch(batch),
        product(options.is_depthwise ? ops::kDepthwiseConv2dNative : ops::kConv2D),
        is_constant(options.is_constant) {
    const int64_t in = options.is_depthwise ? kChannels : 16;
    x = Feed(Integers({batch, kSize, kSize, in}));
    y = Convolve(x);
  }

  // Rows are split over the replicas unless `is_replicated` is true.
  Output Feed(const Tensor& value, bool is_replicated = false) {
    Shape declared = value.shape();
    if (!is_replicated) declared.set_dim(0, kUnknownDim);
    shapes.push_back(value.shape());
    values.push_back(value);
    feeds.push_back(ops::Placeholder(root, DT_FLOAT, declared));
    return feeds.back();
  }
  Output FeedAddend() { return Feed(SpecialValues({batch, kSize, kSize, kChannels})); }
  Output Fixed(const Tensor& value) {
    return is_constant ? ops::Const(root, value) : Feed(value, /*is_replicated=*/true);
  }
  Output Convolve(Output images) {
    const bool is_depthwise = product == ops::kDepthwiseConv2dNative;
    const int64_t in = images == x && !is_depthwise ? 16 : kChannels;
    const Output filter = Fixed(Integers({3, 3, in, is_depthwise ? 1 : kChannels}));
    const std::vector<int64_t> strides = {1, 1, 1, 1};
    const Output sum = is_depthwise
                           ? ops::DepthwiseConv2dNative(root, images, filter, strides, "SAME")
                           : ops::Conv2D(root, images, filter, strides, "SAME");
    return ops::BiasAdd(root, sum, Fixed(Integers({kChannels})));
  }
  std::string FusedName(const ops::Epilogue& epilogue = {}) const {
    return ops::Fused(product, epilogue);
  }

  const int64_t batch;
  const std::string product;
  const bool is_constant;
  const Scope root{&graph};
  Output x, y;
};

Output Number(const Scope& s, float value) { return ops::Const(s, Tensor::Scalar<float>(value)); }

Output Activate(const Scope& s, const std::string& activation, Output x) {
  if (activation == ops::kRelu) return ops::Relu(s, x);
  if (activation == ops::kRelu6) return ops::Relu6(s, x);
  if (activation == ops::kSigmoid) return ops::Sigmoid(s, x);
  if (activation == ops::kTanh) return ops::Tanh(s, x);
  if (activation == ops::kSwish) return ops::Mul(s, x, ops::Sigmoid(s, x));
  if (activation == ops::kHardSwish) {
    const Output gate = ops::Relu6(s, ops::AddV2(s, x, Number(s, 3)));
    return ops::Mul(s, x, ops::Mul(s, gate, Number(s, 1.0f / 6)));
  }
  if (activation == ops::kGelu) return ops::Gelu(s, x);
  if (activation == ops::kGeluTanh) return ops::Gelu(s, x, {.approximate = true});
  return x;
}

const auto kActivations = testing::Values("", ops::kRelu, ops::kRelu6, ops::kSigmoid, ops::kTanh,
                                          ops::kSwish, ops::kHardSwish, ops::kGelu, ops::kGeluTanh);

// Returns the ops of the step on `replicas` replicas. The results must have the same bits as those
// on one replica without the pass.
std::vector<std::string> OpsOf(const PassProgram& program, int replicas = 1) {
  const auto want = program.Run(1, "fuse_epilogues");
  EXPECT_TRUE(want.ok()) << want.status();
  const auto got = program.Run(replicas);
  EXPECT_TRUE(got.ok()) << got.status();
  if (!want.ok() || !got.ok()) return {};
  for (size_t i = 0; i < want->values.size(); ++i) {
    EXPECT_TRUE(Tensor::Identical(want->values[i], got->values[i]))
        << "fetch " << i << ": " << Difference(want->values[i], got->values[i], {});
  }
  return got->ops;
}

class EpilogueTest : public testing::TestWithParam<std::tuple<bool, bool, const char*>> {};
INSTANTIATE_TEST_SUITE_P(, EpilogueTest,
                         testing::Combine(testing::Bool(), testing::Bool(), kActivations),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param) ? "Depthwise" : "Conv2D",
                                               std::get<1>(info.param) ? "Add" : "",
                                               std::get<2>(info.param));
                         });

// One to eight blocks of images: seven images cannot be divided evenly, except one by one.
TEST_P(EpilogueTest, ComputesSameBitsAsSeparateOps) {
  const auto& [is_depthwise, adds, activation] = GetParam();
  for (const int64_t batch : {1, 3, 7, 32}) {
    for (const bool is_constant : {false, true}) {
      SCOPED_TRACE(absl::StrCat("batch ", batch, is_constant ? ", constant filter" : ""));
      Convolution c(batch, {.is_depthwise = is_depthwise, .is_constant = is_constant});
      const Output sum = adds ? ops::AddV2(c.root, c.y, c.FeedAddend()) : c.y;
      c.fetches = {Activate(c.root, activation, sum)};
      for (const int replicas : {1, 3}) {
        EXPECT_THAT(OpsOf(c, replicas),
                    ElementsAre(c.FusedName({.add = adds, .activation = activation})));
      }
    }
  }
}

// With a 1x1 filter and one channel, special values do not spread to other elements.
TEST_P(EpilogueTest, KeepsSpecialValuesOfImages) {
  const auto& [is_depthwise, adds, activation] = GetParam();
  PassProgram p;
  const Scope root(&p.graph);
  p.shapes = {{7, 40, 40, 1}, {1, 1, 1, 1}, {1}, {7, 40, 40, 1}};
  p.values = {SpecialValues(p.shapes[0]), Tensor::Of<float>(p.shapes[1], {1.0f}),
              Tensor::Vector<float>({0.0f}), Integers(p.shapes[3])};
  for (const Shape& shape : p.shapes) p.feeds.push_back(ops::Placeholder(root, DT_FLOAT, shape));
  const std::vector<int64_t> strides = {1, 1, 1, 1};
  Output y = is_depthwise
                 ? ops::DepthwiseConv2dNative(root, p.feeds[0], p.feeds[1], strides, "VALID")
                 : ops::Conv2D(root, p.feeds[0], p.feeds[1], strides, "VALID");
  y = ops::BiasAdd(root, y, p.feeds[2]);
  if (adds) y = ops::AddV2(root, y, p.feeds[3]);
  p.fetches = {Activate(root, activation, y)};
  EXPECT_EQ(OpsOf(p).size(), 1);
}

// Windows of more than 2^20 elements use kernels without oneDNN. These treat all activations alike,
// so one is enough.
TEST(FuseActivationsTest, KernelsWithoutOneDnnComputeSameBits) {
  for (const bool is_depthwise : {false, true}) {
    for (const bool adds : {false, true}) {
      SCOPED_TRACE(absl::StrCat(is_depthwise ? "depthwise" : "", adds ? " with addend" : ""));
      PassProgram p;
      const Scope root(&p.graph);
      p.values = {Integers({2, 1025, 1026, 1}), Integers({1024, 1025, 1, 2}), Integers({2}),
                  SpecialValues({2, 2, 2, 2})};
      for (const Tensor& value : p.values) {
        p.shapes.push_back(value.shape());
        p.feeds.push_back(ops::Placeholder(root, DT_FLOAT, value.shape()));
      }
      const std::vector<int64_t> strides = {1, 1, 1, 1};
      Output y = is_depthwise
                     ? ops::DepthwiseConv2dNative(root, p.feeds[0], p.feeds[1], strides, "VALID")
                     : ops::Conv2D(root, p.feeds[0], p.feeds[1], strides, "VALID");
      y = ops::BiasAdd(root, y, p.feeds[2]);
      if (adds) y = ops::AddV2(root, y, p.feeds[3]);
      p.fetches = {ops::Relu6(root, y)};
      EXPECT_EQ(OpsOf(p).size(), 1);
    }
  }
}

class DenseEpilogueTest : public testing::TestWithParam<std::tuple<bool, const char*>> {};
INSTANTIATE_TEST_SUITE_P(, DenseEpilogueTest, testing::Combine(testing::Bool(), kActivations),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param) ? "Add" : "Bias",
                                               std::get<1>(info.param));
                         });

// Between this test and its AVX2 variant, these sizes exercise every product kernel. With AVX2, 100
// rows and constant weights are split into three blocks.
TEST_P(DenseEpilogueTest, ComputesSameBitsAsSeparateOps) {
  const auto& [adds, activation] = GetParam();
  for (const int64_t rows : {1, 7, 100}) {
    for (const int64_t units : {3, 70}) {
      for (const bool is_constant : {false, true}) {
        SCOPED_TRACE(
            absl::StrCat(rows, " rows, ", units, is_constant ? " constant" : "", " units"));
        PassProgram p;
        const Scope root(&p.graph);
        const auto feed = [&](const Tensor& value, const Shape& declared) {
          p.shapes.push_back(value.shape());
          p.values.push_back(value);
          p.feeds.push_back(ops::Placeholder(root, DT_FLOAT, declared));
          return p.feeds.back();
        };
        const auto fixed = [&](const Tensor& value) {
          return is_constant ? ops::Const(root, value) : feed(value, value.shape());
        };
        const Output x = feed(Integers({rows, 40}), {kUnknownDim, 40});
        Output y = ops::MatMul(root, x, fixed(Integers({40, units})));
        y = ops::BiasAdd(root, y, fixed(Integers({units})));
        if (adds) {
          y = ops::AddV2(root, y, feed(SpecialValues({rows, units}), {kUnknownDim, units}));
        }
        p.fetches = {Activate(root, activation, y)};
        for (const int replicas : {1, 3}) {
          EXPECT_THAT(
              OpsOf(p, replicas),
              ElementsAre(ops::Fused(ops::kMatMul, {.add = adds, .activation = activation})));
        }
      }
    }
  }
}

// Libraries write x * Relu6(x + 3) / 6 in many ways.
TEST(FuseActivationsTest, TransposedProductsAreFused) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const bool is_constant : {false, true}) {
        SCOPED_TRACE(absl::StrCat(transpose_a, transpose_b, is_constant));
        PassProgram p;
        const Scope root(&p.graph);
        const Tensor weights = Integers(transpose_b ? Shape({70, 40}) : Shape({40, 70}));
        p.values = {Integers(transpose_a ? Shape({40, 100}) : Shape({100, 40})), Integers({70}),
                    Integers({100, 70}), weights};
        for (const Tensor& value : p.values) {
          p.shapes.push_back(value.shape());
          p.feeds.push_back(ops::Placeholder(root, DT_FLOAT, value.shape()));
        }
        const Output w = is_constant ? ops::Const(root, weights) : p.feeds[3];
        Output y = ops::MatMul(root, p.feeds[0], w,
                               {.transpose_a = transpose_a, .transpose_b = transpose_b});
        y = ops::AddV2(root, ops::BiasAdd(root, y, p.feeds[1]), p.feeds[2]);
        p.fetches = {ops::Relu(root, y)};
        EXPECT_THAT(OpsOf(p),
                    ElementsAre(ops::Fused(ops::kMatMul, {.add = true, .activation = ops::kRelu})));
      }
    }
  }
}

// A dense layer flattens a batch of sequences to a matrix and reshapes the product back.
TEST(FuseActivationsTest, DenseLayersOnSequencesAreFused) {
  for (const char* activation : {ops::kRelu, ops::kSwish, ops::kHardSwish, ops::kGelu}) {
    PassProgram p;
    const Scope root(&p.graph);
    p.shapes = {{6, 5, 40}, {40, 70}, {70}};
    for (const Shape& shape : p.shapes) {
      p.values.push_back(Integers(shape));
      Shape declared = shape;
      if (shape.rank() == 3) declared.set_dim(0, kUnknownDim);
      p.feeds.push_back(ops::Placeholder(root, DT_FLOAT, declared));
    }
    const Output rows = ops::Reshape(root, p.feeds[0], Shape({kUnknownDim, 40}));
    const Output y =
        ops::Reshape(root, ops::MatMul(root, rows, p.feeds[1]), Shape({kUnknownDim, 5, 70}));
    p.fetches = {Activate(root, activation, ops::BiasAdd(root, y, p.feeds[2]))};
    for (const int replicas : {1, 3}) {
      EXPECT_THAT(OpsOf(p, replicas),
                  ElementsAre(ops::Fused(ops::kMatMul, {.activation = activation})));
    }
  }
}

TEST(FuseActivationsTest, HardSwishIsRecognisedInSeveralForms) {
  using Form = std::function<Output(const Scope&, Output x, Output gate)>;
  const Form forms[] = {
      [](const Scope& s, Output x, Output gate) {  // tf.keras.activations.hard_silu
        return ops::Mul(s, x, ops::RealDiv(s, gate, Number(s, 6)));
      },
      [](const Scope& s, Output x, Output gate) {  // tf.keras.applications.MobileNetV3Small
        return ops::Mul(s, ops::Mul(s, gate, Number(s, 1.0f / 6)), x);
      },
      [](const Scope& s, Output x, Output gate) {
        return ops::RealDiv(s, ops::Mul(s, x, gate), Number(s, 6));
      },
      [](const Scope& s, Output x, Output gate) {
        return ops::Mul(s, ops::RealDiv(s, x, Number(s, 6)), gate);
      },
      [](const Scope& s, Output x, Output gate) {
        const Output third = ops::RealDiv(s, gate, Number(s, 3));
        return ops::Mul(s, Number(s, 0.5f), ops::Mul(s, x, third));
      },
  };
  for (const Form& form : forms) {
    for (const bool from_left : {false, true}) {
      Convolution c(3);
      const Output three = Number(c.root, 3);
      const Output gate = ops::Relu6(
          c.root, from_left ? ops::AddV2(c.root, three, c.y) : ops::AddV2(c.root, c.y, three));
      c.fetches = {form(c.root, c.y, gate)};
      const auto want = c.Run(1, "fuse_epilogues");
      ASSERT_TRUE(want.ok()) << want.status();
      const auto got = c.Run(1);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_THAT(got->ops, ElementsAre(c.FusedName({.activation = ops::kHardSwish})));
      EXPECT_EQ(Difference(want->values[0], got->values[0], {.relative = 1e-6}), "");
    }
  }
}

TEST(FuseActivationsTest, FormulasLikeHardSwishKeepTheirValues) {
  const auto with = [](const Convolution& c, float shift, float divisor, Output* gate = nullptr,
                       Output* scaled = nullptr) {
    const Output relu = ops::Relu6(c.root, ops::AddV2(c.root, c.y, Number(c.root, shift)));
    const Output quotient = ops::RealDiv(c.root, relu, Number(c.root, divisor));
    if (gate != nullptr) *gate = relu;
    if (scaled != nullptr) *scaled = quotient;
    return ops::Mul(c.root, c.y, quotient);
  };
  for (const auto& [shift, divisor] :
       {std::pair(2.0f, 6.0f), std::pair(3.0f, 5.0f), std::pair(3.0f, 0.0f)}) {
    Convolution c(3);
    c.fetches = {with(c, shift, divisor)};
    EXPECT_THAT(OpsOf(c), Contains(c.FusedName()));
  }
  for (const char* fetched : {"x", "gate", "quotient"}) {
    Convolution c(3);
    Output gate, quotient;
    c.fetches = {with(c, 3, 6, &gate, &quotient)};
    c.fetches.push_back(fetched == std::string("x")      ? c.y
                        : fetched == std::string("gate") ? gate
                                                         : quotient);
    EXPECT_THAT(OpsOf(c), Contains(c.FusedName()));
  }
}

TEST(FuseActivationsTest, EitherOperandCanBeAddend) {
  for (const bool from_left : {false, true}) {
    Convolution c(3);
    const Output addend = c.FeedAddend();
    c.fetches = {from_left ? ops::Add(c.root, addend, c.y) : ops::AddV2(c.root, c.y, addend)};
    EXPECT_THAT(OpsOf(c), ElementsAre(c.FusedName({.add = true})));
  }
}

TEST(FuseActivationsTest, SumOfTwoConvolutionsIsFusedIntoOne) {
  for (const bool is_depthwise : {false, true}) {
    for (const int64_t batch : {3, 32}) {
      Convolution c(batch, {.is_depthwise = is_depthwise});
      const Output other = c.Convolve(c.x);
      c.fetches = {ops::Relu(c.root, ops::AddV2(c.root, other, c.y))};
      for (const int replicas : {1, 3}) {
        EXPECT_THAT(
            OpsOf(c, replicas),
            ElementsAre(c.FusedName(), c.FusedName({.add = true, .activation = ops::kRelu})));
      }
    }
  }
}

// An addend that is fetched or used again must not be overwritten.
TEST(FuseActivationsTest, AddendsAreNotOverwritten) {
  for (const int64_t batch : {1, 7, 32}) {
    SCOPED_TRACE(batch);
    const ops::Epilogue adds = {.add = true};
    Convolution fetched(batch);
    Output addend = ops::Abs(fetched.root, fetched.FeedAddend());
    fetched.fetches = {ops::AddV2(fetched.root, fetched.y, addend), addend};
    EXPECT_THAT(OpsOf(fetched), UnorderedElementsAre("Abs", fetched.FusedName(adds)));

    Convolution used(batch);
    addend = ops::Abs(used.root, used.FeedAddend());
    const Output sum = ops::AddV2(used.root, used.y, addend);
    used.fetches = {ops::Mul(used.root, addend, sum)};
    EXPECT_THAT(OpsOf(used), UnorderedElementsAre("Abs", "Mul", used.FusedName(adds)));

    Convolution once(batch);
    once.fetches = {ops::AddV2(once.root, once.y, ops::Abs(once.root, once.FeedAddend()))};
    EXPECT_THAT(OpsOf(once), UnorderedElementsAre("Abs", once.FusedName(adds)));

    Convolution fed(batch);
    addend = fed.FeedAddend();
    fed.fetches = {ops::AddV2(fed.root, fed.y, addend), ops::Neg(fed.root, addend)};
    EXPECT_THAT(OpsOf(fed), UnorderedElementsAre("Neg", fed.FusedName(adds)));
  }
}

// The addend can be the convolution's own input, or a view of it.
TEST(FuseActivationsTest, ImagesCanBeAddend) {
  for (const int64_t batch : {7, 32}) {
    Convolution c(batch, {.is_depthwise = true});
    const Output x = ops::Relu(c.root, c.x);
    c.fetches = {ops::AddV2(c.root, c.Convolve(x), x)};
    EXPECT_THAT(OpsOf(c), ElementsAre("Relu", c.FusedName({.add = true})));
    const Output view = ops::Reshape(c.root, ops::Reshape(c.root, x, {-1, kChannels}),
                                     {-1, kSize, kSize, kChannels});
    c.fetches = {ops::AddV2(c.root, c.Convolve(x), view)};
    EXPECT_THAT(OpsOf(c), ElementsAre("Relu", c.FusedName({.add = true})));
  }
}

TEST(FuseActivationsTest, ResidualBlocksAreFused) {
  Convolution c(7);
  Output x = ops::Relu(c.root, c.y);
  for (int i = 0; i < 2; ++i) {
    const Output inner = ops::Relu6(c.root, c.Convolve(x));
    x = ops::Relu(c.root, ops::AddV2(c.root, c.Convolve(inner), x));
  }
  c.fetches = {x};
  const std::string block = c.FusedName({.add = true, .activation = ops::kRelu});
  const std::string inner = c.FusedName({.activation = ops::kRelu6});
  for (const int replicas : {1, 3}) {
    EXPECT_THAT(OpsOf(c, replicas),
                ElementsAre(c.FusedName({.activation = ops::kRelu}), inner, block, inner, block));
  }
}

// Both operands have the same global shape, but only one of them is sharded.
TEST(FuseActivationsTest, AddendCanBeReplicated) {
  for (const int64_t batch : {1, 7}) {
    Convolution c(batch);
    c.fetches = {ops::AddV2(
        c.root, c.y,
        c.Feed(SpecialValues({batch, kSize, kSize, kChannels}), /*is_replicated=*/true))};
    for (const int replicas : {1, 3}) OpsOf(c, replicas);
  }
}

TEST(FuseActivationsTest, BroadcastSumsAreNotFused) {
  for (const Shape& shape : {Shape({kChannels}), Shape({1, kSize, kSize, kChannels}),
                             Shape({7, 1, 1, kChannels}), Shape({7, kSize, kSize, 1})}) {
    SCOPED_TRACE(shape.ToString());
    Convolution c(7);
    const bool has_rows = shape.dim(0) == 7;
    c.fetches = {ops::AddV2(c.root, c.y, c.Feed(SpecialValues(shape), !has_rows))};
    for (const int replicas : {1, 3}) {
      EXPECT_THAT(OpsOf(c, replicas), ElementsAre(c.FusedName(), "AddV2"));
    }
  }
  // The result is larger than the convolution.
  Convolution smaller(1);
  smaller.fetches = {
      ops::AddV2(smaller.root, smaller.y, smaller.Feed(SpecialValues({2, 7, 16, 16, 64}), true))};
  EXPECT_THAT(OpsOf(smaller), ElementsAre(smaller.FusedName(), "AddV2"));
}

TEST(FuseActivationsTest, ValuesWithOtherUsesAreNotFused) {
  Convolution fetched(3);
  fetched.fetches = {fetched.y, ops::Relu(fetched.root, fetched.y)};
  EXPECT_THAT(OpsOf(fetched), ElementsAre(fetched.FusedName(), "Relu"));

  Convolution twice(3);
  twice.fetches = {ops::AddV2(twice.root, twice.y, twice.y)};
  EXPECT_THAT(OpsOf(twice), ElementsAre(twice.FusedName(), "AddV2"));

  Convolution sum(3);
  const Output s = ops::AddV2(sum.root, sum.y, sum.FeedAddend());
  sum.fetches = {s, ops::Tanh(sum.root, s)};
  EXPECT_THAT(OpsOf(sum), ElementsAre(sum.FusedName({.add = true}), "Tanh"));

  // Swish with a value that something else also uses.
  Convolution swish(3);
  swish.fetches = {Activate(swish.root, ops::kSwish, swish.y), ops::Neg(swish.root, swish.y)};
  const std::vector<std::string> ops = OpsOf(swish);
  EXPECT_THAT(ops, Contains(swish.FusedName()));
  Convolution gate(3);
  const Output sigmoid = ops::Sigmoid(gate.root, gate.y);
  gate.fetches = {ops::Mul(gate.root, sigmoid, gate.y), sigmoid};
  EXPECT_THAT(OpsOf(gate), Contains(gate.FusedName()));
  Convolution from_left(3);
  from_left.fetches = {
      ops::Mul(from_left.root, ops::Sigmoid(from_left.root, from_left.y), from_left.y)};
  EXPECT_THAT(OpsOf(from_left), ElementsAre(from_left.FusedName({.activation = ops::kSwish})));
}

// An epilogue has one sum, before one activation.
TEST(FuseActivationsTest, FurtherOpsStay) {
  Convolution twice(3);
  twice.fetches = {ops::Relu(twice.root, ops::Relu6(twice.root, twice.y))};
  EXPECT_THAT(OpsOf(twice), ElementsAre(twice.FusedName({.activation = ops::kRelu6}), "Relu"));

  Convolution later(3);
  later.fetches = {ops::AddV2(later.root, ops::Relu(later.root, later.y), later.FeedAddend())};
  EXPECT_THAT(OpsOf(later), ElementsAre(later.FusedName({.activation = ops::kRelu}), "AddV2"));

  Convolution sums(3);
  sums.fetches = {
      ops::AddV2(sums.root, ops::AddV2(sums.root, sums.y, sums.FeedAddend()), sums.FeedAddend())};
  EXPECT_THAT(OpsOf(sums), ElementsAre(sums.FusedName({.add = true}), "AddV2"));
}

// The formula divides zero by zero, so the result must be NaN.
TEST(FuseActivationsTest, HardSwishWithFactorsZeroAndInfinityIsNotFused) {
  Convolution c(3);
  const Output gate = ops::Relu6(c.root, ops::AddV2(c.root, c.y, Number(c.root, 3)));
  const Output zero = Number(c.root, 0);
  c.fetches = {ops::RealDiv(c.root, ops::Mul(c.root, c.y, ops::Mul(c.root, gate, zero)), zero)};
  EXPECT_THAT(OpsOf(c), Contains(c.FusedName()));
}

// In reduced precision, a fused layer rounds once, whereas separate ops round after each op.
TEST(FuseActivationsTest, ReducedPrecisionIsFused) {
  Convolution c(7);
  const auto narrow = [&](Output value) { return ops::Cast(c.root, value, DT_BFLOAT16); };
  const Output filter = narrow(c.Fixed(Integers({3, 3, 16, kChannels})));
  const Output bias = narrow(c.Fixed(Integers({kChannels})));
  const Output addend = narrow(c.Feed(Integers({7, kSize, kSize, kChannels})));
  Output y = ops::Conv2D(c.root, narrow(c.x), filter, {1, 1, 1, 1}, "SAME");
  y = ops::AddV2(c.root, ops::BiasAdd(c.root, y, bias), addend);
  c.fetches = {ops::Cast(c.root, ops::Relu(c.root, y), DT_FLOAT)};
  const auto want = c.Run(1, "fuse_epilogues");
  ASSERT_TRUE(want.ok()) << want.status();
  for (const int replicas : {1, 3}) {
    const auto got = c.Run(replicas);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_THAT(got->ops, Contains(c.FusedName({.add = true, .activation = ops::kRelu})));
    EXPECT_EQ(Difference(want->values[0], got->values[0], {.relative = 0.01, .absolute = 0.5}), "");
  }
}

TEST(FuseActivationsTest, DenseLayerInReducedPrecisionIsFused) {
  PassProgram p;
  const Scope root(&p.graph);
  p.shapes = {{7, 40}, {40, 70}, {70}};
  std::vector<Output> narrow;
  for (const Shape& shape : p.shapes) {
    p.values.push_back(Integers(shape));
    p.feeds.push_back(ops::Placeholder(root, DT_FLOAT, shape));
    narrow.push_back(ops::Cast(root, p.feeds.back(), DT_BFLOAT16));
  }
  const Output y = ops::BiasAdd(root, ops::MatMul(root, narrow[0], narrow[1]), narrow[2]);
  p.fetches = {ops::Cast(root, ops::Gelu(root, y), DT_FLOAT)};
  const auto want = p.Run(1, "fuse_epilogues");
  ASSERT_TRUE(want.ok()) << want.status();
  const auto got = p.Run(1);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->ops, Contains(ops::Fused(ops::kMatMul, {.activation = ops::kGelu})));
  EXPECT_EQ(Difference(want->values[0], got->values[0], {.relative = 0.01, .absolute = 0.5}), "");
}

}  // namespace
}  // namespace mirrorflow
