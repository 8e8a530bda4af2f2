// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/variables_file.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/graph/text_form.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/control.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/support/test_session.h"
#include "train/layers/layers.h"
#include "train/losses/losses.h"
#include "train/metrics/metrics.h"
#include "train/optimizers/optimizers.h"
#include "train/safetensors/safetensors.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::Key;

// The session has two variables with initial values and one without.
class VariablesFileTest : public ::testing::Test {
 protected:
  VariablesFileTest() {
    const absl::StatusOr<Graph> graph = ParseGraph(R"(
zero = Const() {dtype=float, value=float<2>{0.0, 0.0}}
one = Const() {dtype=int32, value=int32<>{1}}
a = VarHandleOp() {dtype=float, shape=<2>, shared_name="a", _initializer="zero"}
b = VarHandleOp() {dtype=int32, shape=<>, shared_name="b", _initializer="one"}
c = VarHandleOp() {dtype=float, shape=<>, shared_name="c"}
)",
                                                   AllOps());
    EXPECT_TRUE(graph.ok()) << graph.status();
    session_ = CreateTestSession(*graph, {.replicas = 2}).value();
  }

  absl::StatusOr<LoadReport> Load(Safetensors contents, const LoadOptions& options = {}) {
    const std::string path = TemporaryPath("variables.safetensors");
    EXPECT_TRUE(WriteSafetensors(path, contents).ok());
    return LoadVariables(path, *session_, options);
  }
  Tensor Value(const std::string& name) { return session_->ReadVariable(name).value(); }

  std::unique_ptr<Session> session_;
};

TEST_F(VariablesFileTest, SavesAndLoadsInitialisedVariables) {
  ASSERT_TRUE(session_->AssignVariable("a", Tensor::Vector<float>({3, 4})).ok());
  const std::string path = TemporaryPath("saved.safetensors");
  ASSERT_TRUE(SaveVariables(*session_, path).ok());
  EXPECT_THAT(ReadSafetensors(path)->tensors, ElementsAre(Key("a"), Key("b")));
  ASSERT_TRUE(session_->AssignVariable("a", Tensor::Vector<float>({0, 0})).ok());
  const absl::StatusOr<LoadReport> report = LoadVariables(path, *session_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->loaded, ElementsAre("a", "b"));
  EXPECT_THAT(report->missing, ElementsAre());  // c had no value
  EXPECT_TRUE(Tensor::Identical(Value("a"), Tensor::Vector<float>({3, 4})));
}

TEST_F(VariablesFileTest, SecondCopyReusesTheMemoryOfTheFirst) {
  Safetensors contents;
  ASSERT_TRUE(CollectVariables(*session_, &contents).ok());
  const std::byte* const memory = contents.tensors.at("a").raw();
  ASSERT_TRUE(session_->AssignVariable("a", Tensor::Vector<float>({3, 4})).ok());
  session_->SetStep(5);
  ASSERT_TRUE(CollectVariables(*session_, &contents).ok());
  EXPECT_THAT(contents.tensors, ElementsAre(Key("a"), Key("b")));
  EXPECT_EQ(contents.tensors.at("a").raw(), memory);
  EXPECT_TRUE(Tensor::Identical(contents.tensors.at("a"), Tensor::Vector<float>({3, 4})));
  EXPECT_EQ(contents.metadata.at("mirrorflow.step"), "5");
  // A tensor with a different shape is replaced.
  contents.tensors["a"] = Tensor::Scalar<float>(1);
  ASSERT_TRUE(CollectVariables(*session_, &contents).ok());
  EXPECT_TRUE(Tensor::Identical(contents.tensors.at("a"), Tensor::Vector<float>({3, 4})));
}

TEST_F(VariablesFileTest, MissingAndUnexpectedNamesAreListedAndNothingIsSet) {
  const Safetensors contents = {{{"a", Tensor::Vector<float>({5, 5})},
                                 {"other", Tensor::Scalar<float>(1)},
                                 {"evil\n\033[31m", Tensor::Scalar<float>(1)}}};
  EXPECT_THAT(Load(contents).status(),
              IsError(absl::StatusCode::kInvalidArgument, "missing 2 (b, c)",
                      "unexpected 2 (evil\\n\\x1b[31m, other)"));
  EXPECT_TRUE(Tensor::Identical(Value("a"), Tensor::Vector<float>({0, 0})));
}

