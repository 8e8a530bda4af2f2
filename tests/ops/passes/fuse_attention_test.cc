// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_attention.h"

#include <functional>
#include <utility>
#include <vector>

#include "framework/graph/gradients.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/run_without_pass.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

constexpr int64_t kBatch = 5, kHeads = 2, kQueries = 6, kDepth = 4;
constexpr int64_t kKeys = FuseAttention::kMinKeys + 1;

struct Operands {
  Output q, k, v, mask;
};
using Make = std::function<Output(const Scope&, const Operands&)>;

// A program that feeds q, k, v and a mask of the keys.
struct Program : PassProgram {
  explicit Program(const Make& make, bool with_gradients = false, bool of_mask = false) {
    shapes = {{kBatch, kHeads, kQueries, kDepth},
              {kBatch, kHeads, kKeys, kDepth},
              {kBatch, kHeads, kKeys, kDepth},
              {kBatch, 1, 1, kKeys}};
    const Scope root(&graph);
    for (const Shape& shape : shapes) {
      Shape declared = shape;
      declared.set_dim(0, kUnknownDim);
      feeds.push_back(ops::Placeholder(root, DT_FLOAT, declared));
    }
    fetches = {make(root, {feeds[0], feeds[1], feeds[2], feeds[3]})};
    if (!with_gradients) return;
    std::vector<Output> of(feeds.begin(), feeds.begin() + (of_mask ? 4 : 3));
    const auto gradients = Gradients(root, {ops::Square(root, fetches[0])}, of);
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    if (gradients.ok()) fetches.insert(fetches.end(), gradients->begin(), gradients->end());
  }
};

// Returns how many forward and backward attention ops the program has.
std::pair<int, int> OpsOf(const PassProgram::Outcome& outcome) {
  return {static_cast<int>(outcome.Count(ops::kScaledDotProductAttention)),
          static_cast<int>(outcome.Count(ops::kScaledDotProductAttentionGrad))};
}

// Returns how many forward and backward ops the pass creates. The counts must be the same on one
// replica and on three, and the values must equal those on one replica without the pass.
std::pair<int, int> Fused(const Program& program) {
  const auto want = program.Run(1, "fuse_attention");
  EXPECT_TRUE(want.ok()) << want.status();
  std::pair<int, int> fused = {-1, -1};
  for (const int replicas : {1, 3}) {
    const auto got = program.Run(replicas);
    EXPECT_TRUE(got.ok()) << got.status();
    if (!want.ok() || !got.ok()) return {-1, -1};
    EXPECT_EQ(OpsOf(*want), std::make_pair(0, 0));
    for (size_t i = 0; i < want->values.size(); ++i) {
      EXPECT_EQ(Difference(want->values[i], got->values[i], {.relative = 1e-4, .absolute = 1e-5}),
                "")
          << i;
    }
    if (replicas == 1) fused = OpsOf(*got);
    EXPECT_EQ(fused, OpsOf(*got));
  }
  return fused;
}

Output Scores(const Scope& s, const Operands& o) {
  return ops::BatchMatMulV2(s, o.q, o.k, {.adj_y = true});
}
Output Values(const Scope& s, Output scores, const Operands& o) {
  return ops::BatchMatMulV2(s, ops::Softmax(s, scores), o.v);
}
Output Number(const Scope& s, double x) { return ops::ScalarConst(s, DT_FLOAT, x); }

// Returns a mask that is 0 up to the diagonal and `out` above it.
Output Causal(const Scope& s, float out) {
  std::vector<float> values;
  for (int64_t i = 0; i < kQueries; ++i) {
    for (int64_t j = 0; j < kKeys; ++j) values.push_back(j > i ? out : 0);
  }
  return ops::Const(s, Tensor::Of<float>({kQueries, kKeys}, values));
}

