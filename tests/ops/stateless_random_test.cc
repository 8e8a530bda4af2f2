// SPDX-License-Identifier: Apache-2.0
//
// Tests that stateless random ops draw bitwise the same values as TensorFlow's, and which shapes
// they reject. op_test.cc checks that each replica draws its own rows.
#include "ops/stateless_random.h"

#include "absl/strings/match.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "tests/support/is_error.h"
#include "tests/support/op_cases.h"

namespace mirrorflow {
namespace {

TEST(StatelessRandom, DrawsSameBitsAsTensorFlow) {
  const auto cases = LoadOpCases("tests/references/cases");
  ASSERT_TRUE(cases.ok()) << cases.status();
  int compared = 0;
  for (const OpCase& op_case : *cases) {
    if (!absl::StartsWith(op_case.op, "Stateless") || op_case.outputs.empty()) continue;
    const auto made = MakeCaseNode(op_case, AllOps());
    ASSERT_TRUE(made.ok()) << op_case.ToString() << ": " << made.status();
    const auto got = EvaluateCase(*made, CpuKernels());
    ASSERT_TRUE(got.ok()) << op_case.ToString() << ": " << got.status();
    for (size_t i = 0; i < got->size(); ++i) {
      EXPECT_TRUE(Tensor::Identical((*got)[i], op_case.outputs[i])) << op_case.ToString();
      compared += static_cast<int>(op_case.outputs[i].num_elements());
    }
  }
  EXPECT_GT(compared, 1000);
}

class StatelessRandomErrors : public testing::Test {
 protected:
  // Builds the op from operands with these shapes and returns the graph's status.
  absl::Status Build(const Shape& key, const Shape& counter) {
    const auto zeros = [&](const Shape& shape) {
      return ops::Const(scope_, *Tensor::Allocate(DT_UINT64, shape));
    };
    ops::StatelessRandomUniformV2(scope_, ops::VectorConst(scope_, {2}),
                                  {.key = zeros(key), .counter = zeros(counter)},
                                  ops::StatelessRandomGetAlg(scope_), DT_FLOAT);
    return graph_.status();
  }

  Graph graph_;
  const Scope scope_{&graph_};
};

TEST_F(StatelessRandomErrors, KeyOfOneAndCounterOfTwoOrMoreAreAccepted) {
  EXPECT_TRUE(Build({1}, {2}).ok());
  EXPECT_TRUE(Build({1}, {3}).ok());
}

TEST_F(StatelessRandomErrors, KeyOfTwoIsRejected) {
  const absl::Status status = Build({2}, {2});
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "key", "got 2"));
}

TEST_F(StatelessRandomErrors, CounterOfOneIsRejected) {
  const absl::Status status = Build({1}, {1});
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "counter", "got 1"));
}

TEST_F(StatelessRandomErrors, SeedOfThreeIsRejected) {
  ops::StatelessRandomGetKeyCounter(scope_, ops::VectorConst(scope_, {1, 2, 3}));
  EXPECT_THAT(graph_.status(), IsError(absl::StatusCode::kInvalidArgument, "seed", "got 3"));
}

}  // namespace
}  // namespace mirrorflow
