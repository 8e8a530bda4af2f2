// SPDX-License-Identifier: Apache-2.0
//
// Tests that if one of three workers runs different collectives over TCP, all workers fail with the
// same error without waiting for a timeout. The error names the collectives that two ranks run.
#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "distribute/cluster/connect_workers.h"
#include "distribute/pipeline.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/coordination.h"
#include "tests/support/is_error.h"
#include "tests/support/test_workers.h"
#include "train/layers/layers.h"
#include "train/optimizers/optimizers.h"

namespace mirrorflow {
namespace {

using ::testing::ContainsRegex;

constexpr int kWorkers = 3, kOdd = 1;
constexpr int64_t kWidth = 8;
constexpr absl::Duration kTimeout = absl::Seconds(60);

// Changes the all-reduces of one size.
class ChangingCommunicator final : public Communicator {
 public:
  using Change = std::function<void(Collective*)>;

  ChangingCommunicator(std::unique_ptr<Communicator> communicator, Change change)
      : communicator_(std::move(communicator)), change_(std::move(change)) {}
  int rank() const override { return communicator_->rank(); }
  int world_size() const override { return communicator_->world_size(); }
  void BeginStep(uint64_t step) override { communicator_->BeginStep(step); }
  absl::Status EndStep() override { return communicator_->EndStep(); }
  absl::Status Start(const Collective& collective, Lane* lane) override {
    return communicator_->Start(Changed(collective), lane);
  }
  absl::Status Finish(const Collective& collective, Lane* lane) override {
    return communicator_->Finish(Changed(collective), lane);
  }
  absl::Status status() const override { return communicator_->status(); }
  void Abort(absl::Status why) override { communicator_->Abort(std::move(why)); }

 private:
  Collective Changed(Collective collective) const {
    const auto* reduce = std::get_if<AllReduce>(&collective.operation);
    if (reduce != nullptr && reduce->count == kWidth * kWidth) change_(&collective);
    return collective;
  }

  const std::unique_ptr<Communicator> communicator_;
  const Change change_;
};

// Derives a buggy worker's plan from the correct one that all have agreed on.
template <void (*change)(Plan* plan)>
absl::StatusOr<std::shared_ptr<const Plan>> CompileChanged(const Program& program,
                                                           const std::vector<int64_t>& rows,
                                                           const DeviceTraits& traits,
                                                           TuningTable* tuning) {
  MF_ASSIGN_OR_RETURN(auto made, CompilePlan(program, rows, traits, tuning));
  auto plan = std::const_pointer_cast<Plan>(made);
  if (plan->collectives.size() < 3) return made;  // this plan initialises variables
  change(plan.get());
  MakeDispatchLists(*plan, /*one_lane=*/true);
  return made;
}

bool IsOfCollective(const Instruction& instruction) {
  return instruction.kind == InstructionKind::kStart ||
         instruction.kind == InstructionKind::kFinish;
}

void SwapCollectives(Plan* plan) {
  const auto last = static_cast<int32_t>(plan->collectives.size()) - 1;
  for (Instruction& instruction : plan->instructions) {
    if (!IsOfCollective(instruction) || instruction.index < last - 1) continue;
    instruction.index = 2 * last - 1 - instruction.index;
  }
}

// Makes the plan run its last collective `times` times: 0 removes it.
template <int times>
void RunLastCollective(Plan* plan) {
  const std::vector<Instruction> instructions = std::exchange(plan->instructions, {});
  const std::vector<std::vector<MemoryAccess>> accesses = std::exchange(plan->accesses, {});
  const auto add = [&](size_t i, InstructionKind kind) {
    plan->instructions.push_back(instructions[i]);
    plan->instructions.back().kind = kind;
    plan->accesses.push_back(accesses[i]);
  };
  for (size_t i = 0; i < instructions.size(); ++i) {
    const InstructionKind kind = instructions[i].kind;
    if (!IsOfCollective(instructions[i]) ||
        instructions[i].index + 1 < std::ssize(plan->collectives)) {
      add(i, kind);
    } else if (kind == InstructionKind::kFinish) {
      for (int time = 0; time < times; ++time) {
        add(i, InstructionKind::kStart);
        add(i, InstructionKind::kFinish);
      }
    }
  }
}

// How one worker deviates.
struct Case {
  const char* name;
  ChangingCommunicator::Change change = nullptr;
  CompilePlanFn compile = CompilePlan;
};

class MismatchTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    , MismatchTest,
    testing::Values(Case{"Count", [](Collective* c) { --std::get<AllReduce>(c->operation).count; }},
                    Case{"Dtype", [](Collective* c) { c->dtype = DT_INT32; }},
                    Case{"Reduction",
                         [](Collective* c) {
                           std::get<AllReduce>(c->operation).reduction = Reduction::kMax;
                         }},
                    Case{"Name", [](Collective* c) { c->name = "another"; }},
                    Case{"Order", nullptr, CompileChanged<SwapCollectives>},
                    Case{"OneLess", nullptr, CompileChanged<RunLastCollective<0>>},
                    Case{"OneMore", nullptr, CompileChanged<RunLastCollective<2>>}),
    [](const auto& info) { return std::string(info.param.name); });

// Builds two layers. Each variable's gradient has a separate bucket.
struct Model {
  Model() {
    const Scope root(&graph);
    x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, kWidth});
    const Output hidden = layers::Dense(root, x, kWidth, ops::Relu);
    loss = ops::Mean(root, ops::Square(root, layers::Dense(root, hidden, kWidth)), {0, 1});
    train = GradientDescent({.learning_rate = 0.1}).Minimize(root, loss);
  }

  Graph graph;
  Output x, loss;
  Operation train;
};

