// SPDX-License-Identifier: Apache-2.0

#include <functional>
#include <string>

#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/layers/layers.h"
#include "train/losses/losses.h"
#include "train/optimizers/optimizers.h"

namespace mirrorflow {
namespace {

constexpr int64_t kBatch = 5, kLength = 4, kWidth = 6;

// Runs `steps` steps that fit y = layer(x) to 1, and returns the losses.
absl::StatusOr<std::vector<float>> Train(const Tensor& x, int replicas,
                                         const std::function<Output(const Scope&, Output)>& layer,
                                         int steps = 4) {
  Graph graph;
  const Scope root(&graph);
  Shape declared = x.shape();
  declared.set_dim(0, kUnknownDim);
  const Output in = ops::Placeholder(root, x.dtype(), declared);
  const Output y = layer(root, in);
  const Output loss = losses::MeanSquaredError(root, y, ops::OnesLike(root, y));
  const Operation train = GradientDescent({.learning_rate = 0.5}).Minimize(root, loss);
  TestSessionOptions options{.replicas = replicas};
  options.session.seed = 3;
  MF_ASSIGN_OR_RETURN(const auto session, CreateTestSession(graph, options));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({in}, {loss}, {train}));
  std::vector<float> losses;
  for (int i = 0; i < steps; ++i) {
    MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run({x}));
    losses.push_back(out[0].scalar<float>());
  }
  return losses;
}

// Expects the layer to learn, with the same losses on any number of replicas.
void ExpectTrains(const Tensor& x, const std::function<Output(const Scope&, Output)>& layer) {
  const auto want = Train(x, 1, layer);
  ASSERT_TRUE(want.ok()) << want.status();
  EXPECT_LT(want->back(), want->front());
  for (const int replicas : {2, 3}) {
    const auto got = Train(x, replicas, layer);
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t i = 0; i < want->size(); ++i) {
      EXPECT_NEAR((*got)[i], (*want)[i], 1e-5 * (*want)[i]) << "step " << i;
    }
  }
}

Tensor Sequences() {
  Random random(7);
  return RandomTensor(DT_FLOAT, {kBatch, kLength, kWidth}, &random);
}

Tensor Ids(DataType dtype) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < kBatch * kLength; ++i)
    ids.push_back(i * i % 7);  // some twice, some never
  if (dtype == DT_INT64) return Tensor::Of<int64_t>({kBatch, kLength}, ids);
  return Tensor::Of<int32_t>({kBatch, kLength}, std::vector<int32_t>(ids.begin(), ids.end()));
}

TEST(EmbeddingTest, SelectsRowOfEachId) {
  Graph graph;
  const Scope root(&graph);
  const Output ids = ops::Placeholder(root, DT_INT32, {-1, kLength});
  const Output y = layers::Embedding(root, ids, 7, 3);
  const auto session = CreateTestSession(graph, {.replicas = 2});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto got = (*session)->Run({{ids, Ids(DT_INT32)}}, {y});
  ASSERT_TRUE(got.ok()) << got.status();
  const auto table = (*session)->ReadVariable("embedding/embeddings");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ((*got)[0].shape(), Shape({kBatch, kLength, 3}));
  const Tensor all_ids = Ids(DT_INT32);
  for (int64_t i = 0; i < kBatch * kLength; ++i) {
    for (int64_t c = 0; c < 3; ++c) {
      const int32_t id = all_ids.flat<int32_t>()[i];
      EXPECT_EQ((*got)[0].flat<float>()[i * 3 + c], table->flat<float>()[id * 3 + c]);
    }
  }
}

TEST(EmbeddingTest, TrainingMatchesOnAnyNumberOfReplicas) {
  for (const DataType dtype : {DT_INT32, DT_INT64}) {
    ExpectTrains(Ids(dtype),
                 [](const Scope& s, Output x) { return layers::Embedding(s, x, 7, 3); });
  }
}

TEST(LayerNormalizationTest, TrainingMatchesOnAnyNumberOfReplicas) {
  ExpectTrains(Sequences(),
               [](const Scope& s, Output x) { return layers::LayerNormalization(s, x); });
}

TEST(DenseTest, AcceptsSequences) {
  ExpectTrains(Sequences(), [](const Scope& s, Output x) {
    return layers::Dense(s, x, 3, [](const Scope& s, Output x) { return ops::Gelu(s, x); });
  });
}

TEST(SelfAttentionTest, TrainingMatchesOnAnyNumberOfReplicas) {
  for (const bool causal : {false, true}) {
    ExpectTrains(Sequences(), [&](const Scope& s, Output x) {
      return layers::SelfAttention(s, x, 2, {.mask = {.causal = causal}});
    });
  }
}

// ScaledDotProductAttention, a single op, and the softmax built from TensorFlow's ops must apply
// masks in the same way.
TEST(MaskedSoftmaxTest, WeightsMatchAttention) {
  for (const bool causal : {false, true}) {
    for (const bool masked : {false, true}) {
      Graph graph;
      const Scope root(&graph);
      const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 2, kLength, kWidth});
      layers::MaskOptions mask{.causal = causal};
      if (masked) mask.mask = ops::Const(root, Tensor::Of<float>({1, 4}, {0, -1e9f, 0, 0.5f}));
      const Output scores = ops::BatchMatMulV2(root, x, x, {.adj_y = true});
      const Output weights = layers::MaskedSoftmax(root, scores, 0.25, mask);
      const Output want = ops::BatchMatMulV2(root, weights, x);
      const Output got = ops::ScaledDotProductAttention(
                             root, x, x, x, {.scale = 0.25, .causal = causal, .mask = mask.mask})
                             .y;
      TestSessionOptions options;
      options.session.compile.disabled_passes = {"fuse_attention"};
      const auto session = CreateTestSession(graph, options);
      ASSERT_TRUE(session.ok()) << session.status();
      Random random(9);
      const Tensor fed = RandomTensor(DT_FLOAT, {2, 2, kLength, kWidth}, &random);
      const auto values = (*session)->Run({{x, fed}}, {want, got});
      ASSERT_TRUE(values.ok()) << values.status();
      EXPECT_EQ(Difference((*values)[0], (*values)[1], {.relative = 1e-5, .absolute = 1e-6}), "");
    }
  }
}

TEST(TransformerLayersTest, ErrorsReportExpectedInput) {
  const auto error = [](const std::function<void(const Scope&, Output)>& build) {
    Graph graph;
    const Scope root(&graph);
    build(root, ops::Placeholder(root, DT_FLOAT, {-1, kLength, -1}));
    return graph.status();
  };
  constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(error([](const Scope& s, Output x) { layers::LayerNormalization(s, x); }),
              IsError(kInvalid, "known last dimension"));
  EXPECT_THAT(error([](const Scope& s, Output x) { layers::SelfAttention(s, x, 2); }),
              IsError(kInvalid, "expected [batch, n, width]"));
  EXPECT_THAT(
      error([](const Scope& s, Output x) { layers::MaskedSoftmax(s, x, 1, {.causal = true}); }),
      IsError(kInvalid, "last two dimensions"));
  EXPECT_THAT(error([](const Scope& s, Output x) { layers::Embedding(s, x, 0, 2); }),
              IsError(kInvalid, "got 0 and 2"));
}

}  // namespace
}  // namespace mirrorflow
