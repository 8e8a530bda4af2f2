// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/elide_attention_transposes.h"

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

constexpr int64_t kBatch = 5, kHeads = 2, kQueries = 6, kKeys = 7, kDepth = 4;

Output SwapHeads(const Scope& s, Output x) { return ops::Transpose(s, x, {0, 2, 1, 3}); }

// A program that feeds a mask, and q, k and v in the layout where heads are the second to last
// dimension.
struct Program : PassProgram {
  using Make = std::function<std::vector<Output>(const Scope&, Output, Output, Output, Output)>;

  // The program fetches what `make` returns and the gradients of q, k and v through the first
  // result.
  explicit Program(const Make& make) {
    shapes = {{kBatch, kQueries, kHeads, kDepth},
              {kBatch, kKeys, kHeads, kDepth},
              {kBatch, kKeys, kHeads, kDepth + 1},
              {kBatch, kHeads, 1, kKeys}};
    const Scope root(&graph);
    for (const Shape& shape : shapes) {
      Shape declared = shape;
      declared.set_dim(0, kUnknownDim);
      feeds.push_back(ops::Placeholder(root, DT_FLOAT, declared));
    }
    fetches = make(root, feeds[0], feeds[1], feeds[2], feeds[3]);
    const auto gradients =
        Gradients(root, {ops::Square(root, fetches[0])}, {feeds[0], feeds[1], feeds[2]});
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    if (gradients.ok()) fetches.insert(fetches.end(), gradients->begin(), gradients->end());
  }
};

// Returns the number of transposes without and with the pass. The program's results must be equal
// up to rounding.
std::pair<int64_t, int64_t> Transposes(const Program& program) {
  std::pair<int64_t, int64_t> counts = {-1, -1};
  for (const int replicas : {1, 3}) {
    const auto want = program.Run(replicas, "elide_attention_transposes"),
               got = program.Run(replicas);
    EXPECT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
    if (!want.ok() || !got.ok()) return {-1, -1};
    for (size_t i = 0; i < want->values.size(); ++i) {
      EXPECT_EQ(Difference(want->values[i], got->values[i], {.relative = 1e-4, .absolute = 1e-6}),
                "")
          << i;
    }
    const auto found = std::make_pair(want->Count(ops::kTranspose), got->Count(ops::kTranspose));
    if (replicas == 1) counts = found;
    EXPECT_EQ(counts, found);
  }
  return counts;
}

TEST(ElideAttentionTransposesTest, TransposesAroundAttentionAreRemoved) {
  for (const bool causal : {false, true}) {
    for (const bool masked : {false, true}) {
      const Program program([&](const Scope& s, Output q, Output k, Output v, Output mask) {
        ops::AttentionOptions options{.causal = causal};
        if (masked) options.mask = mask;
        const Output y = ops::ScaledDotProductAttention(s, SwapHeads(s, q), SwapHeads(s, k),
                                                        SwapHeads(s, v), options)
                             .y;
        return std::vector<Output>{SwapHeads(s, y)};
      });
      // Four transposes for q, k, v and y, and four for their gradients.
      EXPECT_EQ(Transposes(program), std::make_pair(int64_t{8}, int64_t{0}));
    }
  }
}

TEST(ElideAttentionTransposesTest, OtherUsersReceiveTheTransposedResult) {
  const Program program([](const Scope& s, Output q, Output k, Output v, Output) {
    const auto attention =
        ops::ScaledDotProductAttention(s, SwapHeads(s, q), SwapHeads(s, k), SwapHeads(s, v));
    return std::vector<Output>{SwapHeads(s, attention.y), ops::Neg(s, attention.y),
                               attention.log_sum};
  });
  EXPECT_EQ(Transposes(program), std::make_pair(int64_t{8}, int64_t{1}));
}

TEST(ElideAttentionTransposesTest, LeavesOtherOperandsUnchanged) {
  const Program one_is_not_transposed([](const Scope& s, Output q, Output k, Output v, Output) {
    const Output some = ops::Reshape(s, k, ops::VectorConst(s, {-1, kHeads, kKeys, kDepth}));
    const Output y = ops::ScaledDotProductAttention(s, SwapHeads(s, q), some, SwapHeads(s, v)).y;
    return std::vector<Output>{SwapHeads(s, y)};
  });
  const auto counts = Transposes(one_is_not_transposed);
  EXPECT_EQ(counts.first, counts.second);
  EXPECT_GT(counts.first, 0);
}

}  // namespace
}  // namespace mirrorflow
