// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_gelu.h"

#include <functional>
#include <vector>

#include "framework/graph/gradients.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/run_without_pass.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

using Make = std::function<Output(const Scope&, Output)>;

struct Program : PassProgram {
  explicit Program(const Make& make) {
    const Scope root(&graph);
    shapes = {{6, 5, 7}};
    feeds = {ops::Placeholder(root, DT_FLOAT, Shape({kUnknownDim, 5, 7}))};
    fetches = {make(root, feeds[0])};
    disabled_passes = {"fuse_elementwise"};  // it also fuses Gelu
  }
};

// Returns how many Gelu ops the pass creates. The count must be the same on one replica and on
// three, and the values must equal those on one replica without the pass.
int64_t Fused(const Program& program) {
  const auto want = program.Run(1, "fuse_gelu");
  EXPECT_TRUE(want.ok()) << want.status();
  int64_t fused = -1;
  for (const int replicas : {1, 3}) {
    const auto got = program.Run(replicas);
    EXPECT_TRUE(got.ok()) << got.status();
    if (!want.ok() || !got.ok()) return -1;
    EXPECT_EQ(want->Count("Gelu"), 0);
    for (size_t i = 0; i < want->values.size(); ++i) {
      EXPECT_EQ(Difference(want->values[i], got->values[i], {.relative = 1e-5, .absolute = 1e-6}),
                "");
    }
    if (replicas == 1) fused = got->Count("Gelu");
    EXPECT_EQ(fused, got->Count("Gelu"));
  }
  return fused;
}

Output Number(const Scope& s, double x) { return ops::ScalarConst(s, DT_FLOAT, x); }
Output Times(const Scope& s, double a, Output x) { return ops::Mul(s, Number(s, a), x); }
Output OnePlus(const Scope& s, Output x) { return ops::AddV2(s, Number(s, 1), x); }

constexpr double kRootOfHalf = 0.70710678118654752440;
constexpr double kRootOfTwoOverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;

// Keras 3: x * 0.5 * erfc(-x * √½).
const Make kKeras = [](const Scope& s, Output x) {
  const Output z = ops::Mul(s, ops::Neg(s, x), Number(s, kRootOfHalf));
  return ops::Mul(s, ops::Mul(s, Number(s, 0.5), x), ops::Erfc(s, z));
};
// tf.nn.gelu: 0.5 * x * (1 + erf(x / √2)).
const Make kTensorFlow = [](const Scope& s, Output x) {
  const Output z = ops::RealDiv(s, x, Number(s, 1.41421356237));
  return ops::Mul(s, Times(s, 0.5, x), OnePlus(s, ops::Erf(s, z)));
};
// PyTorch's exporter: x * (1 + erf(x / √2)) * 0.5.
const Make kPyTorch = [](const Scope& s, Output x) {
  const Output z = Times(s, kRootOfHalf, x);
  const Output twice = ops::Mul(s, x, ops::AddV2(s, ops::Erf(s, z), Number(s, 1)));
  return ops::Mul(s, twice, Number(s, 0.5));
};
// BERT's first implementation: x * (0.5 * (1 + erf(x / √2))).
const Make kBert = [](const Scope& s, Output x) {
  const Output z = ops::RealDiv(s, x, Number(s, 1.41421356237));
  return ops::Mul(s, x, Times(s, 0.5, OnePlus(s, ops::Erf(s, z))));
};
Output Approximate(const Scope& s, Output x, Output cube) {
  const Output z = Times(s, kRootOfTwoOverPi, ops::AddV2(s, x, Times(s, kCubic, cube)));
  return ops::Mul(s, Times(s, 0.5, x), OnePlus(s, ops::Tanh(s, z)));
}
const Make kApproximate = [](const Scope& s, Output x) {
  return Approximate(s, x, ops::Pow(s, x, Number(s, 3)));
};
const Make kApproximateByProducts = [](const Scope& s, Output x) {
  return Approximate(s, x, ops::Mul(s, ops::Mul(s, x, x), x));
};
const Make kApproximateBySquare = [](const Scope& s, Output x) {
  return Approximate(s, x, ops::Mul(s, x, ops::Square(s, x)));
};

TEST(FuseGeluTest, EachFormulaBecomesOneOp) {
  for (const Make& make : {kKeras, kTensorFlow, kPyTorch, kBert, kApproximate,
                           kApproximateByProducts, kApproximateBySquare}) {
    EXPECT_EQ(Fused(Program(make)), 1);
  }
}

TEST(FuseGeluTest, GeluOfScaledInputIsFused) {
  for (const Make& gelu : {kKeras, kBert, kApproximate}) {
    const Make make = [&](const Scope& s, Output x) {
      return Times(s, 3, gelu(s, ops::Mul(s, ops::Neg(s, x), Number(s, 0.25))));
    };
    EXPECT_EQ(Fused(Program(make)), 1);
  }
}

TEST(FuseGeluTest, LayersAreFusedOneByOne) {
  const Make make = [](const Scope& s, Output x) {
    return ops::Mul(s, kKeras(s, kTensorFlow(s, x)), kApproximate(s, x));
  };
  EXPECT_EQ(Fused(Program(make)), 3);
}

