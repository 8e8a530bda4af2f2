// SPDX-License-Identifier: Apache-2.0
#include "framework/session/step_cache.h"

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "distribute/pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/session_parts.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

class StepCacheTest : public testing::Test {
 protected:
  StepCacheTest() {
    const Scope root(&graph_);
    x_ = ops::Placeholder(root, DT_FLOAT, {-1});
    y_ = ops::Neg(root, x_);
  }

  static std::shared_ptr<CompiledStep> Get(SessionParts& parts, const PreparedStep& step,
                                           int64_t rows,
                                           absl::Span<const int64_t> replica_rows = {}) {
    auto compiled =
        parts.cache->Get({step, {Shape({rows})}, replica_rows, parts.variables->states()});
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    return compiled.ok() ? *compiled : nullptr;
  }

  Graph graph_;
  Output x_, y_;
};

TEST_F(StepCacheTest, EqualShapesAreCompiledOnce) {
  SessionParts parts(graph_);
  const auto step = parts.Prepare({x_}, {y_}), other = parts.Prepare({x_}, {y_});
  const auto compiled = Get(parts, *step, 3);
  EXPECT_EQ(Get(parts, *step, 3), compiled);
  EXPECT_NE(Get(parts, *step, 4), compiled);
  EXPECT_NE(Get(parts, *other, 3), compiled);
  EXPECT_EQ(parts.cache->size(), 3u);
}

// A program does not depend on the row shards. A plan depends only on its own replica's shard.
TEST_F(StepCacheTest, RowShardsHaveSeparatePlansButOneProgram) {
  SessionParts parts(graph_, {.replicas = 2});
  const auto step = parts.Prepare({x_}, {y_});
  const int64_t uneven[] = {1, 3};
  const auto even = Get(parts, *step, 4), odd = Get(parts, *step, 4, uneven);
  EXPECT_NE(even, odd);
  EXPECT_EQ(even->program, odd->program);
  EXPECT_EQ(even->plans[0], even->plans[1]);
  EXPECT_NE(odd->plans[0], odd->plans[1]);
}

TEST_F(StepCacheTest, LeastRecentlyUsedStepIsEvicted) {
  SessionParts parts(graph_, {.max_steps = 2});
  const auto step = parts.Prepare({x_}, {y_});
  const auto one = Get(parts, *step, 1), two = Get(parts, *step, 2);
  EXPECT_EQ(one->replaced + two->replaced, "");
  Get(parts, *step, 1);
  const auto three = Get(parts, *step, 3);
  EXPECT_TRUE(two->evicted);
  EXPECT_FALSE(one->evicted);
  EXPECT_THAT(three->replaced, HasSubstr("[2]"));
  EXPECT_EQ(parts.cache->evictions(), 1u);
  // A runner marks a step as used without looking it up.
  parts.cache->Touch(*one);
  Get(parts, *step, 4);
  EXPECT_TRUE(three->evicted);
  EXPECT_FALSE(one->evicted);
  parts.cache->Touch(*three);  // has no effect after eviction
  EXPECT_EQ(parts.cache->size(), 2u);
}

TEST_F(StepCacheTest, EvictedStepIsRecompiled) {
  SessionParts parts(graph_, {.max_steps = 1});
  const auto step = parts.Prepare({x_}, {y_});
  const auto first = Get(parts, *step, 1);
  Get(parts, *step, 2);
  const auto again = Get(parts, *step, 1);
  EXPECT_NE(again, first);
  EXPECT_FALSE(again->evicted);
}

// A step that queries whether a variable has a value is compiled once for each answer.
TEST_F(StepCacheTest, VariableStatesSelectCompiledStep) {
  const Scope root(&graph_);
  const Variable v = CreateVariable(root, "v", {}, initializers::Zeros());
  const Output set = ops::VarIsInitializedOp(root, v.handle);
  SessionParts parts(graph_);
  const auto step = parts.Prepare({x_}, {set}), independent = parts.Prepare({x_}, {y_});
  const auto before = Get(parts, *step, 1), other = Get(parts, *independent, 1);
  ASSERT_EQ(parts.variables->Assign({{0, Tensor::Scalar<float>(1)}}), absl::OkStatus());
  EXPECT_NE(Get(parts, *step, 1), before);
  EXPECT_EQ(Get(parts, *independent, 1), other);
}

TEST_F(StepCacheTest, StepExceedingMemoryLimitFails) {
  SessionParts parts(graph_, {.max_bytes = 1 << 20});
  const auto step = parts.Prepare({x_}, {y_});
  EXPECT_NE(Get(parts, *step, 1000), nullptr);
  const auto large =
      parts.cache->Get({*step, {Shape({1 << 20})}, {}, parts.variables->states()}).status();
  EXPECT_THAT(large, IsError(absl::StatusCode::kResourceExhausted, "1048576 bytes"));
  EXPECT_EQ(parts.cache->size(), 1u);
}

std::atomic<int> num_compilations{0};

absl::StatusOr<std::shared_ptr<const Program>> CountAndCompile(const Graph& graph,
                                                               const GlobalSignature& signature,
                                                               const VariableLayout& layout,
                                                               const CompileTarget& target,
                                                               const CompileOptions& options) {
  ++num_compilations;
  return CompileProgram(graph, signature, layout, target, options);
}

TEST_F(StepCacheTest, ThreadsShareOneCompilation) {
  SessionParts parts(graph_);
  StepCompiler compiler(parts.graph, parts.compiler->target(), CountAndCompile, CompilePlan, {},
                        nullptr);
  StepCache cache(compiler, parts.variables->layout(), *parts.replicas, {});
  const auto step = parts.Prepare({x_}, {y_});
  num_compilations = 0;
  std::vector<std::thread> threads;
  std::vector<std::set<CompiledStep*>> seen(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 40; ++i) {
        const auto compiled =
            cache.Get({*step, {Shape({1 + i % 8})}, {}, parts.variables->states()});
        ASSERT_TRUE(compiled.ok()) << compiled.status();
        seen[t].insert(compiled->get());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_compilations, 8);
  for (const auto& of_thread : seen) EXPECT_EQ(of_thread, seen[0]);
}

}  // namespace
}  // namespace mirrorflow
