// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_epilogues.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/conv2d.h"
#include "ops/fused_ops.h"
#include "ops/matmul.h"
#include "ops/unary.h"
#include "tests/support/compilation.h"
#include "tests/support/run_without_pass.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

struct Layer : PassProgram {
  // `make(scope, x, weights, bias)` returns the fetches. The bias has the length of the weights'
  // last dimension.
  Layer(const Shape& x, const Shape& weights,
        const std::function<std::vector<Output>(const Scope&, Output, Output, Output)>& make) {
    shapes = {x, weights, Shape({weights.dim(weights.rank() - 1)})};
    const Scope root(&graph);
    for (const Shape& shape : shapes) {
      Shape declared = shape;
      if (feeds.empty()) declared.set_dim(0, kUnknownDim);
      feeds.push_back(ops::Placeholder(root, DT_FLOAT, declared));
    }
    fetches = make(root, feeds[0], feeds[1], feeds[2]);
  }
};

// Returns how many biases are fused on `replicas` replicas. The values must equal those on one
// replica without the pass.
int Fused(const Layer& layer, int replicas) {
  const auto fused_in = [](const PassProgram::Outcome& outcome) {
    return static_cast<int>(std::ranges::count_if(
        outcome.ops, [](const std::string& op) { return ops::AsFused(op).has_value(); }));
  };
  const auto want = layer.Run(1, "fuse_epilogues");
  EXPECT_TRUE(want.ok()) << want.status();
  const auto got = layer.Run(replicas);
  EXPECT_TRUE(got.ok()) << got.status();
  if (!want.ok() || !got.ok()) return -1;
  EXPECT_EQ(fused_in(*want), 0);
  for (size_t i = 0; i < want->values.size(); ++i) {
    EXPECT_EQ(Difference(want->values[i], got->values[i], {.relative = 1e-5, .absolute = 1e-5}),
              "");
  }
  return fused_in(*got);
}

// Returns how many biases are fused. The count must be the same on one replica and on three.
int Fused(const Layer& layer) {
  const int one = Fused(layer, 1), three = Fused(layer, 3);
  EXPECT_EQ(one, three);
  return one;
}

using Values = std::vector<Output>;

// The kernel divides pixels or images into blocks. Here the last block of pixels overlaps the block
// before it, and 11 images can be divided only into single ones.
TEST(FuseEpiloguesTest, BlocksOfUnevenSizesCoverAllPixels) {
  struct Case {
    Shape images, filter;
  };
  for (const Case& c :
       {Case{{1, 31, 37, 16}, {1, 1, 16, 64}}, Case{{7, 13, 17, 40}, {1, 1, 40, 56}},
        Case{{11, 12, 12, 16}, {3, 3, 16, 64}}}) {
    const Layer layer(
        c.images, c.filter, [&](const Scope& s, Output x, Output filter, Output bias) {
          const Output y = ops::BiasAdd(s, ops::Conv2D(s, x, filter, {1, 1, 1, 1}, "SAME"), bias);
          const Output addend = ops::Conv2D(s, ops::Sin(s, x), filter, {1, 1, 1, 1}, "SAME");
          return std::vector<Output>{ops::Relu(s, ops::AddV2(s, y, addend))};
        });
    const auto want = layer.Run(1, "fuse_epilogues"), got = layer.Run(1);
    ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
    EXPECT_EQ(got->Count(ops::Fused(ops::kConv2D, {.add = true, .activation = ops::kRelu})), 1);
    EXPECT_EQ(Difference(want->values[0], got->values[0], {.relative = 1e-5, .absolute = 1e-5}),
              "");
  }
}

TEST(FuseEpiloguesTest, ProductAddsBias) {
  // The shapes lead to oneDNN, to plain loops, and to a replica without rows.
  for (const Shape& x : {Shape({48, 64}), Shape({5, 7}), Shape({2, 64})}) {
    const Layer layer(x, {x.dim(1), 40}, [](const Scope& s, Output x, Output w, Output b) {
      return Values{ops::Relu(s, ops::BiasAdd(s, ops::MatMul(s, x, w), b))};
    });
    EXPECT_EQ(Fused(layer), 1);
  }
}

// Layers reshape inputs of more than two dimensions for the product, and then its result.
TEST(FuseEpiloguesTest, ProductBehindReshapesAddsBias) {
  for (const int64_t rows : {1, 6}) {
    const Layer layer({rows, 5, 64}, {64, 40}, [](const Scope& s, Output x, Output w, Output b) {
      const Output product = ops::MatMul(s, ops::Reshape(s, x, Shape({kUnknownDim, 64})), w);
      const Output y = ops::Reshape(s, product, Shape({kUnknownDim, 5, 40}));
      return Values{ops::BiasAdd(s, ops::ExpandDims(s, y, 1), b)};
    });
    EXPECT_EQ(Fused(layer), 1);
  }
}

