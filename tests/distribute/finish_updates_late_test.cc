// SPDX-License-Identifier: Apache-2.0
//
// Tests updates between memory domains that are still in flight when their step returns. Whatever
// the session does next, it sees the same bits as if the updates had finished within the step.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/step_plans.h"
#include "framework/workers/connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"
#include "tests/support/test_workers.h"
#include "train/layers/layers.h"
#include "train/losses/losses.h"
#include "train/optimizers/optimizers.h"

namespace mirrorflow {
namespace {

constexpr char kPass[] = "finish_updates_late";
constexpr int kSteps = 4;

// Three layers whose gradients are larger than one transferred piece.
struct Model {
  Model() {
    const Scope root(&graph);
    images = ops::Placeholder(root.WithName("images"), DT_FLOAT, {-1, 300});
    labels = ops::Placeholder(root.WithName("labels"), DT_INT32, {-1});
    Output x = layers::Dense(root, images, 400, ops::Relu);
    x = layers::Dense(root, x, 300, ops::Relu);
    loss = losses::SparseSoftmaxCrossEntropy(root, layers::Dense(root, x, 10), labels);
    train = Momentum({.learning_rate = 0.1, .momentum = 0.9}).Minimize(root, loss);
  }
  std::vector<Tensor> Batch(uint64_t seed, int64_t rows) const {
    Random random(seed);
    Tensor batch_labels = Tensor::Allocate(DT_INT32, Shape({rows})).value();
    for (int32_t& label : batch_labels.flat<int32_t>()) {
      label = static_cast<int32_t>(random.Below(10));
    }
    return {RandomTensor(DT_FLOAT, Shape({rows, 300}), &random), batch_labels};
  }

