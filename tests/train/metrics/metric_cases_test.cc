// SPDX-License-Identifier: Apache-2.0
//
// Compares metrics over several batches with Keras (tests/references/make_loss_cases.py), on one
// replica and on three. One of the three gets no row of the last batch.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/reference_cases.h"
#include "tests/support/sizes.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/metrics/metrics.h"

namespace mirrorflow {
namespace {

using metrics::Metric;
using metrics::MetricOptions;

struct Inputs {
  Output predictions, labels, weights;
};

std::optional<int64_t> Integer(const ReferenceCase& c, const std::string& attribute) {
  if (!c.has(attribute)) return std::nullopt;
  return static_cast<int64_t>(c.Number(attribute, 0));
}

std::optional<double> Real(const ReferenceCase& c, const std::string& attribute) {
  if (!c.has(attribute)) return std::nullopt;
  return c.Number(attribute, 0);
}

Metric BuildAuc(const Scope& s, const ReferenceCase& c, const Inputs& in) {
  metrics::AUCOptions options{.sample_weight = in.weights};
  options.num_thresholds = Integer(c, "num_thresholds").value_or(options.num_thresholds);
  options.from_logits = c.Number("from_logits", 0) != 0;
  if (c.Text("curve", "roc") == "pr") options.curve = metrics::Curve::kPr;
  const std::string summation = c.Text("summation_method", "interpolation");
  if (summation == "minoring") options.summation_method = metrics::Summation::kMinoring;
  if (summation == "majoring") options.summation_method = metrics::Summation::kMajoring;
  return metrics::AUC(s, in.predictions, in.labels, options);
}

Metric BuildThresholds(const Scope& s, const ReferenceCase& c, const Inputs& in) {
  metrics::ThresholdOptions options{.top_k = Integer(c, "top_k"),
                                    .class_id = Integer(c, "class_id"),
                                    .sample_weight = in.weights};
  if (c.has("thresholds")) {
    for (absl::string_view text : absl::StrSplit(c.Text("thresholds", ""), ',')) {
      options.thresholds.push_back(0);
      EXPECT_TRUE(absl::SimpleAtod(text, &options.thresholds.back()));
    }
  }
  return c.name == "recall" ? metrics::Recall(s, in.predictions, in.labels, options)
                            : metrics::Precision(s, in.predictions, in.labels, options);
}

Metric BuildFScore(const Scope& s, const ReferenceCase& c, const Inputs& in) {
  using metrics::FScoreAverage;
  const std::map<std::string, FScoreAverage> averages = {{"none", FScoreAverage::kNone},
                                                         {"micro", FScoreAverage::kMicro},
                                                         {"macro", FScoreAverage::kMacro},
                                                         {"weighted", FScoreAverage::kWeighted}};
  const FScoreAverage average = averages.at(c.Text("average", "none"));
  if (c.name == "f1_score") {
    return metrics::F1Score(
        s, in.predictions, in.labels,
        {.average = average, .threshold = Real(c, "threshold"), .sample_weight = in.weights});
  }
  return metrics::FBetaScore(s, in.predictions, in.labels,
                             {.average = average,
                              .beta = c.Number("beta", 1),
                              .threshold = Real(c, "threshold"),
                              .sample_weight = in.weights});
}

// Builds a case's metric with the case's options. The table lists the metrics whose only options
// are MetricOptions.
Metric BuildMetric(const Scope& s, const ReferenceCase& c, const Inputs& in) {
  using Plain = Metric (*)(const Scope&, Output, Output, const MetricOptions&);
  static const auto& plain = *new std::map<std::string, Plain>{
      {"mean_squared_error", metrics::MeanSquaredError},
      {"root_mean_squared_error", metrics::RootMeanSquaredError},
      {"mean_absolute_error", metrics::MeanAbsoluteError},
      {"mean_absolute_percentage_error", metrics::MeanAbsolutePercentageError},
      {"mean_squared_logarithmic_error", metrics::MeanSquaredLogarithmicError},
      {"cosine_similarity", metrics::CosineSimilarity},
      {"categorical_accuracy", metrics::CategoricalAccuracy},
      {"sparse_categorical_accuracy", metrics::SparseCategoricalAccuracy},
  };
  const auto found = plain.find(c.name);
  if (found != plain.end()) {
    return found->second(s, in.predictions, in.labels, {.sample_weight = in.weights});
  }
  if (c.name == "mean") return metrics::Mean(s, in.predictions, {.sample_weight = in.weights});
  if (c.name == "sum") return metrics::Sum(s, in.predictions, {.sample_weight = in.weights});
  if (c.name == "auc") return BuildAuc(s, c, in);
  if (c.name == "precision" || c.name == "recall") return BuildThresholds(s, c, in);
  if (c.name == "f1_score" || c.name == "fbeta_score") return BuildFScore(s, c, in);
  if (c.name == "binary_accuracy") {
    return metrics::BinaryAccuracy(
        s, in.predictions, in.labels,
        {.threshold = c.Number("threshold", 0.5), .sample_weight = in.weights});
  }
  const metrics::TopKAccuracyOptions top_k{.k = Integer(c, "k").value_or(5),
                                           .sample_weight = in.weights};
  if (c.name == "top_k_categorical_accuracy") {
    return metrics::TopKCategoricalAccuracy(s, in.predictions, in.labels, top_k);
  }
  if (c.name == "sparse_top_k_categorical_accuracy") {
    return metrics::SparseTopKCategoricalAccuracy(s, in.predictions, in.labels, top_k);
  }
  if (c.name == "perplexity") {
    return metrics::Perplexity(
        s, in.predictions, in.labels,
        {.mask_token_id = Integer(c, "mask_token_id"), .sample_weight = in.weights});
  }
  const int64_t classes = Integer(c, "num_classes").value_or(0);
  const metrics::ConfusionMatrixOptions matrix{.ignore_class = Integer(c, "ignore_class"),
                                               .sample_weight = in.weights};
  if (c.name == "mean_io_u") {
    return metrics::MeanIoU(s, in.predictions, in.labels, classes, matrix);
  }
  if (c.name == "confusion_matrix") {
    return metrics::ConfusionMatrix(s, in.predictions, in.labels, classes, matrix);
  }
  s.Fail(absl::NotFoundError(c.name));
  return {};
}

// Runs a metric as a user would: one step per batch, one for the result and one to reset it.
class Run {
 public:
  static absl::StatusOr<std::unique_ptr<Run>> Create(const ReferenceCase& c, int replicas) {
    auto run = std::make_unique<Run>();
    Inputs in{run->Feed(c, "predictions"), run->Feed(c, "labels"), run->Feed(c, "weights")};
    const Metric metric = BuildMetric(run->root_, c, in);
    MF_RETURN_IF_ERROR(run->graph_.status());
    MF_ASSIGN_OR_RETURN(run->session_, CreateTestSession(run->graph_, {.replicas = replicas}));
    MF_ASSIGN_OR_RETURN(run->update_, run->session_->Prepare(run->feeds_, {}, {metric.update}));
    MF_ASSIGN_OR_RETURN(run->update_and_read_,
                        run->session_->Prepare(run->feeds_, {metric.updated_result}, {}));
    MF_ASSIGN_OR_RETURN(run->result_, run->session_->Prepare({}, {metric.result}, {}));
    MF_ASSIGN_OR_RETURN(run->reset_, run->session_->Prepare({}, {}, {metric.reset}));
    return run;
  }

