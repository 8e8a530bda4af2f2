// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/variables_file.h"

#include <memory>
#include <string>
#include <vector>

#include "framework/graph/text_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/control.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "tests/support/files.h"
#include "tests/support/test_session.h"
#include "train/layers/layers.h"
#include "train/optimizers/optimizers.h"
#include "train/safetensors/safetensors.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;

// Two variables with an initial value and one without.
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

TEST_F(VariablesFileTest, SecondCopyIsMadeInTheMemoryOfTheFirst) {
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
  // A tensor of another shape is replaced.
  contents.tensors["a"] = Tensor::Scalar<float>(1);
  ASSERT_TRUE(CollectVariables(*session_, &contents).ok());
  EXPECT_TRUE(Tensor::Identical(contents.tensors.at("a"), Tensor::Vector<float>({3, 4})));
}

TEST_F(VariablesFileTest, MissingAndUnexpectedNamesAreListedAndNothingIsSet) {
  const Safetensors contents = {{{"a", Tensor::Vector<float>({5, 5})},
                                 {"other", Tensor::Scalar<float>(1)},
                                 {"evil\n\033[31m", Tensor::Scalar<float>(1)}}};
  EXPECT_THAT(
      Load(contents).status().message(),
      AllOf(HasSubstr("missing 2 (b, c)"), HasSubstr("unexpected 2 (evil\\n\\x1b[31m, other)")));
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

TEST_F(VariablesFileTest, EveryDifferenceIsNamedAndNothingIsSet) {
  const absl::Status status = Load({{{"a", Tensor::Vector<float>({1, 2, 3})},
                                     {"b", Tensor::Scalar<float>(1)},
                                     {"c", Tensor::Scalar<float>(7)}}})
                                  .status();
  EXPECT_THAT(status.message(), AllOf(HasSubstr("variable 'a': expected float[2], got float[3]"),
                                      HasSubstr("variable 'b': expected int32[], got float[]")));
  EXPECT_FALSE(session_->IsInitialized("c"));
}

TEST_F(VariablesFileTest, FileWithoutMatchingNamesIsRejected) {
  const absl::Status status = Load({{{"x", Tensor::Scalar<float>(1)}}}, {.strict = false}).status();
  EXPECT_THAT(status.message(),
              HasSubstr("no tensor has the name of a variable; expected names such "
                        "as 'a', got 'x'"));
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

// A session of dense layers of two units each, with an optimizer if it trains.
std::unique_ptr<Session> DenseSession(const std::vector<std::string>& names, bool trains = false) {
  Graph graph;
  Scope root(&graph);
  Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
  for (const std::string& name : names) x = layers::Dense(root, x, 2, nullptr, {.name = name});
  if (trains) Adam({}).Minimize(root, ops::Sum(root, x, {0, 1}));
  return CreateTestSession(graph, {}).value();
}

TEST(CheckpointNamesTest, OptimizerStateIsNotUnexpectedWithoutOptimizer) {
  const std::string path = TemporaryPath("trained.safetensors");
  ASSERT_TRUE(SaveVariables(*DenseSession({"dense"}, /*trains=*/true), path).ok());
  const auto report = LoadVariables(path, *DenseSession({"dense"}));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->unexpected, ElementsAre());
  // In a session with an optimizer, the state of a variable that it lacks is unexpected.
  EXPECT_THAT(LoadVariables(path, *DenseSession({"other"}, true)).status().message(),
              HasSubstr("unexpected"));
}

TEST(CheckpointNamesTest, LayerInsertedInTheMiddleDoesNotShiftNumberedNames) {
  const std::string path = TemporaryPath("two.safetensors");
  ASSERT_TRUE(SaveVariables(*DenseSession({"dense", "dense"}), path).ok());
  const auto three = DenseSession({"dense", "dense", "dense"});
  EXPECT_THAT(LoadVariables(path, *three).status().message(),
              HasSubstr("missing 2 (dense_2/bias, dense_2/kernel)"));
  EXPECT_THAT(
      LoadVariables(path, *three, {.strict = false}).status().message(),
      AllOf(HasSubstr("the numbers of dense*/bias*"),
            HasSubstr("got dense/bias, dense_1/bias, dense_2/bias in the session and dense/bias, "
                      "dense_1/bias in the file")));
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
