// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_layer_norm.h"

#include <functional>
#include <vector>

#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/run_without_pass.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

constexpr int64_t kColumns = 7;

// The operands of a layer normalisation, and what tests vary.
struct Operands {
  Output x, gamma, beta;
  std::vector<int64_t> axes = {-1};
  bool keep_dims = true;
  Output epsilon;
};
using Make = std::function<Output(const Scope&, const Operands&)>;

Output MeanOf(const Scope& s, Output x, const Operands& o) {
  return ops::Mean(s, x, o.axes, {.keep_dims = o.keep_dims});
}

Output InverseDeviation(const Scope& s, const Operands& o, Output mean) {
  const Output variance = MeanOf(s, ops::SquaredDifference(s, o.x, mean), o);
  return ops::Rsqrt(s, ops::AddV2(s, variance, o.epsilon));
}

// Keras 3.
const Make kKeras = [](const Scope& s, const Operands& o) {
  const Output mean = MeanOf(s, o.x, o);
  const Output scale = ops::Mul(s, InverseDeviation(s, o, mean), o.gamma);
  return ops::AddV2(s, ops::Mul(s, o.x, scale),
                    ops::AddV2(s, ops::Mul(s, ops::Neg(s, mean), scale), o.beta));
};
// tf.nn.batch_normalization.
const Make kTensorFlow = [](const Scope& s, const Operands& o) {
  const Output mean = MeanOf(s, o.x, o);
  const Output scale = ops::Mul(s, InverseDeviation(s, o, mean), o.gamma);
  return ops::AddV2(s, ops::Mul(s, o.x, scale), ops::Sub(s, o.beta, ops::Mul(s, mean, scale)));
};
// The definition.
const Make kDefinition = [](const Scope& s, const Operands& o) {
  const Output mean = MeanOf(s, o.x, o), difference = ops::Sub(s, o.x, mean);
  const Output variance = MeanOf(s, ops::Square(s, difference), o);
  const Output inverse = ops::Rsqrt(s, ops::AddV2(s, o.epsilon, variance));
  return ops::AddV2(s, o.beta, ops::Mul(s, ops::Mul(s, difference, inverse), o.gamma));
};

struct Program : PassProgram {
  explicit Program(const Make& make, const Shape& parameters = {kColumns}, double epsilon = 1e-3) {
    shapes = {{6, 5, kColumns}, parameters, parameters};
    feeds = {ops::Placeholder(root, DT_FLOAT, Shape({kUnknownDim, 5, kColumns})),
             ops::Placeholder(root, DT_FLOAT, parameters),
             ops::Placeholder(root, DT_FLOAT, parameters)};
    operands = {.x = feeds[0], .gamma = feeds[1], .beta = feeds[2]};
    operands.epsilon = ops::ScalarConst(root, DT_FLOAT, epsilon);
    fetches = {make(root, operands)};
  }

  const Scope root{&graph};
  Operands operands;
};

// Returns how many LayerNorm ops the pass creates. The count must be the same on one replica and on
// three, and the values must equal those on one replica without the pass.
int64_t Fused(const PassProgram& program) {
  const auto want = program.Run(1, "fuse_layer_norm");
  EXPECT_TRUE(want.ok()) << want.status();
  int64_t fused = -1;
  for (const int replicas : {1, 3}) {
    const auto got = program.Run(replicas);
    EXPECT_TRUE(got.ok()) << got.status();
    if (!want.ok() || !got.ok()) return -1;
    EXPECT_EQ(want->Count("LayerNorm"), 0);
    for (size_t i = 0; i < want->values.size(); ++i) {
      EXPECT_EQ(Difference(want->values[i], got->values[i], {.relative = 1e-4, .absolute = 1e-4}),
                "");
    }
    if (replicas == 1) fused = got->Count("LayerNorm");
    EXPECT_EQ(fused, got->Count("LayerNorm"));
  }
  return fused;
}

TEST(FuseLayerNormTest, EachFormulaBecomesOneOp) {
  for (const Make& make : {kKeras, kTensorFlow, kDefinition}) {
    EXPECT_EQ(Fused(Program(make)), 1);
    EXPECT_EQ(Fused(Program(make, {1, 1, kColumns})), 1);
    EXPECT_EQ(Fused(Program(make, {kColumns}, 0.5)), 1);
  }
}

TEST(FuseLayerNormTest, LayersAfterResidualSumsAreFused) {
  const Make make = [](const Scope& s, const Operands& o) {
    Operands next = o;
    for (const Make& norm : {kKeras, kTensorFlow, kDefinition}) {
      next.x = ops::AddV2(s, ops::Tanh(s, next.x), norm(s, next));
    }
    return next.x;
  };
  EXPECT_EQ(Fused(Program(make)), 3);
}