TEST_F(VariablesFileTest, NonStrictLoadReportsMissingAndUnexpectedNames) {
  const auto report = Load({{{"c", Tensor::Scalar<float>(7)}, {"other", Tensor::Scalar<float>(1)}}},
                           {.strict = false});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->loaded, ElementsAre("c"));
  EXPECT_THAT(report->missing, ElementsAre("a", "b"));
  EXPECT_THAT(report->unexpected, ElementsAre("other"));
  EXPECT_EQ(report->ToString(), "loaded 1 variables, missing 2 (a, b), unexpected 1 (other)");
  EXPECT_TRUE(Tensor::Identical(Value("c"), Tensor::Scalar<float>(7)));
  EXPECT_TRUE(Tensor::Identical(Value("b"), Tensor::Scalar<int32_t>(1)));
}

TEST_F(VariablesFileTest, EveryMismatchIsNamedAndNothingIsSet) {
  const absl::Status status = Load({{{"a", Tensor::Vector<float>({1, 2, 3})},
                                     {"b", Tensor::Scalar<float>(1)},
                                     {"c", Tensor::Scalar<float>(7)}}})
                                  .status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "variable 'a'", "got float[3]",
                              "variable 'b'", "got float[]"));
  EXPECT_FALSE(session_->IsInitialized("c"));
}

TEST_F(VariablesFileTest, FileWithoutMatchingNamesIsRejected) {
  const absl::Status status = Load({{{"x", Tensor::Scalar<float>(1)}}}, {.strict = false}).status();
  EXPECT_THAT(status,
              IsError(absl::StatusCode::kInvalidArgument, "no tensor", "such as 'a'", "got 'x'"));
}

TEST_F(VariablesFileTest, StepIsRestoredOnlyIfNothingIsMissing) {
  session_->SetStep(17);
  const std::string path = TemporaryPath("step.safetensors");
  ASSERT_TRUE(SaveVariables(*session_, path).ok());
  session_->SetStep(0);
  ASSERT_TRUE(LoadVariables(path, *session_).ok());
  EXPECT_EQ(session_->step(), 17);
  session_->SetStep(3);
  Safetensors part = *ReadSafetensors(path);
  part.tensors.erase("a");
  ASSERT_TRUE(Load(part, {.strict = false}).ok());
  EXPECT_EQ(session_->step(), 3);
}

// Returns a session with dense layers of two units each and, if `trains` is true, an optimizer.
std::unique_ptr<Session> DenseSession(const std::vector<std::string>& names, bool trains = false) {
  Graph graph;
  Scope root(&graph);
  Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
  for (const std::string& name : names) x = layers::Dense(root, x, 2, nullptr, {.name = name});
  if (trains) Adam({}).Minimize(root, ops::Sum(root, x, {0, 1}));
  return CreateTestSession(graph, {}).value();
}

TEST(CheckpointNamesTest, OptimizerStateIsAcceptedWithoutOptimizer) {
  const std::string path = TemporaryPath("trained.safetensors");
  ASSERT_TRUE(SaveVariables(*DenseSession({"dense"}, /*trains=*/true), path).ok());
  const auto report = LoadVariables(path, *DenseSession({"dense"}));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->unexpected, ElementsAre());
  // If the session has an optimizer, optimizer state for a variable that the session lacks is
  // unexpected.
  EXPECT_THAT(LoadVariables(path, *DenseSession({"other"}, true)).status(),
              IsError(absl::StatusCode::kInvalidArgument, "unexpected"));
}

