// SPDX-License-Identifier: Apache-2.0
//
// The standard library throws when memory runs out. If a kernel throws on the thread of any
// replica, the step returns an error, and the other replicas do not hang.
#include <atomic>
#include <cstring>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/registry.h"
#include "ops/sharding_rules.h"
#include "tests/support/is_error.h"
#include "tests/support/test_session.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

// The number of LargeCopy kernels that succeed before one throws. If negative, none throws.
std::atomic<int> runs_left{-1};

// Defines LargeCopy: y = x, unless memory runs out.
void DefineLargeCopy(OpRegistry& ops) {
  ops.Define("LargeCopy")
      .Input("x: float")
      .Output("y: float")
      .Traits(kElementwise)
      .Shape([](ShapeContext& c) {
        c.set_output(0, c.input(0));
        return absl::OkStatus();
      })
      .Sharding(ElementwiseSharding);
}
absl::StatusOr<KernelPlan> MakeLargeCopy(const KernelContext& c) {
  const size_t bytes = c.output_shape(0).num_elements() * sizeof(float);
  return KernelPlan{.kernel = MakeKernel([bytes](const KernelArgs& args, Lane&) {
                      if (runs_left.fetch_sub(1) == 0) throw std::bad_alloc();
                      std::memcpy(args.output<float>(0), args.input<float>(0), bytes);
                      return absl::OkStatus();
                    })};
}

struct Setting {
  int replicas;
  bool queued;
};

class OutOfMemoryTest : public testing::TestWithParam<Setting> {
 protected:
  OutOfMemoryTest() {
    DefineLargeCopy(ops_);
    kernels_.Register("LargeCopy", "CPU", MakeLargeCopy);
  }

  OpRegistry ops_{&AllOps()};
  KernelRegistry kernels_{&TestKernels()};
};

INSTANTIATE_TEST_SUITE_P(Replicas, OutOfMemoryTest,
                         testing::Values(Setting{1, false}, Setting{3, false}, Setting{3, true}),
                         [](const auto& info) {
                           return absl::StrCat(info.param.replicas,
                                               info.param.queued ? "Queued" : "Inline");
                         });

TEST_P(OutOfMemoryTest, StepFailsAndNextStepRuns) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
  const Output total =
      ops::Sum(root, root.WithName("large").Build(ops_, "LargeCopy").Input(x).One(), {0, 1});
  const Variable v = CreateVariable(root, "v", {}, initializers::Constant(1));
  const Operation update = ops::AssignAddVariableOp(root, v.handle, total);
  const auto session = CreateTestSession(graph, {.replicas = GetParam().replicas,
                                                 .queued = GetParam().queued,
                                                 .ops = &ops_,
                                                 .kernels = &kernels_});
  ASSERT_TRUE(session.ok()) << session.status();
  auto step = (*session)->Prepare({x}, {total}, {update});
  ASSERT_TRUE(step.ok()) << step.status();
  const Tensor rows = Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  float expected = 1;
  for (int failing = 0; failing < GetParam().replicas; ++failing) {
    runs_left = failing;
    const MonotonicTime begin = MonotonicTime::Now();
    const absl::Status status = step->Run({rows}).status();
    EXPECT_LT(MonotonicTime::Now() - begin, absl::Seconds(30))
        << "a replica waited for the one that failed";
    EXPECT_THAT(status,
                IsError(absl::StatusCode::kResourceExhausted, "LargeCopy(large) on ", "memory"));
    EXPECT_EQ((*session)->ReadVariable("v")->scalar<float>(), expected);

    runs_left = -1;
    const auto outputs = step->Run({rows});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ((*outputs)[0].scalar<float>(), 21);
    expected += 21;
  }
  EXPECT_EQ((*session)->ReadVariable("v")->scalar<float>(), expected);
}

}  // namespace
}  // namespace mirrorflow
