// SPDX-License-Identifier: Apache-2.0
//
// Tests what the cases in tests/references do not cover for placeholders, variables and updates:
// errors, order and gates.
#include "framework/graph/shape_inference.h"
#include "framework/runtime/evaluate_node.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/registry.h"
#include "ops/update.h"
#include "ops/variable.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

class StateOps : public ::testing::Test {
 protected:
  Output Feed(DataType dtype, const Shape& shape) { return ops::Placeholder(root_, dtype, shape); }
  Output Variable(const Shape& shape, DataType dtype = DT_FLOAT) {
    return ops::VarHandleOp(root_, dtype, shape);
  }
  absl::Status Error() { return root_.status(); }

  Graph graph_;
  Scope root_{&graph_};
};

TEST_F(StateOps, PlaceholderHasGivenShape) {
  EXPECT_EQ(root_.shape(Feed(DT_FLOAT, {-1, 784})), Shape({-1, 784}));
  EXPECT_TRUE(root_.shape(ops::Placeholder(root_, DT_INT32)).unknown_rank());
}

TEST_F(StateOps, GroupFollowsAllItsOperations) {
  const Operation a = ops::NoOp(root_.WithName("a")), b = ops::NoOp(root_.WithName("b"));
  const Operation group = ops::Group(root_, {a, b});
  EXPECT_THAT(group.node->control_inputs(), ElementsAre(a.node, b.node));
}

TEST_F(StateOps, ReadHasDtypeAndShapeOfVariable) {
  const Output read = ops::ReadVariableOp(root_, Variable({2, 3}, DT_INT64));
  EXPECT_EQ(read.dtype(), DT_INT64);
  EXPECT_EQ(root_.shape(read), Shape({2, 3}));
}

TEST_F(StateOps, ReadOfNonHandleIsError) {
  EXPECT_FALSE(ops::ReadVariableOp(root_, Feed(DT_FLOAT, {2})).valid());
  EXPECT_THAT(Error(), IsError(kInvalid, "resource"));
}

TEST_F(StateOps, ReadOfWrongDtypeIsError) {
  ops::Build(root_, "ReadVariableOp").Input(Variable({2})).Attr("dtype", DT_INT32).One();
  EXPECT_THAT(Error(), IsError(kInvalid, "dtype", "expected float", "got int32"));
}

TEST_F(StateOps, AssignmentOfWrongShapeIsError) {
  EXPECT_FALSE(ops::AssignVariableOp(root_, Variable({2, 3}), Feed(DT_FLOAT, {3, 2})).valid());
  EXPECT_THAT(Error(), IsError(kInvalid, "expected [2,3]", "got [3,2]"));
}

TEST_F(StateOps, AssignmentOfPartiallyKnownShapeIsAccepted) {
  EXPECT_TRUE(ops::AssignAddVariableOp(root_, Variable({2, 3}), Feed(DT_FLOAT, {-1, 3})).valid());
}

TEST_F(StateOps, AssignmentOfWrongDtypeIsError) {
  EXPECT_FALSE(ops::AssignSubVariableOp(root_, Variable({2}), Feed(DT_DOUBLE, {2})).valid());
  EXPECT_THAT(Error(), IsError(kInvalid, "expected float", "got double"));
}

TEST_F(StateOps, UpdateErrorNamesSlotOfWrongShape) {
  ops::ResourceApplyMomentum(root_, Variable({2, 3}), Variable({2, 4}), Feed(DT_FLOAT, {}),
                             Feed(DT_FLOAT, {2, 3}), Feed(DT_FLOAT, {}));
  EXPECT_THAT(Error(), IsError(kInvalid, "input 1", "expected [2,3]", "got [2,4]"));
}

TEST_F(StateOps, UpdateErrorNamesGradientOfWrongShape) {
  ops::ResourceApplyGradientDescent(root_, Variable({2, 3}), Feed(DT_FLOAT, {}),
                                    Feed(DT_FLOAT, {3}));
  EXPECT_THAT(Error(), IsError(kInvalid, "gradient in input 2", "expected [2,3]", "got [3]"));
}

TEST_F(StateOps, UpdateWithNonScalarRateIsError) {
  ops::ResourceApplyGradientDescent(root_, Variable({2}), Feed(DT_FLOAT, {2}), Feed(DT_FLOAT, {2}));
  EXPECT_THAT(Error(), IsError(kInvalid, "input 1", "got shape [2]"));
}

