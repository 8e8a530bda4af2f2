// SPDX-License-Identifier: Apache-2.0
//
// Tests the NaN rule (train/metrics/metric.h) for every metric: a NaN in a prediction, a label or a
// weight makes the result NaN until the metric is reset, unless the example has weight 0.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/metrics/metrics.h"

namespace mirrorflow {
namespace {

using metrics::Metric;
using ::testing::Each;
using ::testing::Truly;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The arguments that a metric takes. For each example, they have a row of scores or one number.
enum class Kind { kScoresAndClass, kScoresAndScores, kNumbers, kClasses };

struct Row {
  const char* name;
  Kind kind;
  std::function<Metric(const Scope& s, Output predictions, Output labels, Output weights)> make;
};

#define PLAIN(name, kind)                                                     \
  {                                                                           \
#name, kind,                                                              \
        [](const Scope& s, Output p, Output y,                                \
           Output w) { return metrics::name(s, p, y, {.sample_weight = w}); } \
  }
#define WITH(name, kind, call)                                                     \
  {                                                                                \
#name, kind, [](const Scope& s, Output p, Output y, Output w) { return call; } \
  }

const std::vector<Row>& Table() {
  using metrics::FScoreAverage;
  static const auto& table = *new std::vector<Row>{
      PLAIN(SparseCategoricalAccuracy, Kind::kScoresAndClass),
      PLAIN(CategoricalAccuracy, Kind::kScoresAndScores),
      PLAIN(BinaryAccuracy, Kind::kNumbers),
      WITH(SparseTopKCategoricalAccuracy, Kind::kScoresAndClass,
           metrics::SparseTopKCategoricalAccuracy(s, p, y, {.k = 2, .sample_weight = w})),
      WITH(TopKCategoricalAccuracy, Kind::kScoresAndScores,
           metrics::TopKCategoricalAccuracy(s, p, y, {.k = 2, .sample_weight = w})),
      PLAIN(AUC, Kind::kNumbers),
      WITH(AUC, Kind::kNumbers,
           metrics::AUC(s, p, y, {.curve = metrics::Curve::kPr, .sample_weight = w})),
      WITH(AUC, Kind::kNumbers,
           metrics::AUC(s, p, y,
                        {.summation_method = metrics::Summation::kMajoring,
                         .from_logits = true,
                         .sample_weight = w})),
      WITH(ConfusionMatrix, Kind::kClasses,
           metrics::ConfusionMatrix(s, p, y, 3, {.sample_weight = w})),
      WITH(MeanIoU, Kind::kClasses, metrics::MeanIoU(s, p, y, 3, {.sample_weight = w})),
      PLAIN(FBetaScore, Kind::kScoresAndScores),
      WITH(FBetaScore, Kind::kScoresAndScores,
           metrics::FBetaScore(s, p, y, {.threshold = 0.5, .sample_weight = w})),
      WITH(F1Score, Kind::kScoresAndScores,
           metrics::F1Score(s, p, y, {.average = FScoreAverage::kMacro, .sample_weight = w})),
      WITH(F1Score, Kind::kScoresAndScores,
           metrics::F1Score(s, p, y, {.average = FScoreAverage::kMicro, .sample_weight = w})),
      PLAIN(Precision, Kind::kNumbers),
      WITH(Precision, Kind::kScoresAndScores,
           metrics::Precision(s, p, y, {.top_k = 2, .sample_weight = w})),
      WITH(Precision, Kind::kScoresAndScores,
           metrics::Precision(s, p, y, {.top_k = 1, .class_id = 2, .sample_weight = w})),
      PLAIN(Recall, Kind::kNumbers),
      WITH(Recall, Kind::kNumbers,
           metrics::Recall(s, p, y, {.thresholds = {0.2, 0.6}, .sample_weight = w})),
      PLAIN(MeanSquaredError, Kind::kScoresAndScores),
      PLAIN(RootMeanSquaredError, Kind::kScoresAndScores),
      PLAIN(MeanAbsoluteError, Kind::kScoresAndScores),
      PLAIN(MeanAbsolutePercentageError, Kind::kScoresAndScores),
      PLAIN(MeanSquaredLogarithmicError, Kind::kScoresAndScores),
      PLAIN(CosineSimilarity, Kind::kScoresAndScores),
      PLAIN(Perplexity, Kind::kScoresAndClass),
      WITH(Mean, Kind::kNumbers, metrics::Mean(s, ops::AddV2(s, p, y), {.sample_weight = w})),
      WITH(Sum, Kind::kNumbers, metrics::Sum(s, ops::AddV2(s, p, y), {.sample_weight = w})),
  };
  return table;
}

// A batch of four examples.
struct Batch {
  explicit Batch(Kind kind) {
    const Tensor classes = Tensor::Vector<int32_t>({0, 2, 1, 2});
    const Tensor scores = Tensor::Of<float>(
        {4, 3}, {0.7f, 0.2f, 0.1f, 0.1f, 0.6f, 0.3f, 0.2f, 0.5f, 0.3f, 0.1f, 0.1f, 0.8f});
    switch (kind) {
      case Kind::kScoresAndClass:
        predictions = scores;
        labels = classes;
        break;
      case Kind::kScoresAndScores:
        predictions = scores;
        labels = Tensor::Of<float>({4, 3}, {1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1});
        break;
      case Kind::kNumbers:
        predictions = Tensor::Vector<float>({0.1f, 0.9f, 0.7f, 0.4f});
        labels = Tensor::Vector<float>({0, 1, 1, 1});
        break;
      case Kind::kClasses:
        predictions = Tensor::Vector<float>({0, 2, 1, 1});
        labels = Tensor::Vector<float>({0, 2, 1, 2});
        break;
    }
  }

