// SPDX-License-Identifier: Apache-2.0
//
// Verifies that the checks can fail: each test plants a bug that a check must detect.
#include <atomic>
#include <cstring>
#include <vector>

#include "distribute/pipeline.h"
#include "framework/compiler/plan/check_plan.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/session/step_plans.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/compare_with_reference.h"
#include "tests/support/flipping_device.h"
#include "tests/support/is_error.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "tests/support/test_workers.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

// Returns a correct plan of a training step, reduced to the parts that CheckPlan examines. It has
// at least four collectives or, with several threads per replica, at least four waits between
// threads and a kernel that can reject its data.
absl::StatusOr<Plan> TrainingPlan(int threads_per_replica = 1) {
  StepPlans plans;
  std::vector<std::unique_ptr<Session>> sessions;  // plans must not outlive layout and graph
  const auto is_large = [&](const Plan& plan) {
    return threads_per_replica == 1 ? plan.collectives.size() >= 4
                                    : plan.waits.size() >= 4 && plan.fails_on_data;
  };
  for (uint64_t seed = 1; plans.plans.empty() || !is_large(*plans.plans[0]); ++seed) {
    MF_ASSIGN_OR_RETURN(RandomProgram program, MakeRandomProgram(seed, {.num_ops = 10}));
    TestSessionOptions options{.replicas = 2, .threads_per_replica = threads_per_replica};
    options.session.bucket_bytes = 64;
    options.session.compile.min_part_ns = 0;
    MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(program.graph, options));
    MF_ASSIGN_OR_RETURN(Step step,
                        session->Prepare(program.feeds, program.fetches, program.targets));
    std::vector<Shape> shapes;
    for (const Tensor& value : program.values) shapes.push_back(value.shape());
    MF_ASSIGN_OR_RETURN(plans, CompileStep(step, shapes));
    sessions.push_back(std::move(session));
  }
  const Plan& from = *plans.plans[0];
  Plan plan;
  plan.instructions = from.instructions;
  plan.accesses = from.accesses;
  plan.kernel_fails = from.kernel_fails;
  plan.controls = from.controls;
  plan.collectives = from.collectives;
  plan.fetches = from.fetches;
  plan.node_names = from.node_names;
  plan.node_ops = from.node_ops;
  plan.num_events = from.num_events;
  plan.num_threads = from.num_threads;
  plan.fails_on_data = from.fails_on_data;
  plan.waits = from.waits;
  return plan;
}

void Erase(Plan* plan, size_t i) {
  plan->instructions.erase(plan->instructions.begin() + static_cast<std::ptrdiff_t>(i));
  plan->accesses.erase(plan->accesses.begin() + static_cast<std::ptrdiff_t>(i));
}

// Returns, for each instruction, the instructions that lanes and events order before it, except for
// the event that instruction `ignored` waits for.
std::vector<std::set<size_t>> OrderWithout(const Plan& plan, int ignored) {
  std::vector<std::set<size_t>> before(plan.instructions.size());
  std::map<LaneKind, size_t> last;
  std::map<EventId, size_t> recorded;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    const auto follow = [&](size_t earlier) {
      before[i].insert(earlier);
      before[i].insert(before[earlier].begin(), before[earlier].end());
    };
    if (last.count(instruction.lane) > 0) follow(last[instruction.lane]);
    last[instruction.lane] = i;
    if (instruction.kind == InstructionKind::kRecord) recorded[instruction.event] = i;
    if (instruction.kind == InstructionKind::kWait && static_cast<int>(i) != ignored) {
      follow(recorded.at(instruction.event));
    }
  }
  return before;
}

// Returns whether instructions a and b access the same bytes, and at least one of them writes.
bool Conflict(const Plan& plan, size_t a, size_t b) {
  for (const MemoryAccess& x : plan.accesses[a]) {
    for (const MemoryAccess& y : plan.accesses[b]) {
      if ((x.is_write || y.is_write) && x.operand.region == y.operand.region &&
          x.operand.offset < y.operand.offset + y.extent() &&
          y.operand.offset < x.operand.offset + x.extent()) {
        return true;
      }
    }
  }
  return false;
}

