// SPDX-License-Identifier: Apache-2.0
//
// Compares losses and their gradients with Keras (tests/references/make_loss_cases.py), on one
// replica and on three. No batch divides evenly by three.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/reference_cases.h"
#include "tests/support/sizes.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/losses/losses.h"

namespace mirrorflow {
namespace {

using losses::LossOptions;

struct Inputs {
  Output predictions, labels, weights;
};

LossReduction ReductionOf(const ReferenceCase& c) {
  const std::string text = c.Text("reduction", "sum_over_batch_size");
  if (text == "none") return LossReduction::kNone;
  return text == "sum" ? LossReduction::kSum : LossReduction::kSumOverBatchSize;
}

// Builds a case's loss with the case's options. The table lists the losses whose only options are
// LossOptions.
Output BuildLoss(const Scope& s, const ReferenceCase& c, const Inputs& in) {
  using Plain = Output (*)(const Scope&, Output, Output, const LossOptions&);
  static const auto& plain = *new std::map<std::string, Plain>{
      {"mean_squared_error", losses::MeanSquaredError},
      {"mean_absolute_error", losses::MeanAbsoluteError},
      {"mean_absolute_percentage_error", losses::MeanAbsolutePercentageError},
      {"mean_squared_logarithmic_error", losses::MeanSquaredLogarithmicError},
      {"log_cosh", losses::LogCosh},
      {"poisson", losses::Poisson},
      {"cosine_similarity", losses::CosineSimilarity},
      {"hinge", losses::Hinge},
      {"squared_hinge", losses::SquaredHinge},
      {"categorical_hinge", losses::CategoricalHinge},
      {"kl_divergence", losses::KLDivergence},
      {"ctc", losses::CTC},
  };
  const LossReduction reduction = ReductionOf(c);
  const auto found = plain.find(c.name);
  if (found != plain.end()) {
    return found->second(s, in.predictions, in.labels,
                         {.sample_weight = in.weights, .reduction = reduction});
  }
  const bool from_logits = c.Number("from_logits", 0) != 0;
  const double smoothing = c.Number("label_smoothing", 0);
  if (c.name == "huber") {
    losses::HuberOptions options{.sample_weight = in.weights, .reduction = reduction};
    options.delta = c.Number("delta", options.delta);
    return losses::Huber(s, in.predictions, in.labels, options);
  }
  if (c.name == "sparse_softmax_cross_entropy") {
    losses::SparseCrossEntropyOptions options{.sample_weight = in.weights, .reduction = reduction};
    if (c.has("ignore_class")) {
      options.ignore_class = static_cast<int64_t>(c.Number("ignore_class", 0));
    }
    return losses::SparseSoftmaxCrossEntropy(s, in.predictions, in.labels, options);
  }
  if (c.name == "categorical_crossentropy" || c.name == "binary_crossentropy") {
    const losses::CrossentropyOptions options{.from_logits = from_logits,
                                              .label_smoothing = smoothing,
                                              .sample_weight = in.weights,
                                              .reduction = reduction};
    return c.name[0] == 'b'
               ? losses::BinaryCrossentropy(s, in.predictions, in.labels, options)
               : losses::CategoricalCrossentropy(s, in.predictions, in.labels, options);
  }
  if (c.name == "binary_focal_crossentropy") {
    losses::BinaryFocalOptions options{.from_logits = from_logits,
                                       .label_smoothing = smoothing,
                                       .sample_weight = in.weights,
                                       .reduction = reduction};
    options.apply_class_balancing = c.Number("apply_class_balancing", 0) != 0;
    options.alpha = c.Number("alpha", options.alpha);
    options.gamma = c.Number("gamma", options.gamma);
    return losses::BinaryFocalCrossentropy(s, in.predictions, in.labels, options);
  }
  if (c.name == "categorical_focal_crossentropy") {
    losses::CategoricalFocalOptions options{.from_logits = from_logits,
                                            .label_smoothing = smoothing,
                                            .sample_weight = in.weights,
                                            .reduction = reduction};
    options.alpha = c.Number("alpha", options.alpha);
    options.gamma = c.Number("gamma", options.gamma);
    return losses::CategoricalFocalCrossentropy(s, in.predictions, in.labels, options);
  }
  s.Fail(absl::NotFoundError(c.name));
  return Output();
}

const Tensor& Only(const ReferenceCase& c, const std::string& key) {
  return c.tensors.at(key).at(0);
}

// Returns the loss and its gradient with respect to the predictions.
absl::StatusOr<std::vector<Tensor>> Evaluate(const ReferenceCase& c, int replicas) {
  Graph graph;
  const Scope root(&graph);
  std::vector<std::pair<Output, Tensor>> feeds;
  const auto feed = [&](const std::string& key) {
    if (c.tensors.count(key) == 0) return Output();
    const Tensor& value = Only(c, key);
    Shape shape = value.shape();
    shape.set_dim(0, kUnknownDim);
    feeds.emplace_back(ops::Placeholder(root.WithName(key), value.dtype(), shape), value);
    return feeds.back().first;
  };
  const Inputs in{feed("predictions"), feed("labels"), feed("weights")};
  const Output loss = BuildLoss(root, c, in);
  MF_RETURN_IF_ERROR(graph.status());
  MF_ASSIGN_OR_RETURN(const std::vector<Output> gradients,
                      Gradients(root, {loss}, {in.predictions}));
  MF_ASSIGN_OR_RETURN(const auto session, CreateTestSession(graph, {.replicas = replicas}));
  return session->Run(feeds, {loss, gradients[0]});
}

class LossCases : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Replicas, LossCases, testing::ValuesIn(KerasReplicas()));

TEST_P(LossCases, MatchKeras) {
  const auto cases = ReadReferenceCases("tests/references/losses/losses.txt");
  ASSERT_TRUE(cases.ok()) << cases.status();
  std::set<std::string> names;
  for (const ReferenceCase& c : *cases) {
    names.insert(c.name);
    const auto got = Evaluate(c, GetParam());
    ASSERT_TRUE(got.ok()) << c.where << ": " << got.status();
    const bool is_double = Only(c, "predictions").dtype() == DT_DOUBLE;
    // Keras' epsilon is a float, so the logarithm of 1 - epsilon has few accurate digits.
    const Tolerance tolerance =
        is_double ? Tolerance{1e-7, 1e-7} : Tolerance{.relative = 2e-5, .absolute = 2e-6};
    EXPECT_EQ(Difference(Only(c, "loss"), (*got)[0], tolerance), "") << c.where;
    EXPECT_EQ(Difference(Only(c, "gradient"), (*got)[1], tolerance), "") << c.where << ", gradient";
  }
  EXPECT_EQ(names.size(), 18u);
}

}  // namespace
}  // namespace mirrorflow