TEST_F(StateOps, UpdateOfVariableWithWrongDtypeIsError) {
  ops::ResourceApplyGradientDescent(root_, Variable({2}, DT_DOUBLE), Feed(DT_FLOAT, {}),
                                    Feed(DT_FLOAT, {2}));
  EXPECT_THAT(Error(), IsError(kInvalid, "expected float", "got double"));
}

TEST_F(StateOps, GateMustBeBool) {
  ops::ResourceApplyGradientDescent(root_, Variable({2}), Feed(DT_FLOAT, {}), Feed(DT_FLOAT, {2}),
                                    {.gates = {Feed(DT_FLOAT, {})}});
  EXPECT_THAT(Error(), IsError(kInvalid, "dtype bool", "got float"));
}

// --- gates -----------------------------------------------------------------------------------

// An update op, its gates' values, and whether the update runs.
struct GateRow {
  const char* op;
  std::vector<bool> gates;
  bool runs;
};

class Gates : public StateOps, public ::testing::WithParamInterface<GateRow> {
 protected:
  // Adds an update of the variable {1, 2} with slots {3, 4} and gradient {5, 6}. All scalar
  // operands are 0.5.
  Operation Update(const std::string& op, const std::vector<Output>& gates) {
    const Output var = Variable({2}), slot = Variable({2}), slot2 = Variable({2});
    const Output scalar = Feed(DT_FLOAT, {}), grad = Feed(DT_FLOAT, {2});
    if (op == "ResourceApplyMomentum") {
      return ops::ResourceApplyMomentum(root_, var, slot, scalar, grad, scalar, {.gates = gates});
    }
    if (op == "ResourceApplyAdam") {
      return ops::ResourceApplyAdam(root_, var, slot, slot2,
                                    {scalar, scalar, scalar, scalar, scalar, scalar}, grad,
                                    {.gates = gates});
    }
    return ops::ResourceApplyGradientDescent(root_, var, scalar, grad, {.gates = gates});
  }
};

TEST_P(Gates, UpdateWritesOnlyIfAllAreTrue) {
  const std::vector<bool>& values = GetParam().gates;
  std::vector<Output> gates;
  for (size_t i = 0; i < values.size(); ++i) gates.push_back(Feed(DT_BOOL, {}));
  const Operation update = Update(GetParam().op, gates);
  ASSERT_TRUE(root_.ok()) << root_.status();

  std::vector<Tensor> inputs;
  size_t next_gate = 0;
  for (const Output& input : update.node->inputs()) {
    if (input.dtype() == DT_BOOL) {
      inputs.push_back(Tensor::Scalar<bool>(values[next_gate++]));
    } else if (input.dtype() == DT_RESOURCE) {
      inputs.push_back(inputs.empty() ? Tensor::Of<float>({2}, {1, 2})
                                      : Tensor::Of<float>({2}, {3, 4}));
    } else if (root_.shape(input).rank() == 0) {
      inputs.push_back(Tensor::Scalar(0.5f));
    } else {
      inputs.push_back(Tensor::Of<float>({2}, {5, 6}));
    }
  }
  std::vector<Tensor> before;
  for (const Tensor& input : inputs) before.push_back(*input.Clone());
  ASSERT_TRUE(EvaluateNode(*update.node, inputs, {}, CpuKernels()).ok());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool written = GetParam().runs && update.node->input(i).dtype() == DT_RESOURCE;
    EXPECT_EQ(Tensor::Identical(before[i], inputs[i]), !written) << "input " << i;
  }
}

std::vector<GateRow> GateRows() {
  std::vector<GateRow> rows;
  for (const char* op :
       {"ResourceApplyGradientDescent", "ResourceApplyMomentum", "ResourceApplyAdam"}) {
    rows.insert(rows.end(), {{op, {}, true},
                             {op, {true}, true},
                             {op, {false}, false},
                             {op, {true, true}, true},
                             {op, {true, false}, false},
                             {op, {false, true}, false}});
  }
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Updates, Gates, ::testing::ValuesIn(GateRows()), [](const auto& info) {
  std::string name = info.param.op;
  for (const bool gate : info.param.gates) name += gate ? "_true" : "_false";
  return name;
});

TEST_F(StateOps, UpdatesDeclareTheirGradient) {
  for (const char* op :
       {"ResourceApplyGradientDescent", "ResourceApplyMomentum", "ResourceApplyAdam"}) {
    const OpDef* def = AllOps().Find(op);
    ASSERT_NE(def, nullptr) << op;
    EXPECT_EQ(def->role, OpRole::kWrite) << op;
    EXPECT_FALSE(def->update_gradient.empty()) << op;
  }
}

}  // namespace
}  // namespace mirrorflow
