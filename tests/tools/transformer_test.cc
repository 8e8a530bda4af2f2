// SPDX-License-Identifier: Apache-2.0
#include "tools/models/transformer.h"

#include <cmath>
#include <memory>
#include <vector>

#include "framework/core/status.h"
#include "framework/graph/creation_scope.h"
#include "framework/graph/graph_def.h"
#include "framework/graph/variable_handle.h"
#include "gtest/gtest.h"
#include "mirrorflow_debug.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

constexpr TransformerConfig kSmall = {
    .vocabulary = 11, .context = 8, .width = 16, .heads = 2, .blocks = 2};

// Returns sequences where each token determines the next one.
std::vector<Tensor> Batch(int64_t rows) {
  std::vector<int32_t> tokens, next;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < kSmall.context; ++i) {
      tokens.push_back(static_cast<int32_t>((r + 3 * i) % kSmall.vocabulary));
      next.push_back(static_cast<int32_t>((r + 3 * i + 3) % kSmall.vocabulary));
    }
  }
  const Shape shape({rows, kSmall.context});
  return {Tensor::Of<int32_t>(shape, tokens), Tensor::Of<int32_t>(shape, next)};
}

absl::StatusOr<std::vector<float>> Train(TransformerConfig config, int replicas, int steps,
                                         DataType compute_dtype = DT_FLOAT) {
  MirroredStrategy::Options options{.num_cpu_replicas = replicas, .seed = 5};
  options.pin_threads = false;
  options.compile.check_plan = true;
  options.compile.verify = true;
  options.compile.compute_dtype = compute_dtype;
  MF_ASSIGN_OR_RETURN(const auto strategy, MirroredStrategy::Create(options));
  Graph graph;
  const Scope root(&graph);
  const auto mirrored = strategy->scope();
  const LanguageModel model = BuildTransformer(root, config);
  const Operation train = Adam({.learning_rate = 0.01}).Minimize(root, model.loss);
  MF_ASSIGN_OR_RETURN(const auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step,
                      session->Prepare({model.tokens, model.next}, {model.loss}, {train}));
  std::vector<float> losses;
  for (int i = 0; i < steps; ++i) {
    MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run(Batch(5)));  // does not divide evenly
    losses.push_back(out[0].scalar<float>());
  }
  return losses;
}

TEST(TransformerTest, LearnsToPredictNextToken) {
  const auto losses = Train(kSmall, 1, 40);
  ASSERT_TRUE(losses.ok()) << losses.status();
  EXPECT_NEAR(losses->front(), std::log(kSmall.vocabulary), 0.1);
  EXPECT_LT(losses->back(), 0.3);
}

TEST(TransformerTest, LearnsInMixedPrecision) {
  const auto losses = Train(kSmall, 1, 40, DT_BFLOAT16);
  ASSERT_TRUE(losses.ok()) << losses.status();
  EXPECT_NEAR(losses->front(), std::log(kSmall.vocabulary), 0.1);
  EXPECT_LT(losses->back(), 0.3);
}

TEST(TransformerTest, TrainingGivesTheSameResultOnAnyNumberOfReplicas) {
  for (const bool tied : {true, false}) {
    TransformerConfig config = kSmall;
    config.tied = tied;
    const auto want = Train(config, 1, 5);
    ASSERT_TRUE(want.ok()) << want.status();
    EXPECT_LT(want->back(), want->front());
    for (const int replicas : {2, 3}) {
      const auto got = Train(config, replicas, 5);
      ASSERT_TRUE(got.ok()) << got.status();
      for (size_t i = 0; i < want->size(); ++i) {
        EXPECT_NEAR((*got)[i], (*want)[i], 1e-4 * (*want)[i]) << "step " << i;
      }
    }
  }
}

// A later token does not change the logits of earlier tokens.
TEST(TransformerTest, LaterTokensDoNotAffectEarlierLogits) {
  const auto strategy = MirroredStrategy::Create({.num_cpu_replicas = 1, .seed = 5});
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  Graph graph;
  const Scope root(&graph);
  const auto mirrored = (*strategy)->scope();
  const LanguageModel model = BuildTransformer(root, kSmall);
  const auto session = (*strategy)->NewSession(graph);
  ASSERT_TRUE(session.ok()) << session.status();
  auto step = (*session)->Prepare({model.tokens}, {model.logits});
  ASSERT_TRUE(step.ok()) << step.status();
  const auto logits = [&](int32_t last) {
    Tensor tokens = *Batch(1)[0].Clone();
    tokens.flat<int32_t>()[kSmall.context - 1] = last;
    const auto out = step->Run({tokens});
    EXPECT_TRUE(out.ok()) << out.status();
    return *(*out)[0].Clone();
  };
  const Tensor a = logits(1), b = logits(2);
  const int64_t before = (kSmall.context - 1) * kSmall.vocabulary;
  for (int64_t i = 0; i < before; ++i) EXPECT_EQ(a.flat<float>()[i], b.flat<float>()[i]) << i;
  EXPECT_NE(a.flat<float>()[before], b.flat<float>()[before]);
}

// The graph has custom ops. Some are called by function name.
TEST(TransformerTest, SurvivesGraphDefRoundTrip) {
  Graph graph;
  const Scope root(&graph);
  const LanguageModel model = BuildTransformer(root, kSmall);
  Adam({.learning_rate = 0.01}).Minimize(root, model.loss);
  const auto def = ToGraphDef(graph);
  ASSERT_TRUE(def.ok()) << def.status();
  const auto read = FromGraphDef(*def, AllOps());
  ASSERT_TRUE(read.ok()) << read.status();
  for (const Node* node : graph.Nodes()) {
    const Node* again = read->FindNode(node->name());
    ASSERT_NE(again, nullptr) << node->name();
    EXPECT_EQ(again->op().name, node->op().name);
    AttrMap expected = node->attrs();
    expected.erase(kCreationScopeAttr);  // meaningless outside this process
    EXPECT_EQ(again->attrs(), expected) << node->name();
  }
}

}  // namespace
}  // namespace mirrorflow