// Returns a session whose variables include every kind that is not a weight: moving averages,
// optimizer slots, learning-rate state and metric counters.
std::unique_ptr<Session> TrainerSession() {
  Graph graph;
  Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
  const Output y = ops::Placeholder(root.WithName("y"), DT_INT32, {-1});
  const Output logits = layers::BatchNormalization(root, layers::Dense(root, x, 2));
  metrics::SparseCategoricalAccuracy(root, logits, y);
  Adam({.learning_rate = schedules::Adjustable(0.1, "learning_rate")})
      .Minimize(root, losses::SparseSoftmaxCrossEntropy(root, logits, y));
  return CreateTestSession(graph, {}).value();
}

// Returns the contents of a file that was written in Python: the model's weights, without other
// state.
Safetensors WeightsOf(Session& session) {
  Safetensors weights;
  EXPECT_TRUE(CollectVariables(session, &weights).ok());
  weights.metadata.clear();
  for (const VariableInfo& v : session.layout().variables()) {
    if (v.is_optimizer_state || v.on_read) weights.tensors.erase(v.name);
  }
  return weights;
}

TEST(StrictLoadTest, WeightsAloneLoadIntoTrainerAndItsStateIsKept) {
  const auto session = TrainerSession();
  Safetensors weights = WeightsOf(*session);
  EXPECT_THAT(weights.tensors,
              testing::IsSupersetOf({Key("dense/kernel"), Key("batch_norm/moving_mean"),
                                     Key("batch_norm/moving_variance")}));
  Tensor& kernel = weights.tensors.at("dense/kernel");
  kernel = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
  const std::string path = TemporaryPath("weights.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, weights).ok());
  session->SetStep(7);
  const auto report = LoadVariables(path, *session);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loaded.size(), weights.tensors.size());
  EXPECT_THAT(report->missing, ElementsAre());
  EXPECT_THAT(report->kept_state, testing::Not(testing::IsEmpty()));
  EXPECT_EQ(report->loaded.size() + report->kept_state.size(), session->VariableNames().size());
  EXPECT_TRUE(Tensor::Identical(*session->ReadVariable("dense/kernel"), kernel));
  EXPECT_EQ(session->step(), 7);  // the step is part of the state that is kept
}

TEST(StrictLoadTest, EveryVariableOfModelIsRequired) {
  const auto session = TrainerSession();
  const Safetensors weights = WeightsOf(*session);
  const std::string path = TemporaryPath("part.safetensors");
  for (const auto& [name, tensor] : weights.tensors) {
    Safetensors part = weights;
    part.tensors.erase(name);
    ASSERT_TRUE(WriteSafetensors(path, part).ok());
    EXPECT_THAT(
        LoadVariables(path, *session).status(),
        IsError(absl::StatusCode::kInvalidArgument, absl::StrCat("missing 1 (", name, ")")));
  }
  Safetensors more = weights;
  more.tensors["other"] = Tensor::Scalar<float>(1);
  ASSERT_TRUE(WriteSafetensors(path, more).ok());
  EXPECT_THAT(LoadVariables(path, *session).status(),
              IsError(absl::StatusCode::kInvalidArgument, "unexpected 1 (other)"));
}

TEST(StrictLoadTest, AllStateIsRequiredToResume) {
  const auto session = TrainerSession();
  Safetensors all;
  ASSERT_TRUE(CollectVariables(*session, &all).ok());
  const LoadOptions resume = {.all_state = true};
  EXPECT_TRUE(MatchVariables(all, "all", *session, resume).ok());
  for (const std::string& name : session->VariableNames()) {
    Safetensors part = all;
    part.tensors.erase(name);
    EXPECT_THAT(
        MatchVariables(part, "part", *session, resume).status(),
        IsError(absl::StatusCode::kInvalidArgument, absl::StrCat("missing 1 (", name, ")")));
  }
}

TEST(StrictLoadTest, SavedTrainerLoadsIntoModelWithoutOptimizer) {
  const std::string path = TemporaryPath("trainer.safetensors");
  const auto trainer = TrainerSession();
  ASSERT_TRUE(SaveVariables(*trainer, path).ok());
  Graph graph;
  Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
  layers::BatchNormalization(root, layers::Dense(root, x, 2));
  const auto model = CreateTestSession(graph, {}).value();
  const auto report = LoadVariables(path, *model);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->unexpected, ElementsAre());
}