TEST(FuseEpiloguesTest, ConvolutionBehindReshapeHasBiasAndActivation) {
  for (const bool reshapes_first : {false, true}) {
    for (const bool is_swish : {false, true}) {
      SCOPED_TRACE(absl::StrCat(reshapes_first, is_swish));
      const Layer layer(
          {4, 9, 9, 16}, {3, 3, 16, 8}, [&](const Scope& s, Output x, Output w, Output b) {
            const auto reshape = [&](Output y, bool now) {
              return now ? ops::Reshape(s, y, Shape({kUnknownDim, 81, 8})) : y;
            };
            Output y = ops::Conv2D(s, x, w, {1, 1, 1, 1}, "SAME");
            y = ops::BiasAdd(s, reshape(y, reshapes_first), b);
            y = reshape(y, !reshapes_first);
            return Values{is_swish ? ops::Mul(s, y, ops::Sigmoid(s, y)) : ops::Relu(s, y)};
          });
      const auto want = layer.Run(1, "fuse_epilogues");
      ASSERT_TRUE(want.ok()) << want.status();
      for (const int replicas : {1, 3}) {
        const auto got = layer.Run(replicas);
        ASSERT_TRUE(got.ok()) << got.status();
        const std::string activation = is_swish ? ops::kSwish : ops::kRelu;
        EXPECT_EQ(got->Count(ops::Fused(ops::kConv2D, {.activation = activation})), 1);
        EXPECT_EQ(Difference(want->values[0], got->values[0], {.relative = 1e-5, .absolute = 1e-5}),
                  "");
      }
    }
  }
}

// The sum has another value on each replica, so a fetch returns none of them.
TEST(FuseEpiloguesTest, BiasOfEachReplicaIsNotMovedBeforeReshape) {
  const Layer layer({6, 8}, {8, 8}, [](const Scope& s, Output /*x*/, Output w, Output b) {
    const Output y = ops::Reshape(s, ops::MatMul(s, w, w), Shape({8, 1, 8}));
    const Output replica = ops::Cast(s, ops::ReplicaIndex(s), DT_FLOAT);
    return Values{ops::BiasAdd(s, y, ops::AddV2(s, b, replica))};
  });
  for (const char* without : {"fuse_epilogues", ""}) {
    const auto outcome = layer.Run(3, without);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_FALSE(outcome->values[0].has_value()) << without;
  }
}

TEST(FuseEpiloguesTest, LeavesUnsupportedReshapesUnchanged) {
  // The channels of the bias are not those of the product.
  const Layer split({6, 7}, {7, 8}, [](const Scope& s, Output x, Output w, Output b) {
    const Output y = ops::Reshape(s, ops::MatMul(s, x, w), Shape({kUnknownDim, 4}));
    return Values{ops::BiasAdd(s, y, ops::Mean(s, ops::Reshape(s, b, Shape({2, 4})), {0}))};
  });
  EXPECT_EQ(Fused(split), 0);
  const auto reshaped = [](const Scope& s, Output x, Output w) {
    return ops::Reshape(s, ops::MatMul(s, x, w), Shape({kUnknownDim, 1, 8}));
  };
  const Layer used_twice({6, 7}, {7, 8}, [&](const Scope& s, Output x, Output w, Output b) {
    const Output y = reshaped(s, x, w);
    return Values{ops::BiasAdd(s, y, b), ops::Sin(s, y)};
  });
  EXPECT_EQ(Fused(used_twice), 0);
  // The bias waits for a node that waits for the product.
  const Layer ordered({6, 7}, {7, 8}, [&](const Scope& s, Output x, Output w, Output b) {
    const Output y = reshaped(s, x, w);
    const Output after = ops::Sin(s.WithControlDependencies({Operation{y.node}}), x);
    return Values{ops::BiasAdd(s.WithControlDependencies({Operation{after.node}}), y, b), after};
  });
  EXPECT_EQ(Fused(ordered), 0);
}

TEST(FuseEpiloguesTest, ConvolutionAddsBias) {
  for (const char* padding : {"SAME", "VALID"}) {
    const Layer layer({4, 9, 9, 3}, {3, 3, 3, 8},
                      [&](const Scope& s, Output x, Output w, Output b) {
                        const Output y = ops::Conv2D(s, x, w, {1, 2, 2, 1}, padding);
                        return Values{ops::BiasAdd(s, y, b)};
                      });
    EXPECT_EQ(Fused(layer), 1);
  }
}

TEST(FuseEpiloguesTest, ProductWithOtherUsesIsNotFused) {
  const Layer fetched({6, 7}, {7, 8}, [](const Scope& s, Output x, Output w, Output b) {
    const Output y = ops::MatMul(s, x, w);
    return Values{y, ops::BiasAdd(s, y, b)};
  });
  EXPECT_EQ(Fused(fetched), 0);
  const Layer used({6, 7}, {7, 8}, [](const Scope& s, Output x, Output w, Output b) {
    const Output y = ops::MatMul(s, x, w);
    return Values{ops::Neg(s, y), ops::BiasAdd(s, y, b)};
  });
  EXPECT_EQ(Fused(used), 0);
}