  Tensor predictions, labels;
  Tensor weights = Tensor::Vector<float>({1, 1, 2, 1});
};

// Returns a copy in which the last value of example `i` is `value`.
Tensor With(const Tensor& tensor, int64_t i, float value) {
  Tensor copy = tensor.Clone().value();
  const int64_t width = copy.num_elements() / copy.shape().dim(0);
  copy.flat<float>()[(i + 1) * width - 1] = value;
  return copy;
}

class MetricRun {
 public:
  MetricRun(const Row& row, int replicas) {
    const Batch batch(row.kind);
    for (const Tensor* tensor : {&batch.predictions, &batch.labels, &batch.weights}) {
      Shape shape = tensor->shape();
      shape.set_dim(0, kUnknownDim);
      feeds_.push_back(ops::Placeholder(root_, tensor->dtype(), shape));
    }
    metric_ = row.make(root_, feeds_[0], feeds_[1], feeds_[2]);
    auto session = CreateTestSession(graph_, {.replicas = replicas});
    EXPECT_TRUE(session.ok()) << row.name << ": " << session.status();
    if (!session.ok()) return;
    session_ = *std::move(session);
    update_ = session_->Prepare(feeds_, {}, {metric_.update}).value();
  }

  bool ok() const { return session_ != nullptr; }

  void Add(const Batch& b) {
    const absl::Status status = update_.Run({b.predictions, b.labels, b.weights}).status();
    EXPECT_TRUE(status.ok()) << status;
  }
  // Returns the result's elements and resets the metric.
  std::vector<double> Take() {
    const Tensor result = session_->Run({}, {metric_.result}).value()[0].Clone().value();
    EXPECT_TRUE(session_->Run({}, {}, {metric_.reset}).ok());
    std::vector<double> elements;
    for (int64_t i = 0; i < result.num_elements(); ++i) {
      elements.push_back(result.dtype() == DT_DOUBLE ? result.flat<double>()[i]
                                                     : result.flat<float>()[i]);
    }
    return elements;
  }