const Make kPlain = [](const Scope& s, const Operands& o) { return Values(s, Scores(s, o), o); };
const Make kScaled = [](const Scope& s, const Operands& o) {
  return Values(s, ops::Mul(s, Scores(s, o), Number(s, 0.5)), o);
};
const Make kDivided = [](const Scope& s, const Operands& o) {
  return Values(s, ops::RealDiv(s, Scores(s, o), Number(s, 3)), o);
};
const Make kMasked = [](const Scope& s, const Operands& o) {
  return Values(s, ops::AddV2(s, ops::Mul(s, Number(s, 0.5), Scores(s, o)), o.mask), o);
};
const Make kMaskedFirst = [](const Scope& s, const Operands& o) {
  return Values(s, ops::AddV2(s, o.mask, Scores(s, o)), o);
};
const Make kCausal = [](const Scope& s, const Operands& o) {
  return Values(s, ops::AddV2(s, ops::Mul(s, Scores(s, o), Number(s, 0.5)), Causal(s, -1e9f)), o);
};

TEST(FuseAttentionTest, AttentionBecomesOneOp) {
  for (const Make& make : {kPlain, kScaled, kDivided, kMasked, kMaskedFirst, kCausal}) {
    EXPECT_EQ(Fused(Program(make)), std::make_pair(1, 0));
  }
}

TEST(FuseAttentionTest, GradientOfAttentionBecomesOneOp) {
  for (const Make& make : {kPlain, kScaled, kDivided, kMasked, kMaskedFirst, kCausal}) {
    EXPECT_EQ(Fused(Program(make, /*with_gradients=*/true)), std::make_pair(1, 1));
  }
}

// If the mask's gradient is needed, the scores' gradient must be computed, so nothing is fused.
TEST(FuseAttentionTest, ValuesWithOtherUsesAreNotFused) {
  EXPECT_EQ(Fused(Program(kMasked, true, /*of_mask=*/true)), std::make_pair(0, 0));
  const Make weights_too = [](const Scope& s, const Operands& o) {
    const Output weights = ops::Softmax(s, Scores(s, o));
    return ops::AddV2(s, ops::Sum(s, weights, {-1}, {.keep_dims = true}),
                      ops::BatchMatMulV2(s, weights, o.v));
  };
  EXPECT_EQ(Fused(Program(weights_too)), std::make_pair(0, 0));
  const Make scores_too = [](const Scope& s, const Operands& o) {
    const Output scores = Scores(s, o);
    return ops::AddV2(s, Values(s, scores, o), ops::Sum(s, scores, {-1}, {.keep_dims = true}));
  };
  EXPECT_EQ(Fused(Program(scores_too)), std::make_pair(0, 0));
}

TEST(FuseAttentionTest, OtherPatternsAreNotFused) {
  // The first case has one key fewer than the minimum.
  const Make short_rows = [](const Scope& s, const Operands& o) {
    const auto first = [&](Output x) {
      return ops::Slice(s, x, ops::VectorConst(s, {0, 0, 0, 0}),
                        ops::VectorConst(s, {-1, -1, kKeys - 2, -1}));
    };
    const Operands some = {o.q, first(o.k), first(o.v), {}};
    return Values(s, Scores(s, some), some);
  };
  EXPECT_EQ(Fused(Program(short_rows)), std::make_pair(0, 0));
  const Make not_transposed = [](const Scope& s, const Operands& o) {
    const Output k = ops::Transpose(s, o.k, {0, 1, 3, 2});
    return Values(s, ops::BatchMatMulV2(s, o.q, k), o);
  };
  EXPECT_EQ(Fused(Program(not_transposed)), std::make_pair(0, 0));
  // In the last case, all heads share one head of keys.
  const Make broadcast = [](const Scope& s, const Operands& o) {
    const auto first = [&](Output x) {
      return ops::Slice(s, x, ops::VectorConst(s, {0, 0, 0, 0}),
                        ops::VectorConst(s, {-1, 1, -1, -1}));
    };
    return Values(s, Scores(s, {o.q, first(o.k), {}, {}}), o);
  };
  EXPECT_EQ(Fused(Program(broadcast)), std::make_pair(0, 0));
}

// A mask is causal only if it excludes every key above the diagonal. Any other constant is an
// ordinary mask.
TEST(FuseAttentionTest, DistinguishesCausalMaskFromOthers) {
  for (const float out : {-1e9f, -2.0f}) {
    const Program program([&](const Scope& s, const Operands& o) {
      return Values(s, ops::AddV2(s, Scores(s, o), Causal(s, out)), o);
    });
    EXPECT_EQ(Fused(program), std::make_pair(1, 0));
  }
}

}  // namespace
}  // namespace mirrorflow
