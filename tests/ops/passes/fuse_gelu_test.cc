// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_gelu.h"

#include <functional>
#include <vector>

#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/run_without_pass.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

using Make = std::function<Output(const Scope&, Output)>;

struct Program : PassProgram {
  explicit Program(const Make& make, DataType dtype = DT_FLOAT) {
    const Scope root(&graph);
    shapes = {{6, 5, 7}};
    feeds = {ops::Placeholder(root, dtype, Shape({kUnknownDim, 5, 7}))};
    fetches = {make(root, feeds[0])};
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

TEST(FuseGeluTest, ValuesWithOtherUsesAreNotFused) {
  Program program(kKeras);
  for (Node* node : program.graph.Nodes()) {
    if (node->op().name == "Erfc") program.fetches.push_back(node->output(0));
  }
  EXPECT_EQ(Fused(program), 0);
}

TEST(FuseGeluTest, NodesThatWaitForOthersAreNotFused) {
  Program program(kBert);
  Node* const fed = program.feeds[0].node;
  for (Node* node : program.graph.Nodes()) {
    if (node->op().name == "Erf") program.graph.AddControlEdge(fed, node);
  }
  EXPECT_EQ(Fused(program), 0);
}

}  // namespace
}  // namespace mirrorflow