// Returns the path of a file with a variable `name` and an 8-bit float tensor `float8`.
std::string WithFloat8(absl::string_view name, absl::string_view float8) {
  const std::string header =
      absl::StrCat(R"({")", name, R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},")", float8,
                   R"(":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[8,9]}})");
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + std::string(9, '\0');
}

TEST_F(VariablesFileTest, UnsupportedTensorIsReportedOnlyIfItsVariableIsNeeded) {
  const std::string path = WriteTemporary("float8.safetensors", WithFloat8("a", "scale"));
  const auto contents = ReadSafetensors(path);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_THAT(contents->tensors, ElementsAre(Key("a")));
  EXPECT_THAT(contents->unreadable, ElementsAre(Key("scale")));
  EXPECT_THAT(LoadVariables(path, *session_).status(),
              IsError(absl::StatusCode::kInvalidArgument, "unexpected 1 (scale)"));
  EXPECT_THAT(LoadVariables(path, *session_, {.strict = false})->loaded, ElementsAre("a"));
  const LoadOptions only_a = {.required = std::set<std::string>{"a"}};
  EXPECT_THAT(LoadVariables(path, *session_, only_a)->loaded, ElementsAre("a"));
  // An unsupported tensor is an error if a variable needs it.
  const std::string needed = WriteTemporary("needed.safetensors", WithFloat8("a", "c"));
  const absl::Status status = LoadVariables(needed, *session_, {.strict = false}).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kUnimplemented, "needed.safetensors: ", "\"c\"",
                              "F8_E4M3"));
  EXPECT_THAT(LoadVariables(needed, *session_, only_a)->loaded, ElementsAre("a"));
}

TEST_F(VariablesFileTest, OnlyVariablesInRequiredSetMustLoad) {
  LoadOptions options = {.required = std::set<std::string>{"a"}};
  const auto report = Load({{{"a", Tensor::Vector<float>({5, 6})},
                             {"b", Tensor::Scalar<float>(1)},  // not the variable's type
                             {"c", Tensor::Scalar<float>(7)},
                             {"other", Tensor::Scalar<float>(1)}}},
                           options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->loaded, ElementsAre("a", "c"));
  EXPECT_TRUE(Tensor::Identical(Value("a"), Tensor::Vector<float>({5, 6})));
  options.required->insert("b");
  EXPECT_THAT(Load({{{"a", Tensor::Vector<float>({5, 6})}}}, options).status(),
              IsError(absl::StatusCode::kInvalidArgument, "missing 1 (b)"));
}

TEST(CheckpointNamesTest, LayerInsertedInTheMiddleDoesNotShiftNumberedNames) {
  const std::string path = TemporaryPath("two.safetensors");
  ASSERT_TRUE(SaveVariables(*DenseSession({"dense", "dense"}), path).ok());
  const auto three = DenseSession({"dense", "dense", "dense"});
  EXPECT_THAT(
      LoadVariables(path, *three).status(),
      IsError(absl::StatusCode::kInvalidArgument, "missing 2 (dense_2/bias, dense_2/kernel)"));
  EXPECT_THAT(
      LoadVariables(path, *three, {.strict = false}).status(),
      IsError(absl::StatusCode::kInvalidArgument, "dense*/bias*", "dense_2/bias", "dense_1/bias"));
  EXPECT_TRUE(LoadVariables(path, *three, {.strict = false, .trust_numbered_names = true}).ok());
}

TEST(CheckpointNamesTest, ExplicitlyNamedLayersLoadPartially) {
  const std::string path = TemporaryPath("named.safetensors");
  ASSERT_TRUE(SaveVariables(*DenseSession({"first", "last"}), path).ok());
  const auto report =
      LoadVariables(path, *DenseSession({"first", "middle", "last"}), {.strict = false});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->missing, ElementsAre("middle/bias", "middle/kernel"));
}

}  // namespace
}  // namespace mirrorflow