  // Adds batch i of the case. Returns the result so far: if `one_step` is true, fetched in the same
  // step, otherwise in a second step.
  absl::StatusOr<Tensor> Add(const ReferenceCase& c, size_t i, bool one_step) {
    std::vector<Tensor> values;
    for (const std::string& key : keys_) values.push_back(c.tensors.at(key).at(i));
    if (one_step) return First(update_and_read_.Run(values));
    MF_RETURN_IF_ERROR(update_.Run(values).status());
    return First(result_.Run({}));
  }

  absl::Status Reset() { return reset_.Run({}).status(); }

 private:
  Output Feed(const ReferenceCase& c, const std::string& key) {
    if (c.tensors.count(key) == 0) return Output();
    Shape shape = c.tensors.at(key)[0].shape();
    shape.set_dim(0, kUnknownDim);
    keys_.push_back(key);
    feeds_.push_back(ops::Placeholder(root_.WithName(key), c.tensors.at(key)[0].dtype(), shape));
    return feeds_.back();
  }

  static absl::StatusOr<Tensor> First(absl::StatusOr<StepOutputs> outputs) {
    MF_RETURN_IF_ERROR(outputs.status());
    return (*outputs)[0].Clone();
  }

  Graph graph_;
  Scope root_{&graph_};
  std::vector<std::string> keys_;
  std::vector<Output> feeds_;
  std::unique_ptr<Session> session_;
  Step update_, update_and_read_, result_, reset_;
};

// Converts ConfusionMatrix's doubles to floats, as the file stores them.
Tensor AsFloat(const Tensor& t) {
  if (t.dtype() != DT_DOUBLE) return t;
  const std::vector<float> values(t.flat<double>().begin(), t.flat<double>().end());
  return Tensor::Of<float>(t.shape(), values);
}

class MetricCases : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Replicas, MetricCases, testing::ValuesIn(KerasReplicas()));

TEST_P(MetricCases, MatchKeras) {
  const auto cases = ReadReferenceCases("tests/references/losses/metrics.txt");
  ASSERT_TRUE(cases.ok()) << cases.status();
  std::set<std::string> names;
  for (const ReferenceCase& c : *cases) {
    names.insert(c.name);
    const auto run = Run::Create(c, GetParam());
    ASSERT_TRUE(run.ok()) << c.where << ": " << run.status();
    const std::vector<Tensor>& results = c.tensors.at("result");
    ASSERT_EQ(results.size(), 3u) << c.where;
    for (const bool one_step : {false, true}) {
      for (size_t i = 0; i < results.size(); ++i) {
        const auto got = (*run)->Add(c, i, one_step);
        ASSERT_TRUE(got.ok()) << c.where << ": " << got.status();
        EXPECT_EQ(Difference(results[i], AsFloat(*got), {.relative = 1e-5, .absolute = 1e-6}), "")
            << c.where << ", batch " << i;
      }
      ASSERT_TRUE((*run)->Reset().ok()) << c.where;
    }
  }
  EXPECT_EQ(names.size(), 21u);
}

}  // namespace
}  // namespace mirrorflow