TEST(FuseLayerNormTest, OtherFormulasAreNotFused) {
  const auto with = [](const Make& make, auto change) {
    return [make, change](const Scope& s, Operands o) {
      change(s, o);
      return make(s, o);
    };
  };
  for (const Make& make : {kKeras, kTensorFlow, kDefinition}) {
    // Other dimensions.
    for (const std::vector<int64_t>& axes : std::vector<std::vector<int64_t>>{{1}, {1, 2}}) {
      EXPECT_EQ(Fused(Program(with(make, [=](const Scope&, Operands& o) { o.axes = axes; }))), 0);
    }
    // An epsilon that is not a constant.
    EXPECT_EQ(Fused(Program(with(make,
                                 [](const Scope& s, Operands& o) {
                                   o.epsilon = ops::Abs(s, ops::Mean(s, o.gamma, {0}));
                                 }))),
              0);
    // One number for all columns, or numbers for each row.
    EXPECT_EQ(Fused(Program(make, {1})), 0);
    EXPECT_EQ(Fused(Program(make, {5, kColumns})), 0);
  }
  const std::vector<Make> others = {
      // The wrong sign of the mean, and of the whole.
      [](const Scope& s, const Operands& o) {
        const Output mean = MeanOf(s, o.x, o);
        const Output scale = ops::Mul(s, InverseDeviation(s, o, mean), o.gamma);
        return ops::AddV2(s, ops::Mul(s, o.x, scale),
                          ops::AddV2(s, ops::Mul(s, mean, scale), o.beta));
      },
      [](const Scope& s, const Operands& o) {
        const Output mean = MeanOf(s, o.x, o);
        const Output normal = ops::Mul(s, ops::Sub(s, mean, o.x), InverseDeviation(s, o, mean));
        return ops::AddV2(s, ops::Mul(s, normal, o.gamma), o.beta);
      },
      // The mean and the variance of different values.
      [](const Scope& s, const Operands& o) {
        const Output mean = MeanOf(s, ops::Tanh(s, o.x), o);
        const Output normal = ops::Mul(s, ops::Sub(s, o.x, mean), InverseDeviation(s, o, mean));
        return ops::AddV2(s, ops::Mul(s, normal, o.gamma), o.beta);
      },
      // No beta.
      [](const Scope& s, const Operands& o) {
        const Output mean = MeanOf(s, o.x, o);
        return ops::Mul(s, ops::Mul(s, ops::Sub(s, o.x, mean), InverseDeviation(s, o, mean)),
                        o.gamma);
      },
  };
  for (size_t i = 0; i < others.size(); ++i) EXPECT_EQ(Fused(Program(others[i])), 0) << i;
}

TEST(FuseLayerNormTest, ValuesWithOtherUsesAreNotFused) {
  for (const char* op : {"Rsqrt", "SquaredDifference"}) {
    Program program(kTensorFlow);
    for (Node* node : program.graph.Nodes()) {
      if (node->op().name == op) program.fetches.push_back(node->output(0));
    }
    EXPECT_EQ(Fused(program), 0);
  }
}

TEST(FuseLayerNormTest, LastDimensionCanBeNamedByItsIndex) {
  const Make make = [](const Scope& s, Operands o) {
    o.axes = {2};
    return kKeras(s, o);
  };
  EXPECT_EQ(Fused(Program(make)), 1);
}

// Removing a node with control inputs would lose the order that they impose.
TEST(FuseLayerNormTest, NodesThatWaitForOthersAreNotFused) {
  for (const Make& make : {kKeras, kTensorFlow, kDefinition}) {
    const size_t count = Program(make).graph.Nodes().size();
    for (size_t i = 0; i < count; ++i) {
      Program program(make);
      Node* const node = program.graph.Nodes()[i];
      if (node->op().name == "Placeholder") continue;
      program.graph.AddControlEdge(ops::Placeholder(program.root, DT_FLOAT, Shape({})).node, node);
      program.feeds.push_back(program.graph.Nodes().back()->output(0));
      program.shapes.push_back({});
      // The root may have control inputs, because its replacement takes them over.
      EXPECT_EQ(Fused(program), node == program.fetches[0].node ? 1 : 0) << node->name();
    }
  }
}

TEST(FuseLayerNormTest, LongChainsOfSumsAndProductsCompile) {
  const Make make = [](const Scope& s, const Operands& o) {
    Output y = o.x;
    for (int i = 0; i < 5'000; ++i)
      y = i % 3 == 0 ? ops::AddV2(s, y, o.beta) : ops::Mul(s, y, o.gamma);
    return ops::Tanh(s, y);
  };
  EXPECT_EQ(Fused(Program(make)), 0);
}

TEST(FuseLayerNormTest, MeanCanHaveOtherUses) {
  Program program(kKeras);
  for (Node* node : program.graph.Nodes()) {
    if (node->op().name == "Neg") program.fetches.push_back(node->input(0));
  }
  EXPECT_EQ(Fused(program), 1);
}

}  // namespace
}  // namespace mirrorflow
