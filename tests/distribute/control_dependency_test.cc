// SPDX-License-Identifier: Apache-2.0
//
// The control inputs of a fetched value run even if the compiler replaces the value.
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/registry.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

struct Case {
  const char* name;  // what the compiler does to the value
  Output (*value)(const Scope& scope, const Output& x);
};

const Case kCases[] = {
    {"Kept", [](const Scope& s, const Output& x) { return ops::Sin(s, x); }},
    {"Decomposed",
     [](const Scope& s, const Output& x) {
       return ops::Mean(s, x, {0, 1});
     }},
    {"ReplacedByInput", [](const Scope& s, const Output& x) { return ops::Identity(s, x); }},
    {"ReplacedByDefault",
     [](const Scope& s, const Output& x) {
       return ops::PlaceholderWithDefault(s, x, {-1, 2});
     }},
    {"Simplified",
     [](const Scope& s, const Output& x) {
       return ops::Mul(s, x, ops::ScalarConst(s, DT_FLOAT, 1));
     }},
    {"Folded",
     [](const Scope& s, const Output&) { return ops::Neg(s, ops::ScalarConst(s, DT_FLOAT, 2)); }},
    {"TurnedIntoProduct",
     [](const Scope& s, const Output& x) {
       return ops::Einsum(s, {x, ops::OnesLike(s, x)}, "ij,ik->jk");
     }},
};

class ControlDependencyTest : public testing::TestWithParam<Case> {};

TEST_P(ControlDependencyTest, UpdateRunsOncePerFetchOfDependentValue) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 2});
  const Output count = ops::VarHandleOp(root, DT_FLOAT, {}, {.shared_name = "count"});
  const Operation update =
      ops::AssignAddVariableOp(root, count, ops::ScalarConst(root, DT_FLOAT, 1));
  const Output value = GetParam().value(root.WithControlDependencies({update}), x);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  for (const int replicas : {1, 2, 3}) {
    SCOPED_TRACE(absl::StrCat(replicas, " replicas"));
    auto session = CreateTestSession(graph, {.replicas = replicas});
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE((*session)->AssignVariable("count", Tensor::Scalar<float>(0)).ok());
    auto step = (*session)->Prepare({x}, {value});
    ASSERT_TRUE(step.ok()) << step.status();
    Random random(3);
    const Tensor fed = RandomTensor(DT_FLOAT, Shape({6, 2}), &random);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(step->Run({fed}).ok());
    const auto counted = (*session)->ReadVariable("count");
    ASSERT_TRUE(counted.ok()) << counted.status();
    EXPECT_EQ(counted->scalar<float>(), 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Values, ControlDependencyTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mirrorflow