// Returns the number of conflicting pairs that OrderWithout(plan, ignored) leaves unordered.
int UnorderedConflicts(const Plan& plan, int ignored) {
  const auto before = OrderWithout(plan, ignored);
  int count = 0;
  for (size_t b = 0; b < plan.instructions.size(); ++b) {
    for (size_t a = 0; a < b; ++a) count += before[b].count(a) == 0 && Conflict(plan, a, b);
  }
  return count;
}

// A wait is necessary unless other waits and the lanes order the same conflicting instructions.
TEST(PlantedBugsTest, EachMissingWaitIsDetectedInPlan) {
  const absl::StatusOr<Plan> good = TrainingPlan();
  ASSERT_TRUE(good.ok()) << good.status();
  ASSERT_TRUE(CheckPlan::Check(*good).ok()) << CheckPlan::Check(*good);
  int waits = 0, needed = 0;
  EXPECT_EQ(UnorderedConflicts(*good, -1), 0);
  for (size_t i = 0; i < good->instructions.size(); ++i) {
    if (good->instructions[i].kind != InstructionKind::kWait) continue;
    ++waits;
    const bool is_needed = UnorderedConflicts(*good, static_cast<int>(i)) > 0;
    needed += is_needed;
    absl::StatusOr<Plan> bad = TrainingPlan();
    Erase(&*bad, i);
    EXPECT_EQ(CheckPlan::Check(*bad).ok(), !is_needed) << "without the wait at " << i;
  }
  EXPECT_GT(waits, 3);
  EXPECT_GT(needed, 3);
}

