// SPDX-License-Identifier: Apache-2.0
#include "framework/session/variable_store.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/session_parts.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using State = VariableStore::State;

class VariableStoreTest : public testing::Test {
 protected:
  VariableStoreTest() {
    const Scope root(&graph_);
    CreateVariable(root, "weight", {2}, initializers::Zeros());
    CreateVariable(root, "sum", {2}, initializers::Zeros(), DT_FLOAT,
                   {.synchronization = VariableSynchronization::kOnRead});
    parts_.emplace(graph_, SessionPartsOptions{.replicas = 2});
    weight_ = *store().Find("weight");
    sum_ = *store().Find("sum");
  }
  VariableStore& store() { return *parts_->variables; }

  std::vector<float> Read(int variable, int replica) {
    Tensor value;
    EXPECT_EQ(store().Read(variable, replica, &value), absl::OkStatus());
    return ValuesOf(value);
  }

  Graph graph_;
  std::optional<SessionParts> parts_;
  int weight_ = -1, sum_ = -1;
};

TEST_F(VariableStoreTest, UnknownNameFailsWithSuggestion) {
  EXPECT_THAT(store().Find("wieght").status(), IsError(absl::StatusCode::kNotFound, "weight"));
}

TEST_F(VariableStoreTest, VariableIsReadableAfterAssignment) {
  EXPECT_THAT(store().CheckReadable(weight_),
              IsError(absl::StatusCode::kFailedPrecondition, "initialised"));
  EXPECT_EQ(store().states()[weight_], State::kUnset);
  EXPECT_EQ(store().Assign({{weight_, Tensor::Vector<float>({1, 2})}}), absl::OkStatus());
  EXPECT_EQ(store().states()[weight_], State::kSet);
  EXPECT_EQ(store().CheckReadable(weight_), absl::OkStatus());
  EXPECT_EQ(store().states()[sum_], State::kUnset);
}

TEST_F(VariableStoreTest, AssignmentSetsEveryReplica) {
  ASSERT_EQ(store().Assign({{weight_, Tensor::Vector<float>({1, 2})}}), absl::OkStatus());
  EXPECT_THAT(Read(weight_, 0), ElementsAre(1, 2));
  EXPECT_THAT(Read(weight_, 1), ElementsAre(1, 2));
  Tensor value;
  EXPECT_THAT(store().Read(weight_, 2, &value),
              IsError(absl::StatusCode::kInvalidArgument, "replica"));
}

TEST_F(VariableStoreTest, ReadReusesMemoryOfTheSameShape) {
  ASSERT_EQ(store().Assign({{weight_, Tensor::Vector<float>({1, 2})}}), absl::OkStatus());
  Tensor value = Tensor::Vector<float>({7, 7});
  const std::byte* const memory = value.raw();
  ASSERT_EQ(store().Read(weight_, &value), absl::OkStatus());
  EXPECT_EQ(value.raw(), memory);
  EXPECT_THAT(ValuesOf(value), ElementsAre(1, 2));
}

TEST_F(VariableStoreTest, RejectedValueChangesNothing) {
  ASSERT_EQ(store().Assign({{weight_, Tensor::Vector<float>({1, 2})}}), absl::OkStatus());
  EXPECT_THAT(store().Assign({{weight_, Tensor::Vector<float>({1, 2, 3})}}),
              IsError(absl::StatusCode::kInvalidArgument, "weight"));
  EXPECT_THAT(store().Assign({{weight_, Tensor::Vector<int32_t>({1, 2})}}),
              IsError(absl::StatusCode::kInvalidArgument, "int32"));
  EXPECT_THAT(store().Assign({{weight_, Tensor::Vector<float>({8, 9})},
                              {sum_, Tensor::Vector<float>({1, 2, 3})}}),
              IsError(absl::StatusCode::kInvalidArgument, "sum"));
  EXPECT_THAT(store().AssignFromWorker0({weight_}, {}),
              IsError(absl::StatusCode::kInvalidArgument, "weight"));
  EXPECT_THAT(Read(weight_, 0), ElementsAre(1, 2));
}

TEST_F(VariableStoreTest, IndeterminateVariableIsUnreadableUntilAssigned) {
  ASSERT_EQ(store().Assign({{weight_, Tensor::Vector<float>({1, 2})}}), absl::OkStatus());
  store().MarkIndeterminate({weight_}, absl::InternalError("a kernel failed"));
  Tensor value;
  EXPECT_THAT(store().Read(weight_, &value),
              IsError(absl::StatusCode::kFailedPrecondition, "a kernel failed"));
  EXPECT_THAT(store().CheckReadable(weight_),
              IsError(absl::StatusCode::kFailedPrecondition, "weight"));
  ASSERT_EQ(store().Assign({{weight_, Tensor::Vector<float>({3, 4})}}), absl::OkStatus());
  EXPECT_THAT(Read(weight_, 1), ElementsAre(3, 4));
}

// A variable that is synchronised on read has the sum of the replicas' parts as its value.
TEST_F(VariableStoreTest, ValueIsTheSumOfTheParts) {
  ASSERT_EQ(store().Assign({{sum_, Tensor::Vector<float>({1, 2})}}), absl::OkStatus());
  EXPECT_THAT(Read(sum_, 0), ElementsAre(1, 2));
  EXPECT_THAT(Read(sum_, 1), ElementsAre(0, 0));
  const std::vector<VariablePart> parts = {{0, Tensor::Vector<float>({1, 0})},
                                           {1, Tensor::Vector<float>({4, 8})}};
  ASSERT_EQ(store().AssignPartsFromWorker0(sum_, parts), absl::OkStatus());
  Tensor value;
  ASSERT_EQ(store().Read(sum_, &value), absl::OkStatus());
  EXPECT_THAT(ValuesOf(value), ElementsAre(5, 8));
  const auto read = store().ReadParts(sum_);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[1].rank, 1);
  EXPECT_THAT(ValuesOf((*read)[1].value), ElementsAre(4, 8));
}

TEST_F(VariableStoreTest, InvalidPartsFail) {
  const Tensor value = Tensor::Vector<float>({1, 2});
  EXPECT_THAT(store().AssignPartsFromWorker0(sum_, std::vector<VariablePart>{{2, value}}),
              IsError(absl::StatusCode::kInvalidArgument, "rank 2"));
  EXPECT_THAT(
      store().AssignPartsFromWorker0(sum_, std::vector<VariablePart>{{1, value}, {0, value}}),
      IsError(absl::StatusCode::kInvalidArgument, "rank 0"));
  EXPECT_THAT(store().ReadParts(weight_).status(),
              IsError(absl::StatusCode::kInvalidArgument, "weight"));
}

}  // namespace
}  // namespace mirrorflow