TEST(FuseGeluTest, OtherFormulasAreNotFused) {
  const std::vector<Make> others = {
      // A different factor, outside and inside.
      [](const Scope& s, Output x) {
        return ops::Mul(s, x, OnePlus(s, ops::Erf(s, Times(s, kRootOfHalf, x))));
      },
      [](const Scope& s, Output x) {
        return ops::Mul(s, Times(s, 0.5, x), OnePlus(s, ops::Erf(s, x)));
      },
      // The wrong sign.
      [](const Scope& s, Output x) {
        return ops::Mul(s, Times(s, 0.5, x), ops::Erfc(s, Times(s, kRootOfHalf, x)));
      },
      // Two different inputs.
      [](const Scope& s, Output x) {
        const Output z = Times(s, kRootOfHalf, ops::Sin(s, x));
        return ops::Mul(s, Times(s, 0.5, x), OnePlus(s, ops::Erf(s, z)));
      },
      // 2 instead of 1, and a different coefficient of the cube.
      [](const Scope& s, Output x) {
        const Output z = Times(s, kRootOfHalf, x);
        return ops::Mul(s, Times(s, 0.5, x), ops::AddV2(s, Number(s, 2), ops::Erf(s, z)));
      },
      [](const Scope& s, Output x) {
        return Approximate(s, x, ops::Mul(s, ops::Square(s, x), ops::Square(s, x)));
      },
      [](const Scope& s, Output x) {
        return Approximate(s, x, Times(s, 2, ops::Pow(s, x, Number(s, 3))));
      },
      // A division by x.
      [](const Scope& s, Output x) {
        const Output cdf = OnePlus(s, ops::Erf(s, Times(s, kRootOfHalf, x)));
        return ops::RealDiv(s, Times(s, 0.5, cdf), x);
      },
  };
  for (size_t i = 0; i < others.size(); ++i) EXPECT_EQ(Fused(Program(others[i])), 0) << i;
}

TEST(FuseGeluTest, FactorsMustBeScalars) {
  for (const Shape& shape : {Shape({1}), Shape({1, 1, 1, 1})}) {
    const Make make = [&](const Scope& s, Output x) {
      const Output half = ops::Reshape(s, Number(s, 0.5), shape);
      return ops::Mul(s, ops::Mul(s, half, x), OnePlus(s, ops::Erf(s, Times(s, kRootOfHalf, x))));
    };
    EXPECT_EQ(Fused(Program(make)), 0);
  }
}

TEST(FuseGeluTest, ValuesInDoublePrecisionAreNotFused) {
  const Make make = [](const Scope& s, Output in) {
    const auto number = [&](double value) { return ops::ScalarConst(s, DT_DOUBLE, value); };
    const Output x = ops::Cast(s, in, DT_DOUBLE);
    const Output erf = ops::Erf(s, ops::Mul(s, x, number(kRootOfHalf)));
    const Output cdf = ops::Mul(s, ops::AddV2(s, erf, number(1)), number(0.5));
    return ops::Cast(s, ops::Mul(s, x, cdf), DT_FLOAT);
  };
  EXPECT_EQ(Fused(Program(make)), 0);
}

TEST(FuseGeluTest, ValuesWithOtherUsesAreNotFused) {
  for (const char* op : {"Erfc", "Erf", "Tanh", "AddV2"}) {
    for (const Make& make : {kKeras, kTensorFlow, kPyTorch, kBert, kApproximate}) {
      Program program(make);
      for (Node* node : program.graph.Nodes()) {
        if (node->op().name == op) program.fetches.push_back(node->output(0));
      }
      if (program.fetches.size() == 1) continue;
      EXPECT_EQ(Fused(program), 0) << op;
    }
  }
}

TEST(FuseGeluTest, GradientsKeepSeparateOps) {
  for (const Make& make : {kKeras, kTensorFlow, kPyTorch, kBert, kApproximate}) {
    Program program(make);
    const Scope root(&program.graph);
    const auto gradients = Gradients(root, {program.fetches[0]}, {program.feeds[0]});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    program.fetches.push_back((*gradients)[0]);
    EXPECT_EQ(Fused(program), 0);
  }
}

// Removing a node with control inputs would lose the order that they impose.
TEST(FuseGeluTest, NodesThatWaitForOthersAreNotFused) {
  for (const Make& make : {kKeras, kTensorFlow, kPyTorch, kBert, kApproximate}) {
    const size_t count = Program(make).graph.Nodes().size();
    for (size_t i = 0; i < count; ++i) {
      Program program(make);
      Node* const node = program.graph.Nodes()[i];
      if (node == program.feeds[0].node) continue;
      const Scope root(&program.graph);
      program.graph.AddControlEdge(ops::Placeholder(root, DT_FLOAT, Shape({})).node, node);
      program.feeds.push_back(program.graph.Nodes().back()->output(0));
      program.shapes.push_back({});
      EXPECT_EQ(Fused(program), 0) << node->name();
    }
  }
}

TEST(FuseGeluTest, LongChainOfProductsCompiles) {
  const Make make = [](const Scope& s, Output x) {
    for (int i = 0; i < 5'000; ++i) x = Times(s, i % 2 == 0 ? 0.5 : 2, x);
    return x;
  };
  EXPECT_EQ(Fused(Program(make)), 0);
}

}  // namespace
}  // namespace mirrorflow