// Workers that find each other through the coordination service, which determines the cause of a
// failure from their reports. `odd` says how one of them deviates.
class Cluster {
 public:
  explicit Cluster(const Case& odd) {
    for (const auto& client : service_.clients()) groups_.push_back(client->NewGroup());
    options_.session.bucket_bytes = 64;
    options_.session.compile.disabled_passes = {"reduce_in_updates"};  // would leave no buckets
    options_.change = [this, odd](int w, SessionOptions*, SessionBackend* backend) {
      Change(w == kOdd ? odd : Case{}, backend);
      backend->workers = groups_[w];
    };
  }
  const TestWorkersOptions& options() const { return options_; }

 private:
  static void Change(const Case& c, SessionBackend* backend) {
    backend->compile_plan = c.compile;
    backend->connect =
        [change = c.change](
            const Topology& topology, absl::Span<const int> ranks, WorkerGroup* workers,
            uint64_t incarnation,
            MonotonicTime deadline) -> absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> {
      MF_ASSIGN_OR_RETURN(auto made,
                          ConnectWorkers(topology, ranks, workers, incarnation, deadline,
                                         {.timeout = kTimeout, .data = {.address = "127.0.0.1"}}));
      if (change != nullptr) {
        made[0] = std::make_unique<ChangingCommunicator>(std::move(made[0]), change);
      }
      return made;
    };
  }

  CoordinatedCluster service_{kWorkers};
  std::vector<std::shared_ptr<WorkerGroup>> groups_;
  TestWorkersOptions options_{.workers = kWorkers, .replicas = 1};
};

// Trains for several steps: an extra or missing collective can go unnoticed until the next step.
std::vector<absl::Status> Train(const Model& model, TestWorkers& workers) {
  return workers.OnEach([&](int w) -> absl::Status {
    MF_ASSIGN_OR_RETURN(Step step,
                        workers.session(w).Prepare({model.x}, {model.loss}, {model.train}));
    MF_ASSIGN_OR_RETURN(const Tensor rows, Tensor::Allocate(DT_FLOAT, Shape({6, kWidth})));
    std::fill(rows.flat<float>().begin(), rows.flat<float>().end(), 0.5f);
    for (int i = 0; i < 3; ++i) MF_RETURN_IF_ERROR(step.Run({rows}).status());
    return absl::OkStatus();
  });
}

TEST(EqualWorkersTest, TrainOverTcp) {
  const Model model;
  const Cluster cluster({});
  const auto workers =
      TestWorkers::Create([&](int) -> const Graph& { return model.graph; }, cluster.options());
  ASSERT_TRUE(workers.ok()) << workers.status();
  for (const absl::Status& status : Train(model, **workers)) EXPECT_TRUE(status.ok()) << status;
}

TEST_P(MismatchTest, AllWorkersReportCollectivesOfTwoRanks) {
  const Model model;
  const Cluster cluster(GetParam());
  const auto workers =
      TestWorkers::Create([&](int) -> const Graph& { return model.graph; }, cluster.options());
  ASSERT_TRUE(workers.ok()) << workers.status();
  const MonotonicTime start = MonotonicTime::Now();
  const std::vector<absl::Status> statuses = Train(model, **workers);
  EXPECT_LT(MonotonicTime::Now() - start, kTimeout / 2);
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kInvalidArgument) << statuses[0];
  EXPECT_THAT(std::string(statuses[0].message()),
              AllOf(ContainsRegex("rank [0-2] to rank [0-2], collective [0-9]+"),
                    ContainsRegex("rank [0-2] runs another"),
                    ContainsRegex("in step [0-9].*in step [0-9]")));
  EXPECT_THAT(statuses,
              testing::Each(IsError(statuses[0].code(), std::string(statuses[0].message()))));
}

}  // namespace
}  // namespace mirrorflow