TEST(PlantedBugsTest, EachMissingWaitBetweenThreadsIsDetectedInPlan) {
  const absl::StatusOr<Plan> good = TrainingPlan(/*threads_per_replica=*/3);
  ASSERT_TRUE(good.ok()) << good.status();
  ASSERT_TRUE(CheckPlan::Check(*good).ok()) << CheckPlan::Check(*good);
  for (size_t i = 0; i < good->waits.size(); ++i) {
    absl::StatusOr<Plan> bad = TrainingPlan(/*threads_per_replica=*/3);
    bad->waits.erase(bad->waits.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_THAT(CheckPlan::Check(*bad),
                IsError(absl::StatusCode::kInternal, "check plan", "not ordered"))
        << "without wait " << i;
  }
}

TEST(PlantedBugsTest, SwappedCollectivesAreDetectedInPlan) {
  absl::StatusOr<Plan> plan = TrainingPlan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<size_t> starts;
  for (size_t i = 0; i < plan->instructions.size(); ++i) {
    if (plan->instructions[i].kind == InstructionKind::kStart) starts.push_back(i);
  }
  ASSERT_GE(starts.size(), 2u);
  std::swap(plan->instructions[starts[0]].index, plan->instructions[starts[1]].index);
  EXPECT_THAT(CheckPlan::Check(*plan),
              IsError(absl::StatusCode::kInternal, "check plan", "out of order"));
}

TEST(PlantedBugsTest, OverlappingLiveValuesAreDetectedInPlan) {
  absl::StatusOr<Plan> plan = TrainingPlan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Moves every value in the arena to offset 0.
  for (std::vector<MemoryAccess>& accesses : plan->accesses) {
    for (MemoryAccess& access : accesses) {
      if (access.operand.region == Plan::kArenaRegion) access.operand.offset = 0;
    }
  }
  EXPECT_THAT(CheckPlan::Check(*plan),
              IsError(absl::StatusCode::kInternal, "check plan", "overwrote"));
}

// Returns true if the results of `program` change on a queued device that ignores one of its waits.
bool GivesAnotherResult(const RandomProgram& program, int ignored_wait, uint64_t seed) {
  TestSessionOptions options{.replicas = 2, .queued = true};
  options.collective_timeout = absl::Seconds(10);
  auto good = CreateTestSession(program.graph, options);
  options.queued_device = {.seed = seed, .ignored_wait = ignored_wait};
  auto bad = CreateTestSession(program.graph, options);
  if (!good.ok() || !bad.ok()) return false;
  auto good_step = (*good)->Prepare(program.feeds, program.fetches, program.targets);
  auto bad_step = (*bad)->Prepare(program.feeds, program.fetches, program.targets);
  for (int step = 0; step < 2; ++step) {
    const auto want = good_step->Run(program.values);
    const auto got = bad_step->Run(program.values);
    if (!want.ok()) return false;
    if (!got.ok()) return true;
    for (size_t i = 0; i < want->size(); ++i) {
      if (!Tensor::Identical((*want)[i], (*got)[i])) return true;
    }
    for (const VariableInfo& v : (*good)->layout().variables()) {
      if (!Tensor::Identical(*(*good)->ReadVariable(v.name), *(*bad)->ReadVariable(v.name))) {
        return true;
      }
    }
  }
  return false;
}

TEST(QueuedDeviceTest, IgnoredWaitChangesResults) {
  int shown = 0;
  for (uint64_t seed = 1; seed <= 12 && shown < 3; ++seed) {
    const absl::StatusOr<RandomProgram> program = MakeRandomProgram(seed, {.num_ops = 10});
    ASSERT_TRUE(program.ok()) << program.status();
    for (int wait = 0; wait < 6 && shown < 3; ++wait) {
      if (GivesAnotherResult(*program, wait, seed)) ++shown;
    }
  }
  EXPECT_GE(shown, 3);
}

// Returns a program with two variables, each in its own bucket. It fetches the loss.
RandomProgram TwoLayers() {
  RandomProgram program;
  const Scope root(&program.graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_DOUBLE, {-1, 3});
  auto weights = [](const Scope& scope, const Shape& shape, DataType) {
    Random random(7);
    return ops::Const(scope, RandomTensor(DT_DOUBLE, shape, &random));
  };
  const Variable w0 = CreateVariable(root, "w0", {3, 8}, weights, DT_DOUBLE);
  const Variable w1 = CreateVariable(root, "w1", {8, 3}, weights, DT_DOUBLE);
  const Output hidden = ops::Tanh(root, ops::MatMul(root, x, w0.value));
  const Output y = ops::MatMul(root, hidden, w1.value);
  const Output loss = ops::Mean(root, ops::Square(root, y), {0, 1});
  Random random(3);
  program.batch = 5;
  program.feeds = {x};
  program.values = {RandomTensor(DT_DOUBLE, {5, 3}, &random)};
  program.fetches = {loss};
  program.targets = {GradientDescent({.learning_rate = 0.1}).Minimize(root, loss)};
  return program;
}

ProgramSetting TwoReplicas() {
  ProgramSetting setting;
  setting.session.replicas = 2;
  setting.session.collective_timeout = absl::Seconds(20);
  setting.session.session.bucket_bytes = 64;
  return setting;
}

TEST(PlantedBugsTest, CorrectProgramPassesWithoutPlantedBug) {
  const auto difference = CompareWithReference(TwoLayers(), TwoReplicas());
  ASSERT_TRUE(difference.ok()) << difference.status();
  EXPECT_EQ(*difference, "");
}

TEST(PlantedBugsTest, FlippedBitInOneCopyOfVariableIsDetected) {
  ProgramSetting setting = TwoReplicas();
  setting.session.session.compile.disabled_passes = {"reduce_in_updates"};  // shares one copy
  std::atomic<bool> flips{true};
  setting.session.wrap_device = [&](std::unique_ptr<Device> device) -> std::unique_ptr<Device> {
    if (device->name() != "CPU:1") return device;
    return std::make_unique<FlippingDevice>(std::move(device), &flips);
  };
  const auto difference = CompareWithReference(TwoLayers(), setting);
  ASSERT_TRUE(difference.ok()) << difference.status();
  EXPECT_EQ(*difference,
            "before the first step, variable w0 on replica 1 differs bitwise from "
            "replica 0");
}

// Flips one bit on this rank in the result of each update and each double-precision all-reduce. The
// change is smaller than the rounding tolerance, so only a comparison of the copies detects it.
class FlippingCommunicator final : public Communicator {
 public:
  explicit FlippingCommunicator(std::unique_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}
  int rank() const override { return communicator_->rank(); }
  int world_size() const override { return communicator_->world_size(); }
  absl::Status Start(const Collective& collective, Lane* lane) override {
    return communicator_->Start(collective, lane);
  }
  absl::Status Finish(const Collective& collective, Lane* lane) override {
    MF_RETURN_IF_ERROR(communicator_->Finish(collective, lane));
    const auto* reduce = std::get_if<AllReduce>(&collective.operation);
    if (collective.dtype == DT_DOUBLE && reduce != nullptr && reduce->count > 0) {
      FlipBit(collective.out);
    }
    const auto* update = std::get_if<Update>(&collective.operation);
    if (update != nullptr) FlipBit(update->variables[0]);
    return absl::OkStatus();
  }
  absl::Status status() const override { return communicator_->status(); }
  void Abort(absl::Status why) override { communicator_->Abort(std::move(why)); }

 private:
  static void FlipBit(void* made) {
    uint64_t bits;
    std::memcpy(&bits, made, sizeof(bits));
    bits ^= uint64_t{1} << 16;
    std::memcpy(made, &bits, sizeof(bits));
  }

  const std::unique_ptr<Communicator> communicator_;
};

class PlantedBitTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(ReducedInUpdates, PlantedBitTest, testing::Bool());

TEST_P(PlantedBitTest, FlippedBitInOneCopyOfGradientIsDetected) {
  ProgramSetting setting = TwoReplicas();
  // The flipped bit is in the result of an update or of an all-reduce, on devices that each have a
  // copy of the variables.
  setting.session.queued = true;
  if (!GetParam()) setting.session.session.compile.disabled_passes = {"reduce_in_updates"};
  setting.session.wrap_communicator =
      [](std::unique_ptr<Communicator> c) -> std::unique_ptr<Communicator> {
    if (c->rank() != 1) return c;
    return std::make_unique<FlippingCommunicator>(std::move(c));
  };
  const auto difference = CompareWithReference(TwoLayers(), setting);
  ASSERT_TRUE(difference.ok()) << difference.status();
  EXPECT_EQ(*difference, "step 0, variable w0 on replica 1 differs bitwise from replica 0");
}

// Returns the program of a worker that orders the buckets differently from its peers.
absl::StatusOr<std::shared_ptr<const Program>> CompileWithSwappedBuckets(
    const Graph& graph, const GlobalSignature& signature, const VariableLayout& layout,
    const CompileTarget& target, const CompileOptions& options) {
  MF_ASSIGN_OR_RETURN(auto made, CompileProgram(graph, signature, layout, target, options));
  auto program = std::const_pointer_cast<Program>(made);
  std::vector<Node*>& collectives = program->state.collectives;
  std::vector<size_t> buckets;
  for (size_t i = 0; i < collectives.size(); ++i) {
    if (collectives[i]->attr<int64_t>("bucket") >= 0) buckets.push_back(i);
  }
  if (buckets.size() < 2) return made;  // the program of the initialisers
  std::swap(collectives[buckets[0]], collectives[buckets[1]]);
  for (size_t i = 0; i < collectives.size(); ++i) {
    program->state.graph.SetAttr(collectives[i], "_sequence", static_cast<int64_t>(i));
  }
  return made;
}

struct WorkersRun {
  uint64_t fingerprints[2];
  std::vector<absl::Status> statuses;
  absl::Duration took;
};

constexpr absl::Duration kWorkersTimeout = absl::Seconds(60);

// Runs one step on two workers with one replica each.
absl::StatusOr<WorkersRun> RunTwoWorkers(CompileProgramFn compile_on_worker_1) {
  const RandomProgram program = TwoLayers();
  TestWorkersOptions options{.replicas = 1, .collective_timeout = kWorkersTimeout};
  options.session.bucket_bytes = 64;
  options.session.compile.disabled_passes = {"reduce_in_updates"};  // leaves no buckets
  options.change = [&](int w, SessionOptions*, SessionBackend* backend) {
    if (w == 1) backend->compile = compile_on_worker_1;
  };
  MF_ASSIGN_OR_RETURN(
      auto workers,
      TestWorkers::Create([&](int) -> const Graph& { return program.graph; }, options));
  WorkersRun run;
  Step steps[2];
  for (int w = 0; w < 2; ++w) {
    MF_ASSIGN_OR_RETURN(
        steps[w], workers->session(w).Prepare(program.feeds, program.fetches, program.targets));
    MF_ASSIGN_OR_RETURN(const StepPlans plans, CompileStep(steps[w], {program.values[0].shape()}));
    run.fingerprints[w] = plans.program->Fingerprint();
  }
  const MonotonicTime start = MonotonicTime::Now();
  run.statuses = workers->OnEach([&](int w) { return steps[w].Run(program.values).status(); });
  run.took = MonotonicTime::Now() - start;
  return run;
}

TEST(PlantedBugsTest, BucketsSwappedOnOneWorkerAreDetectedByAgreement) {
  const absl::StatusOr<WorkersRun> good = RunTwoWorkers(CompileProgram);
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->fingerprints[0], good->fingerprints[1]);
  for (const absl::Status& status : good->statuses) EXPECT_TRUE(status.ok()) << status;

  const absl::StatusOr<WorkersRun> bad = RunTwoWorkers(CompileWithSwappedBuckets);
  ASSERT_TRUE(bad.ok()) << bad.status();
  EXPECT_NE(bad->fingerprints[0], bad->fingerprints[1]);
  EXPECT_EQ(bad->statuses[0], bad->statuses[1]);
  EXPECT_THAT(bad->statuses[0], IsError(absl::StatusCode::kInvalidArgument, "worker 0 (rank 0)",
                                        "worker 1 (rank 1)", "bucket_0"));
  EXPECT_LT(bad->took, kWorkersTimeout / 2);
}

