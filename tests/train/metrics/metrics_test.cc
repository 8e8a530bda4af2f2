// SPDX-License-Identifier: Apache-2.0
//
// Tests errors, counts beyond the precision of float, communication, and sums over workers.
#include "train/metrics/metrics.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "framework/core/status.h"
#include "framework/session/step_plans.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "tests/support/test_workers.h"
#include "train/losses/losses.h"

namespace mirrorflow {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

using metrics::Metric;

Output Feed(const Scope& s, const Shape& shape, DataType dtype = DT_FLOAT) {
  return ops::Placeholder(s.WithName("x"), dtype, shape);
}

absl::Status ErrorOf(const std::function<Metric(const Scope&)>& build) {
  Graph graph;
  EXPECT_FALSE(build(Scope(&graph)).update.valid());
  return graph.status();
}

TEST(MetricsTest, InvalidArgumentsAreReported) {
  EXPECT_THAT(
      ErrorOf([](const Scope& s) {
        return metrics::SparseCategoricalAccuracy(s, Feed(s, {-1, 3}), Feed(s, {-1, 1}, DT_INT32));
      }),
      IsError(kInvalid, "predictions", "got [?,1]"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return metrics::SparseTopKCategoricalAccuracy(s, Feed(s, {-1, 3}),
                                                              Feed(s, {-1}, DT_INT32), {.k = 0});
              }),
              IsError(kInvalid, "at least 1", "got 0"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return metrics::TopKCategoricalAccuracy(s, Feed(s, {-1, -1}), Feed(s, {-1, -1}));
              }),
              IsError(kInvalid, "last dimension", "got [?,?]"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return metrics::Precision(s, Feed(s, {-1}), Feed(s, {-1}), {.thresholds = {2}});
              }),
              IsError(kInvalid, "precision", "thresholds", "got 2"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return metrics::Recall(s, Feed(s, {-1, 3}), Feed(s, {-1, 3}), {.class_id = 3});
              }),
              IsError(kInvalid, "1 and 3", "got [?,3]"));
  EXPECT_THAT(
      ErrorOf([](const Scope& s) { return metrics::F1Score(s, Feed(s, {-1}), Feed(s, {-1})); }),
      IsError(kInvalid, "f1_score", "[batch, classes]"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return metrics::FBetaScore(s, Feed(s, {-1, 2}), Feed(s, {-1, 2}), {.beta = 0});
              }),
              IsError(kInvalid, "fbeta_score", "beta", "got 0"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return metrics::AUC(s, Feed(s, {-1}), Feed(s, {-1}), {.num_thresholds = 1});
              }),
              IsError(kInvalid, "auc", "two thresholds", "got 1"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return metrics::MeanIoU(s, Feed(s, {-1}, DT_INT32), Feed(s, {-1}, DT_INT32), 0);
              }),
              IsError(kInvalid, "mean_io_u", "classes", "got 0"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return metrics::Mean(s, Feed(s, {-1}), {.sample_weight = Feed(s, {-1, 2})});
              }),
              IsError(kInvalid, "mean:", "sample weights"));
}

class OneMetric {
 public:
  OneMetric(const Shape& shape, DataType dtype,
            const std::function<Metric(const Scope&, Output x)>& build, int replicas = 1) {
    x_ = Feed(root_, shape, dtype);
    metric_ = build(root_, x_);
    auto session = CreateTestSession(graph_, {.replicas = replicas});
    EXPECT_TRUE(session.ok()) << session.status();
    if (session.ok()) session_ = *std::move(session);
  }

  void Add(const Tensor& x) {
    const absl::Status status = session_->Run({{x_, x}}, {}, {metric_.update}).status();
    ASSERT_TRUE(status.ok()) << status;
  }
  Tensor Result() {
    const auto result = session_->Run({}, {metric_.result});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? (*result)[0] : Tensor();
  }
  Session& session() { return *session_; }
  const Metric& metric() const { return metric_; }
  Output x() const { return x_; }

 private:
  Graph graph_;
  Scope root_{&graph_};
  Output x_;
  Metric metric_;
  std::unique_ptr<Session> session_;
};

TEST(MetricsTest, ResultIsZeroBeforeTheFirstBatch) {
  OneMetric mean({-1}, DT_FLOAT, [](const Scope& s, Output x) { return metrics::Mean(s, x); });
  EXPECT_EQ(mean.Result().scalar<float>(), 0);
  OneMetric auc({-1}, DT_FLOAT, [](const Scope& s, Output x) { return metrics::AUC(s, x, x); });
  EXPECT_EQ(auc.Result().scalar<float>(), 0);
  OneMetric perplexity({-1, 3}, DT_FLOAT, [](const Scope& s, Output x) {
    return metrics::Perplexity(s, x, ops::ArgMax(s, x, 1));
  });
  EXPECT_EQ(perplexity.Result().scalar<float>(), 0);
}

TEST(MetricsTest, EmptyBatchChangesNothing) {
  for (const int replicas : {1, 3}) {
    OneMetric mean(
        {-1}, DT_FLOAT, [](const Scope& s, Output x) { return metrics::Mean(s, x); }, replicas);
    mean.Add(Tensor::Vector<float>({1, 4}));
    mean.Add(Tensor::Vector<float>({}));
    EXPECT_EQ(mean.Result().scalar<float>(), 2.5f);
  }
}