  Graph graph;
  Output images, labels, loss;
  Operation train;
};

struct Case {
  std::string name;
  // Called after each step except the last. `steps` is {train, evaluate}.
  std::function<absl::Status(const Model& model, Session& session, std::vector<Step>& steps, int i)>
      between;
};

using Values = std::vector<Tensor>;  // the losses of all steps, then the variables

absl::StatusOr<std::vector<Values>> Train(const Model& model, const Case& what, int replicas,
                                          bool late) {
  TestWorkersOptions options{.replicas = replicas};
  options.session.compile.check_plan = true;
  if (!late) options.session.compile.disabled_passes = {kPass};
  MF_ASSIGN_OR_RETURN(
      auto workers, TestWorkers::Create([&](int) -> const Graph& { return model.graph; }, options));
  std::vector<Values> values(workers->size());
  MF_RETURN_IF_ERROR(workers->OnAll([&](int w) -> absl::Status {
    Session& session = workers->session(w);
    std::vector<Step> steps(2);
    MF_ASSIGN_OR_RETURN(steps[0],
                        session.Prepare({model.images, model.labels}, {model.loss}, {model.train}));
    MF_ASSIGN_OR_RETURN(steps[1], session.Prepare({model.images, model.labels}, {model.loss}, {}));
    for (int i = 0; i < kSteps; ++i) {
      MF_ASSIGN_OR_RETURN(const StepOutputs out, steps[0].Run(model.Batch(i, 12)));
      MF_ASSIGN_OR_RETURN(values[w].emplace_back(), out[0].Clone());
      if (i + 1 < kSteps) MF_RETURN_IF_ERROR(what.between(model, session, steps, i));
    }
    for (const VariableInfo& variable : session.layout().variables()) {
      MF_ASSIGN_OR_RETURN(values[w].emplace_back(), session.ReadVariable(variable.name));
    }
    return session.CheckReplicas();
  }));
  return values;
}

std::vector<Case> Cases() {
  return {{"NextStepFollows",
           [](const Model&, Session&, std::vector<Step>&, int) { return absl::OkStatus(); }},
          {"VariableIsRead",
           [](const Model&, Session& session, std::vector<Step>&, int) {
             return session.ReadVariable(session.layout().variables()[0].name).status();
           }},
          {"OnlyOneWorkerReads",
           [](const Model&, Session& session, std::vector<Step>&, int i) -> absl::Status {
             if (session.connection().worker() != i % 2) return absl::OkStatus();
             return session.ReadVariable(session.layout().variables()[0].name).status();
           }},
          {"AnotherStepRuns", [](const Model& model, Session&, std::vector<Step>& steps,
                                 int i) { return steps[1].Run(model.Batch(100 + i, 8)).status(); }},
          {"AnotherBatchSizeFollows",
           [](const Model& model, Session&, std::vector<Step>& steps, int i) {
             return steps[0].Run(model.Batch(200 + i, i == 0 ? 5 : 3)).status();
           }},
          {"VariableIsAssigned",
           [](const Model&, Session& session, std::vector<Step>&, int) -> absl::Status {
             const VariableInfo& v = session.layout().variables()[0];
             MF_ASSIGN_OR_RETURN(const Tensor value, Tensor::Allocate(v.dtype, v.shape));
             std::fill(value.flat<float>().begin(), value.flat<float>().end(), 0.25f);
             return session.AssignVariable(v.name, value);
           }},
          {"ReplicasAreCompared", [](const Model&, Session& session, std::vector<Step>&, int) {
             return session.CheckReplicas();
           }}};
}

class FinishUpdatesLateTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(, FinishUpdatesLateTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(FinishUpdatesLateTest, LateUpdatesGiveSameBitsAsTimelyUpdates) {
  const Model model;
  for (const int replicas : {1, 2, 3}) {
    SCOPED_TRACE(absl::StrCat(replicas, " replicas per worker"));
    const auto in_time = Train(model, GetParam(), replicas, /*late=*/false);
    const auto late = Train(model, GetParam(), replicas, /*late=*/true);
    ASSERT_TRUE(in_time.ok() && late.ok()) << in_time.status() << late.status();
    for (size_t w = 0; w < late->size(); ++w) {
      ASSERT_EQ((*late)[w].size(), (*in_time)[w].size());
      for (size_t i = 0; i < (*late)[w].size(); ++i) {
        EXPECT_TRUE(Tensor::Identical((*late)[w][i], (*in_time)[w][i]))
            << "worker " << w << ", value " << i;
      }
    }
  }
}

TEST(FinishUpdatesLatePlanTest, EachUpdateFinishesWhereNextRunReadsItsVariable) {
  const Model model;
  const auto workers =
      TestWorkers::Create([&](int) -> const Graph& { return model.graph; }, {.replicas = 1});
  ASSERT_TRUE(workers.ok()) << workers.status();
  Session& session = (*workers)->session(0);
  const Step step = *session.Prepare({model.images, model.labels}, {model.loss}, {model.train});
  const auto plans = CompileStep(step, {Shape({12, 300}), Shape({12})});
  ASSERT_TRUE(plans.ok()) << plans.status();
  const Plan& plan = *plans->plans[0];
  ASSERT_EQ(plan.late.size(), 6) << plan.ToString();  // weights and biases of three layers
  int products = 0, before_first_product = 0;
  for (const Instruction& instruction : plan.instructions) {
    products +=
        instruction.kind == InstructionKind::kKernel && plan.kernel_flops[instruction.index] > 0
            ? 1
            : 0;
    const bool is_late = instruction.kind == InstructionKind::kFinishLate;
    before_first_product += is_late && products == 0 ? 1 : 0;
    EXPECT_FALSE(is_late && products > 3) << "a late update finishes after the forward pass";
  }
  EXPECT_GE(before_first_product, 1);
  EXPECT_LE(before_first_product, 2);  // only those of the first layer
}

// The worker with the invalid label has finished the updates of the previous step. If the other
// worker has not, it must report that its variables are indeterminate.
TEST(FinishUpdatesLateSessionTest, InvalidDataLeavesVariablesOfPreviousStep) {
  const Model model;
  std::vector<Tensor> want;
  for (const bool late : {false, true}) {
    TestWorkersOptions options{.replicas = 1};
    if (!late) options.session.compile.disabled_passes = {kPass};
    auto workers = TestWorkers::Create([&](int) -> const Graph& { return model.graph; }, options);
    ASSERT_TRUE(workers.ok()) << workers.status();
    std::vector<std::optional<Step>> steps(2);
    ASSERT_EQ((*workers)->OnAll([&](int w) -> absl::Status {
      MF_ASSIGN_OR_RETURN(steps[w], (*workers)->session(w).Prepare({model.images, model.labels},
                                                                   {model.loss}, {model.train}));
      return steps[w]->Run(model.Batch(1, 12)).status();
    }),
              absl::OkStatus());
    std::vector<Tensor> got(2);
    const auto statuses = (*workers)->OnEach([&](int w) -> absl::Status {
      Session& session = (*workers)->session(w);
      std::vector<Tensor> invalid = model.Batch(2, 12);
      invalid[1].flat<int32_t>()[11] = 99;  // a row of worker 1
      EXPECT_THAT(steps[w]->Run(invalid).status(),
                  IsError(absl::StatusCode::kInvalidArgument,
                          "SparseSoftmaxCrossEntropyWithLogits(", "got 99"));
      MF_ASSIGN_OR_RETURN(got[w], session.ReadVariable(session.layout().variables()[0].name));
      return absl::OkStatus();
    });
    EXPECT_EQ(statuses[1], absl::OkStatus());
    if (!late) want = got;
    for (int w = 0; w < 2; ++w) {
      if (late && !statuses[w].ok()) {
        EXPECT_EQ(w, 0);
        // If this read finishes the update, it fails with the error of the step.
        EXPECT_THAT(statuses[w],
                    testing::AnyOf(IsError(absl::StatusCode::kFailedPrecondition, "indeterminate"),
                                   IsError(absl::StatusCode::kInvalidArgument, "position 11")));
        continue;
      }
      ASSERT_EQ(statuses[w], absl::OkStatus());
      EXPECT_TRUE(Tensor::Identical(got[w], want[w])) << "worker " << w;
    }
  }
}

// A worker's session can end while another worker still needs its data.
TEST(FinishUpdatesLateSessionTest, SessionEndsWhileAnotherWorkerReads) {
  const Model model;
  auto workers = TestWorkers::Create([&](int) -> const Graph& { return model.graph; }, {});
  ASSERT_TRUE(workers.ok()) << workers.status();
  EXPECT_EQ((*workers)->OnAll([&](int w) -> absl::Status {
    Session& session = (*workers)->session(w);
    MF_ASSIGN_OR_RETURN(Step step,
                        session.Prepare({model.images, model.labels}, {model.loss}, {model.train}));
    MF_RETURN_IF_ERROR(step.Run(model.Batch(1, 12)).status());
    if (w == 0) return session.ReadVariable(session.layout().variables()[0].name).status();
    return absl::OkStatus();  // worker 1 makes no call while worker 0 reads
  }),
            absl::OkStatus());
}

}  // namespace
}  // namespace mirrorflow