// The trap in docs/design.md, "Partial sums": gradient + λ·w with a partial gradient counts λ·w
// once per replica. A rule that declares the sum multilinear has this bug, and the results reveal
// it.
TEST(ShardingTest, WeightDecayOnPartialGradientChangesResults) {
  for (const bool planted : {false, true}) {
    Graph graph;
    const Scope root(&graph);
    const Output x = ops::Placeholder(root.WithName("x"), DT_DOUBLE, {-1, 2});
    const Variable w = CreateVariable(root, "w", {2, 1}, initializers::Ones(), DT_DOUBLE);
    const Output loss = ops::Sum(root, ops::MatMul(root, x, w.value), {0, 1});
    const auto gradients = Optimizer::ComputeGradients(root, loss, {{w.handle}});
    ASSERT_EQ(gradients.size(), 1u) << graph.status();
    const Output decayed = ops::AddV2(root, gradients[0].gradient, w.value);
    const Operation update = ops::AssignSubVariableOp(root, w.handle, decayed);
    OpDef wrong = decayed.node->op();
    if (planted) {
      wrong.sharding = [](const ShardContext&) -> absl::StatusOr<ShardingRule> {
        return ShardingRule{.dims = "ab,ab->ab", .linearity = Linearity::kMulti};
      };
      Node* node = *graph.AddNode("wrong", wrong, decayed.node->attrs(),
                                  {decayed.node->input(0), decayed.node->input(1)});
      ASSERT_TRUE(graph.values().Infer(*node).ok());
      graph.ReplaceUses(decayed, node->output(0));
    }
    auto session = CreateTestSession(graph, {.replicas = 2});
    ASSERT_TRUE(session.ok()) << session.status();
    auto step = (*session)->Prepare({x}, {}, {update});
    ASSERT_TRUE(step.ok()) << step.status();
    const Tensor rows = Tensor::Of<double>({2, 2}, {1, 2, 3, 4});
    ASSERT_TRUE(step->Run({rows}).ok());
    // gradient [4, 6] + w [1, 1]
    const Tensor want = Tensor::Of<double>({2, 1}, {1 - 5, 1 - 7});
    const bool right = Difference(want, *(*session)->ReadVariable("w"), {}).empty();
    EXPECT_EQ(right, !planted);
  }
}

