// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <memory>
#include <string>

#include "framework/graph/text_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/registry.h"
#include "tests/support/test_session.h"
#include "tests/train/files.h"
#include "train/safetensors.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;

// Two variables with an initial value and one without.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
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

  absl::Status Load(Safetensors contents) {
    const std::string path = TemporaryPath("variables.safetensors");
    EXPECT_TRUE(WriteSafetensors(path, contents).ok());
    return LoadVariables(path, *session_);
  }
  Tensor Value(const std::string& name) { return session_->ReadVariable(name).value(); }

  std::unique_ptr<Session> session_;
};

TEST_F(CheckpointTest, SavesTheVariablesThatHaveAValueAndLoadsThemAgain) {
  ASSERT_TRUE(session_->AssignVariable("a", Tensor::Vector<float>({3, 4})).ok());
  const std::string path = TemporaryPath("saved.safetensors");
  ASSERT_TRUE(SaveVariables(*session_, path).ok());
  EXPECT_THAT(ReadSafetensors(path)->tensors, ElementsAre(Key("a"), Key("b")));
  ASSERT_TRUE(session_->AssignVariable("a", Tensor::Vector<float>({0, 0})).ok());
  ASSERT_TRUE(LoadVariables(path, *session_).ok());
  EXPECT_TRUE(Tensor::Identical(Value("a"), Tensor::Vector<float>({3, 4})));
}

TEST_F(CheckpointTest, LeavesAloneWhatHasNoPartnerOnTheOtherSide) {
  ASSERT_TRUE(Load({{{"c", Tensor::Scalar<float>(7)}, {"other", Tensor::Scalar<float>(1)}}}).ok());
  EXPECT_TRUE(Tensor::Identical(Value("c"), Tensor::Scalar<float>(7)));
  EXPECT_TRUE(Tensor::Identical(Value("b"), Tensor::Scalar<int32_t>(1)));
}

TEST_F(CheckpointTest, NamesEveryDifferenceAndSetsNothing) {
  const absl::Status status = Load({{{"a", Tensor::Vector<float>({1, 2, 3})},
                                     {"b", Tensor::Scalar<float>(1)},
                                     {"c", Tensor::Scalar<float>(7)}}});
  EXPECT_THAT(status.message(), AllOf(HasSubstr("variable 'a': expected float[2], got float[3]"),
                                      HasSubstr("variable 'b': expected int32[], got float[]")));
  EXPECT_FALSE(session_->IsInitialized("c"));
}

TEST_F(CheckpointTest, AFileOfAnotherModelIsAnError) {
  EXPECT_THAT(Load({{{"x", Tensor::Scalar<float>(1)}}}).message(),
              HasSubstr("none of its 1 tensors is called after a variable of the graph; expected "
                        "names such as 'a', got 'x'"));
  EXPECT_TRUE(Load({}).ok());
}

}  // namespace
}  // namespace mirrorflow