// A scalar, such as a loss, counts once per step, not once per replica.
TEST(MetricsTest, ScalarCountsOncePerStep) {
  for (const int replicas : {1, 3}) {
    OneMetric mean(
        {-1}, DT_FLOAT,
        [](const Scope& s, Output x) { return metrics::Mean(s, ops::Mean(s, x, {0})); }, replicas);
    mean.Add(Tensor::Vector<float>({1, 2, 3, 4}));
    mean.Add(Tensor::Vector<float>({10}));
    EXPECT_EQ(mean.Result().scalar<float>(), 6.25f);
  }
}

// A float count would stop at 2^24.
TEST(MetricsTest, CountsAreExactBeyondThePrecisionOfFloat) {
  OneMetric sum({-1}, DT_FLOAT, [](const Scope& s, Output x) { return metrics::Sum(s, x); });
  sum.Add(Tensor::Vector<float>({16777216}));
  for (int i = 0; i < 4; ++i) sum.Add(Tensor::Vector<float>({1}));
  EXPECT_EQ(sum.Result().scalar<float>(), 16777220);
}

TEST(MetricsTest, ClassesOutOfRangeDoNotCount) {
  OneMetric matrix({-1, 2}, DT_INT64, [](const Scope& s, Output x) {
    const std::vector<Output> columns = ops::Split(s, x, 2, 1);
    return metrics::ConfusionMatrix(s, columns[0], columns[1], 2);
  });
  matrix.Add(Tensor::Of<int64_t>({5, 2}, {0, 1, 1, 1, -1, 0, 2, 1, 0, 7}));
  EXPECT_EQ(Difference(Tensor::Of<double>({2, 2}, {0, 0, 1, 1}), matrix.Result(), {}), "");
}

TEST(MetricsTest, TopKCountsInfiniteScoreAsWrong) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  OneMetric top({-1, 3}, DT_FLOAT, [](const Scope& s, Output x) {
    const Output labels = ops::Cast(s, ops::ZerosLike(s, ops::Max(s, x, {1})), DT_INT32);
    return metrics::SparseTopKCategoricalAccuracy(s, x, labels, {.k = 2});
  });
  top.Add(Tensor::Of<float>({2, 3}, {2, 1, 3, kInfinity, 1, 2}));
  EXPECT_EQ(top.Result().scalar<float>(), 0.5f);
}

// An update adds to the replica's own sums. Only the result communicates: it adds up the replicas'
// sums.
TEST(MetricsTest, UpdatesDoNotCommunicate) {
  const std::vector<std::function<Metric(const Scope&, Output)>> all = {
      [](const Scope& s, Output x) { return metrics::Mean(s, x); },
      [](const Scope& s, Output x) { return metrics::AUC(s, x, x); },
      [](const Scope& s, Output x) { return metrics::Precision(s, x, x); },
      [](const Scope& s, Output x) {
        return metrics::Recall(s, x, x, {.thresholds = {0.1, 0.2}});
      },
      [](const Scope& s, Output x) { return metrics::F1Score(s, x, x); },
      [](const Scope& s, Output x) { return metrics::RootMeanSquaredError(s, x, x); },
      [](const Scope& s, Output x) { return metrics::CategoricalAccuracy(s, x, x); },
      [](const Scope& s, Output x) { return metrics::TopKCategoricalAccuracy(s, x, x, {.k = 1}); },
      [](const Scope& s, Output x) { return metrics::Perplexity(s, x, ops::ArgMax(s, x, 1)); },
      [](const Scope& s, Output x) {
        const Output ids = ops::ArgMax(s, x, 1);
        return metrics::MeanIoU(s, ids, ids, 2);
      },
  };
  for (size_t i = 0; i < all.size(); ++i) {
    OneMetric metric({-1, 2}, DT_FLOAT, all[i], 3);
    const auto collectives = [&](absl::StatusOr<Step> step, std::vector<Shape> shapes) {
      EXPECT_TRUE(step.ok()) << step.status();
      const auto plans = CompileStep(*step, shapes);
      EXPECT_TRUE(plans.ok()) << plans.status();
      return plans->program->state.collectives.size();
    };
    Session& session = metric.session();
    EXPECT_EQ(
        collectives(session.Prepare({metric.x()}, {}, {metric.metric().update}), {Shape({6, 2})}),
        0u)
        << i;
    EXPECT_GE(collectives(session.Prepare({}, {metric.metric().result}, {}), {}), 1u) << i;
  }
}

TEST(MetricsTest, ResultsCoverAllWorkers) {
  Graph graph;
  const Scope root(&graph);
  const Output logits = Feed(root, {-1, 3}), labels = Feed(root, {-1}, DT_INT32);
  const Metric accuracy = metrics::SparseCategoricalAccuracy(root, logits, labels);
  const auto workers = TestWorkers::Create([&](int) -> const Graph& { return graph; },
                                           {.workers = 2, .replicas = 2});
  ASSERT_TRUE(workers.ok()) << workers.status();
  const absl::Status status = (*workers)->OnAll([&](int w) -> absl::Status {
    Session& session = (*workers)->session(w);
    const Tensor x = Tensor::Of<float>({5, 3}, {3, 1, 2, 1, 3, 2, 1, 2, 3, 3, 2, 1, 2, 3, 1});
    for (const std::vector<int32_t>& y : {std::vector<int32_t>{0, 1, 2, 0, 1}, {0, 0, 0, 0, 0}}) {
      MF_RETURN_IF_ERROR(
          session.Run({{logits, x}, {labels, Tensor::Vector<int32_t>(y)}}, {}, {accuracy.update})
              .status());
    }
    MF_ASSIGN_OR_RETURN(const std::vector<Tensor> result, session.Run({}, {accuracy.result}));
    EXPECT_EQ(result[0].scalar<float>(), 0.7f);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace mirrorflow