// A sharding rule with a mistake that is easy to make.
struct WrongRule {
  const char* name;
  Output (*build)(const Scope& scope, Output x);  // x is [6, 2] with sharded rows
  ShardingFn rule;
};

constexpr WrongRule kWrongRules[] = {
    {"a local concatenation permutes rows",
     [](const Scope& s, Output x) {
       return ops::ConcatV2(s, {x, x}, 0);
     },
     [](const ShardContext&) -> absl::StatusOr<ShardingRule> {
       return ShardingRule{.dims = "ab,ab,->ab"};
     }},
    {"the maxima of the shares are added",
     [](const Scope& s, Output x) { return ops::Max(s, x, {0}); },
     [](const ShardContext&) -> absl::StatusOr<ShardingRule> {
       return ShardingRule{.dims = "ab,.->b", .contracted = Reduction::kSum};
     }},
    {"each replica divides by its own count",
     [](const Scope& s, Output x) { return ops::Mean(s, x, {0}); },
     [](const ShardContext&) -> absl::StatusOr<ShardingRule> {
       return ShardingRule{.dims = "ab,.->b", .contracted = Reduction::kSum};
     }},
    {"a square is called linear",
     [](const Scope& s, Output x) { return ops::Square(s, ops::Sum(s, x, {0})); },
     [](const ShardContext&) -> absl::StatusOr<ShardingRule> {
       return ShardingRule{.dims = "a->a", .linearity = Linearity::kJoint};
     }},
    {"a softmax over the rows is computed per share",
     [](const Scope& s, Output x) {
       return ops::Softmax(s, ops::Transpose(s, x, {1, 0}));
     },
     [](const ShardContext&) -> absl::StatusOr<ShardingRule> {
       return ShardingRule{.dims = "ab->ab"};
     }},
};