 private:
  Graph graph_;
  Scope root_{&graph_};
  std::vector<Output> feeds_;
  Metric metric_;
  std::unique_ptr<Session> session_;
  Step update_;
};

const auto kIsNan = Truly([](double x) { return std::isnan(x); });
const auto kIsFinite = Truly([](double x) { return std::isfinite(x); });

class NanTest : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Replicas, NanTest, testing::Values(1, 3));

TEST_P(NanTest, NanMakesTheResultNanUntilReset) {
  for (const Row& row : Table()) {
    MetricRun run(row, GetParam());
    ASSERT_TRUE(run.ok()) << row.name;
    const Batch batch(row.kind);
    run.Add(batch);
    EXPECT_THAT(run.Take(), Each(kIsFinite)) << row.name;
    for (const int64_t example : {0, 3}) {
      std::vector<Batch> poisoned(3, batch);
      poisoned[0].predictions = With(batch.predictions, example, kNan);
      poisoned[1].weights = With(batch.weights, example, kNan);
      if (batch.labels.dtype() == DT_FLOAT) {
        poisoned[2].labels = With(batch.labels, example, kNan);
      } else {
        poisoned.pop_back();
      }
      for (const Batch& b : poisoned) {
        run.Add(b);
        run.Add(batch);
        EXPECT_THAT(run.Take(), Each(kIsNan)) << row.name << ", example " << example;
        run.Add(batch);
        EXPECT_THAT(run.Take(), Each(kIsFinite)) << row.name << ", after a reset";
      }
    }
  }
}

TEST_P(NanTest, ExampleWithZeroWeightMayBeNan) {
  for (const Row& row : Table()) {
    MetricRun run(row, GetParam());
    ASSERT_TRUE(run.ok()) << row.name;
    Batch batch(row.kind);
    batch.weights = With(batch.weights, 1, 0);
    run.Add(batch);
    const std::vector<double> expected = run.Take();
    EXPECT_THAT(expected, Each(kIsFinite)) << row.name;
    batch.predictions = With(batch.predictions, 1, kNan);
    run.Add(batch);
    EXPECT_EQ(run.Take(), expected) << row.name << ", prediction";
    if (batch.labels.dtype() != DT_FLOAT) continue;
    batch.labels = With(batch.labels, 1, kNan);
    run.Add(batch);
    EXPECT_EQ(run.Take(), expected) << row.name << ", label";
  }
}

// If this fails, add a row for the new metric to the table above.
TEST(NanTable, TableHasEveryMetric) {
  std::set<std::string> in_table, in_headers;
  for (const Row& row : Table()) in_table.insert(row.name);
  const std::regex function(R"(\nMetric (\w+)\()");
  for (const auto& entry : std::filesystem::directory_iterator("train/metrics")) {
    if (entry.path().filename() == "accumulate.h") continue;  // not a metric
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const std::string header = text.str();
    for (std::sregex_iterator it(header.begin(), header.end(), function), end; it != end; ++it) {
      in_headers.insert((*it)[1]);
    }
  }
  EXPECT_GT(in_headers.size(), 15u);
  EXPECT_EQ(in_table, in_headers);
}

TEST(Nan, NanWithIgnoredLabelDoesNotCount) {
  const Row rows[] = {
      WITH(Perplexity, Kind::kScoresAndClass,
           metrics::Perplexity(s, p, y, {.mask_token_id = 2, .sample_weight = w})),
      WITH(MeanIoU, Kind::kClasses,
           metrics::MeanIoU(s, p, y, 3, {.ignore_class = 2, .sample_weight = w})),
  };
  for (const Row& row : rows) {
    MetricRun run(row, 3);
    ASSERT_TRUE(run.ok()) << row.name;
    Batch batch(row.kind);
    batch.predictions = With(batch.predictions, 1, kNan);  // the label is 2
    run.Add(batch);
    EXPECT_THAT(run.Take(), Each(kIsFinite)) << row.name;
    batch.predictions = With(batch.predictions, 0, kNan);
    run.Add(batch);
    EXPECT_THAT(run.Take(), Each(kIsNan)) << row.name;
  }
}

TEST(Nan, NanInAnotherClassDoesNotCount) {
  const Row row = WITH(Recall, Kind::kScoresAndScores,
                       metrics::Recall(s, p, y, {.class_id = 0, .sample_weight = w}));
  MetricRun run(row, 1);
  Batch batch(row.kind);
  batch.predictions = With(batch.predictions, 0, kNan);  // the score of class 2
  run.Add(batch);
  EXPECT_THAT(run.Take(), Each(kIsFinite));
}

TEST(Nan, NanMakesBatchAccuracyNan) {
  Graph graph;
  const Scope root(&graph);
  const Output logits = ops::Placeholder(root, DT_FLOAT, {-1, 3});
  const Output labels = ops::Placeholder(root, DT_INT32, {-1});
  const Output accuracy = metrics::Accuracy(root, logits, labels);
  const auto session = CreateTestSession(graph, {.replicas = 2}).value();
  const auto of = [&](const Tensor& values) {
    const auto out = session->Run(
        {{logits, values}, {labels, Tensor::Vector<int32_t>({0, 2, 1, 2})}}, {accuracy});
    EXPECT_TRUE(out.ok()) << out.status();
    return (*out)[0].scalar<float>();
  };
  const Batch batch(Kind::kScoresAndClass);
  EXPECT_EQ(of(batch.predictions), 0.75f);
  EXPECT_THAT(of(With(batch.predictions, 3, kNan)), kIsNan);
}

}  // namespace
}  // namespace mirrorflow