// The unsupported cases are a product without terms, which leaves only the bias, and the
// channels-first format.
TEST(FuseEpiloguesTest, LeavesUnsupportedCasesUnchanged) {
  const Layer empty({6, 0}, {0, 8}, [](const Scope& s, Output x, Output w, Output b) {
    return Values{ops::BiasAdd(s, ops::MatMul(s, x, w), b)};
  });
  EXPECT_EQ(Fused(empty), 0);
  const Layer nchw({4, 3, 9, 9}, {3, 3, 3, 8}, [](const Scope& s, Output x, Output w, Output b) {
    const Output y = ops::Conv2D(s, x, w, {1, 1, 1, 1}, "SAME", {.data_format = "NCHW"});
    return Values{ops::BiasAdd(s, y, b, {.data_format = "NCHW"})};
  });
  EXPECT_EQ(Fused(nchw), 0);
}

// If a product sums over a sharded dimension, the bias is added once, after the reduction.
TEST(FuseEpiloguesTest, PartialProductIsReducedBeforeBias) {
  const Layer layer({6, 7}, {7, 8}, [](const Scope& s, Output x, Output w, Output b) {
    const Output sum = ops::MatMul(s, x, ops::MatMul(s, x, w), {.transpose_a = true});
    return Values{ops::BiasAdd(s, sum, b)};
  });
  EXPECT_EQ(Fused(layer, 1), 1);
  EXPECT_EQ(Fused(layer, 3), 0);
}

// --- backward -----------------------------------------------------------------------------------

// Returns kernels that make the device support fused nodes. The kernels never run;
// tests/cuda/strategy_test.cc checks what real ones compute.
const KernelRegistry& Kernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry();
    for (const std::string& op :
         {ops::Fused(ops::kMatMul), ops::Fused(ops::kMatMul, {.activation = ops::kRelu}),
          std::string(ops::kMatMulReluGrad)}) {
      kernels->Register(op, "CPU", [](const KernelContext&) -> absl::StatusOr<KernelPlan> {
        return absl::UnimplementedError("never run");
      });
    }
    return kernels;
  }();
  return *registry;
}

// The fused layer is created after the nodes of its gradients, so the text lists it after them.
constexpr char kLayer[] = R"(
x = Placeholder() {dtype=float, shape=<6,4>}
w = Placeholder() {dtype=float, shape=<4,5>}
b = Placeholder() {dtype=float, shape=<5>}
dz = Placeholder() {dtype=float, shape=<6,3>}
v = Placeholder() {dtype=float, shape=<5,3>}
product = MatMul(x, w) {T=float}
sum = BiasAdd(product, b) {T=float}
act = Relu(sum) {T=float}
dact = MatMul(dz, v) {T=float, transpose_b=true}
dsum = ReluGrad(dact, act) {T=float}
db = BiasAddGrad(dsum) {T=float}
dw = MatMul(x, dsum) {T=float, transpose_a=true}
)";

// Returns the step's text after the pass: one line per node, without placeholders.
std::string FusedText(const std::string& more, std::vector<std::string> fetches,
                      const KernelRegistry& kernels = Kernels()) {
  const auto step = ParseStep(kLayer + more, {.fetches = std::move(fetches)});
  if (!step.ok()) return step.status().ToString();
  Compilation& c = (*step)->c;
  c.kernels = &kernels;
  c.RemoveDeadNodes();
  const absl::Status ran = RunPasses(c, FuseEpilogues());
  if (!ran.ok()) return ran.ToString();
  std::string result;
  for (const Node* node : c.graph.Nodes()) {
    if (node->op().role == OpRole::kPlaceholder) continue;
    absl::StrAppend(&result, node->op().name, "(");
    for (const Output& input : node->inputs()) absl::StrAppend(&result, " ", input.ToString());
    absl::StrAppend(&result, " )");
    for (int i = 0; i < node->num_outputs(); ++i) {
      absl::StrAppend(&result, " ", c.values().shape(node->output(i)).ToString());
    }
    result += "\n";
  }
  return "\n" + result;
}

TEST(FuseEpiloguesTest, ProductComputesGradientsOfReluAndBias) {
  EXPECT_EQ(FusedText("", {"act", "db", "dw"}), R"(
MatMul( x dsum_1 ) [4,5]
_FusedMatMulRelu( x w b ) [6,5] [6,16]
_MatMulReluGrad( dz v act_1_1:1 act_1_1 ) [6,5] [5]
)");
}

TEST(FuseEpiloguesTest, LeavesOtherGradientsUnchanged) {
  const auto stays = [](const std::string& more, std::vector<std::string> fetches) {
    const std::string fused = FusedText(more, std::move(fetches));
    return fused.find("ReluGrad( dact act") != std::string::npos &&
           fused.find("_MatMulReluGrad") == std::string::npos;
  };
  // In these cases, the product has another use or is fetched, there is no bias, or the device
  // lacks such kernels.
  EXPECT_TRUE(stays("other = Neg(dact) {T=float}", {"db", "dw", "other"}));
  EXPECT_TRUE(stays("", {"db", "dw", "dact"}));
  EXPECT_TRUE(stays("", {"dw"}));
  EXPECT_EQ(FusedText("", {"db"}, KernelRegistry()).find("_"), std::string::npos);
}

}  // namespace
}  // namespace mirrorflow