absl::StatusOr<std::string> DifferenceUnderRule(const WrongRule& row, bool planted) {
  RandomProgram program;
  const Scope root(&program.graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_DOUBLE, {-1, 2});
  Output y = row.build(root, x);
  MF_RETURN_IF_ERROR(program.graph.status());
  OpDef wrong = y.node->op();
  if (planted) {
    wrong.sharding = row.rule;
    const std::vector<Output> inputs(y.node->inputs().begin(), y.node->inputs().end());
    MF_ASSIGN_OR_RETURN(Node * node,
                        program.graph.AddNode("wrong", wrong, y.node->attrs(), inputs));
    MF_RETURN_IF_ERROR(program.graph.values().Infer(*node));
    y = node->output(0);
  }
  Random random(1);
  program.feeds = {x};
  program.values = {RandomTensor(DT_DOUBLE, {6, 2}, &random)};
  program.fetches = {y};
  return CompareWithReference(program, TwoReplicas());
}

TEST(PlantedBugsTest, WrongShardingRuleIsDetected) {
  for (const WrongRule& row : kWrongRules) {
    const auto right = DifferenceUnderRule(row, false);
    ASSERT_TRUE(right.ok()) << row.name << ": " << right.status();
    EXPECT_EQ(*right, "") << row.name;
    const auto wrong = DifferenceUnderRule(row, true);
    ASSERT_TRUE(wrong.ok()) << row.name << ": " << wrong.status();
    EXPECT_NE(*wrong, "") << row.name;
  }
}

}  // namespace
}  // namespace mirrorflow
