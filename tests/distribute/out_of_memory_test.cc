// SPDX-License-Identifier: Apache-2.0
//
// The standard library throws when memory runs out. On the thread of any replica, in any kernel,
// that is an error of the step, which the other replicas do not wait for.
#include <atomic>
#include <cstring>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/ops.h"
#include "tests/support/test_session.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The number of kernels of Cumsum that still run before one throws; negative: none throws.
std::atomic<int> runs_left{-1};

// Copies its input, unless memory runs out.
absl::StatusOr<KernelPlan> MakeThrowingKernel(const KernelContext& c) {
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
  OutOfMemoryTest() : kernels_(&TestKernels()) {
    kernels_.Register("Cumsum", "CPU", MakeThrowingKernel);
  }

  // A session on which the kernel of Cumsum may throw.
  std::unique_ptr<Session> NewSession(const Graph& graph) {
    auto session = CreateTestSession(
        graph,
        {.replicas = GetParam().replicas, .queued = GetParam().queued, .kernels = &kernels_});
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  KernelRegistry kernels_;
};

INSTANTIATE_TEST_SUITE_P(Replicas, OutOfMemoryTest,
                         testing::Values(Setting{1, false}, Setting{3, false}, Setting{3, true}),
                         [](const auto& info) {
                           return absl::StrCat(info.param.replicas,
                                               info.param.queued ? "Queued" : "Inline");
                         });

TEST_P(OutOfMemoryTest, StepFailsAndTheNextOneRuns) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
  const Output total = ops::Sum(root, ops::Cumsum(root.WithName("large"), x, 1), {0, 1});
  const Variable v = CreateVariable(root, "v", {}, initializers::Constant(1));
  const Operation update = ops::AssignAddVariableOp(root, v.handle, total);
  const auto session = NewSession(graph);
  auto step = session->Prepare({x}, {total}, {update});
  ASSERT_TRUE(step.ok()) << step.status();
  const Tensor rows = Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  float expected = 1;
  for (int failing = 0; failing < GetParam().replicas; ++failing) {
    runs_left = failing;
    const absl::Time begin = absl::Now();
    const absl::Status status = step->Run({rows}).status();
    EXPECT_LT(absl::Now() - begin, absl::Seconds(30)) << "a replica has waited for the other";
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("Cumsum(large) on "), HasSubstr("cannot allocate memory")));
    EXPECT_EQ(session->ReadVariable("v")->scalar<float>(), expected);

    runs_left = -1;
    const auto outputs = step->Run({rows});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ((*outputs)[0].scalar<float>(), 21);
    expected += 21;
  }
  EXPECT_EQ(session->ReadVariable("v")->scalar<float>(), expected);
}

}  // namespace
}  // namespace mirrorflow
