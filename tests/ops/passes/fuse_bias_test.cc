// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_bias.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "ops/fused_ops.h"
#include "ops/ops.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

struct Layer {
  Graph graph;
  std::vector<Output> feeds, fetches;
  std::vector<Shape> shapes;  // of what is fed

  // `make(scope, x, weights, bias)` returns what is fetched. The bias is as long as the last
  // dimension of the weights.
  Layer(const Shape& x, const Shape& weights,
        const std::function<std::vector<Output>(const Scope&, Output, Output, Output)>& make)
      : shapes({x, weights, Shape({weights.dim(weights.rank() - 1)})}) {
    const Scope root(&graph);
    for (const Shape& shape : shapes) {
      Shape declared = shape;
      if (feeds.empty()) declared.set_dim(0, kUnknownDim);
      feeds.push_back(ops::Placeholder(root, DT_FLOAT, declared));
    }
    fetches = make(root, feeds[0], feeds[1], feeds[2]);
  }

  struct Outcome {
    std::vector<Tensor> values;
    int fused = 0;
  };
  absl::StatusOr<Outcome> Run(int replicas, bool fuse) const {
    TestSessionOptions options{.replicas = replicas};
    if (!fuse) options.session.compile.disabled_passes = {"fuse_bias"};
    MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(graph, options));
    MF_ASSIGN_OR_RETURN(Step step, session->Prepare(feeds, fetches));
    Random random(4);
    std::vector<Tensor> fed;
    for (const Shape& shape : shapes) fed.push_back(RandomTensor(DT_FLOAT, shape, &random));
    Outcome outcome;
    MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run(fed));
    for (size_t i = 0; i < fetches.size(); ++i) {
      MF_ASSIGN_OR_RETURN(Tensor value, out[static_cast<int>(i)].Clone());
      outcome.values.push_back(std::move(value));
    }
    MF_ASSIGN_OR_RETURN(const StepPlans plans, step.Compile(shapes));
    for (const std::string& op : plans.plans[0]->node_ops) {
      outcome.fused += op == ops::WithBias(ops::kMatMul) || op == ops::WithBias(ops::kConv2D);
    }
    return outcome;
  }
};

// How many biases `replicas` fuse; the values must be those of one replica without.
int Fused(const Layer& layer, int replicas) {
  const auto want = layer.Run(1, false);
  EXPECT_TRUE(want.ok()) << want.status();
  const auto got = layer.Run(replicas, true);
  EXPECT_TRUE(got.ok()) << got.status();
  if (!want.ok() || !got.ok()) return -1;
  EXPECT_EQ(want->fused, 0);
  for (size_t i = 0; i < want->values.size(); ++i) {
    EXPECT_EQ(Difference(want->values[i], got->values[i], {.relative = 1e-5, .absolute = 1e-5}),
              "");
  }
  return got->fused;
}

// The same on one replica and on three.
int Fused(const Layer& layer) {
  const int one = Fused(layer, 1), three = Fused(layer, 3);
  EXPECT_EQ(one, three);
  return one;
}

using Values = std::vector<Output>;

TEST(FuseBiasTest, AProductAddsItsBias) {
  // By oneDNN, by loops, and of no rows on one replica.
  for (const Shape& x : {Shape({48, 64}), Shape({5, 7}), Shape({2, 64})}) {
    const Layer layer(x, {x.dim(1), 40}, [](const Scope& s, Output x, Output w, Output b) {
      return Values{ops::Relu(s, ops::BiasAdd(s, ops::MatMul(s, x, w), b))};
    });
    EXPECT_EQ(Fused(layer), 1);
  }
}

TEST(FuseBiasTest, AConvolutionAddsItsBias) {
  for (const char* padding : {"SAME", "VALID"}) {
    const Layer layer({4, 9, 9, 3}, {3, 3, 3, 8},
                      [&](const Scope& s, Output x, Output w, Output b) {
                        const Output y = ops::Conv2D(s, x, w, {1, 2, 2, 1}, padding);
                        return Values{ops::BiasAdd(s, y, b)};
                      });
    EXPECT_EQ(Fused(layer), 1);
  }
}

TEST(FuseBiasTest, WhatOthersNeedIsMadeWithout) {
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

// Nothing is added up: the bias alone. And channels that come first.
TEST(FuseBiasTest, LeavesWhatKernelsCannotDo) {
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

// A sum over what is split over replicas gets its bias once, after it is whole.
TEST(FuseBiasTest, APartialProductIsReducedFirst) {
  const Layer layer({6, 7}, {7, 8}, [](const Scope& s, Output x, Output w, Output b) {
    const Output sum = ops::MatMul(s, x, ops::MatMul(s, x, w), {.transpose_a = true});
    return Values{ops::BiasAdd(s, sum, b)};
  });
  EXPECT_EQ(Fused(layer, 1), 1);
  EXPECT_EQ(Fused(layer, 3), 0);
}

}  // namespace
}  // namespace mirrorflow
