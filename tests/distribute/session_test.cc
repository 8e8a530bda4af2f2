// SPDX-License-Identifier: Apache-2.0
//
// Tests the guarantees of a session that hold for any graph: which values a step returns and how
// long they stay valid, the state of the variables after a failure, and the order of
// initialisation.
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/reduced_float.h"
#include "framework/core/status.h"
#include "framework/graph/text_form.h"
#include "framework/runtime/trace.h"
#include "framework/session/session_backend.h"
#include "framework/session/step_plans.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/registry.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/is_error.h"
#include "tests/support/test_session.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kPrecondition = absl::StatusCode::kFailedPrecondition;

Tensor Floats(std::vector<float> values) { return Tensor::Vector<float>(values); }

std::vector<float> ValuesOf(const Tensor& t) {
  const absl::Span<float> values = t.flat<float>();
  return std::vector<float>(values.begin(), values.end());
}

struct Setting {
  int replicas;
  bool queued;  // whether the devices' memory is inaccessible to the host
};

class SessionTest : public testing::TestWithParam<Setting> {
 protected:
  std::unique_ptr<Session> NewSession(SessionOptions options = {}) {
    auto session = CreateTestSession(graph_, {.replicas = GetParam().replicas,
                                              .queued = GetParam().queued,
                                              .session = std::move(options)});
    if (!session.ok()) ADD_FAILURE() << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }
  Variable NewVariable(absl::string_view name, const Initializer& initializer,
                       const Shape& shape = {}) {
    return CreateVariable(root_, name, shape, initializer);
  }
  Output Scalar(float value) { return ops::ScalarConst(root_, DT_FLOAT, value); }

  Graph graph_;
  Scope root_{&graph_};
};

INSTANTIATE_TEST_SUITE_P(Replicas, SessionTest,
                         testing::Values(Setting{1, false}, Setting{2, false}, Setting{3, false},
                                         Setting{2, true}),
                         [](const auto& info) {
                           return absl::StrCat(info.param.replicas,
                                               info.param.queued ? "Queued" : "Inline");
                         });

// Announced feeds are copied early if the device needs a copy. The result depends only on the feeds
// that the next Run receives.
TEST_P(SessionTest, NextFeedsDoNotChangeResults) {
  const Output x = ops::Placeholder(root_, DT_FLOAT, {-1});
  const Output y = ops::Neg(root_, x);
  const auto session = NewSession();
  Step step = session->Prepare({x}, {y}).value();
  const Tensor a = Floats({1, 2, 3}), b = Floats({4, 5, 6}), c = Floats({7, 8, 9, 10});
  const struct {
    const Tensor &fed, &announced;
  } runs[] = {{a, b}, {b, a}, {c, a}, {a, c}, {b, b}, {b, a}, {a, a}};
  for (const auto& run : runs) {
    const auto out = step.Run({run.fed}, {.next_feeds = {&run.announced, 1}});
    ASSERT_TRUE(out.ok()) << out.status();
    std::vector<float> want = ValuesOf(run.fed);
    for (float& value : want) value = -value;
    EXPECT_EQ(ValuesOf((*out)[0]), want);
  }
  // After a failure, no feed that was copied early is reused.
  ASSERT_TRUE(step.Run({a}, {.next_feeds = {&b, 1}}).ok());
  EXPECT_THAT(step.Run({Tensor::Vector<int32_t>({1, 2, 3})}).status(),
              IsError(kInvalid, "feed", "int32"));
  const auto out = step.Run({b});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(ValuesOf((*out)[0]), ElementsAre(-4, -5, -6));
}

TEST_P(SessionTest, PlaceholderWithDefaultForwardsInputUnlessFed) {
  const Output by_default = ops::Const(root_, Floats({1, 2}));
  const Output x = ops::PlaceholderWithDefault(root_.WithName("x"), by_default, {-1});
  const Output y = ops::Neg(root_.WithName("y"), x);
  const Operation after_x = ops::NoOp(root_.WithControlDependencies({{x.node}}));
  auto session = NewSession();
  const auto unfed = session->Run({}, {y, x}, {after_x, {x.node}});
  ASSERT_TRUE(unfed.ok()) << unfed.status();
  EXPECT_THAT(ValuesOf((*unfed)[0]), ElementsAre(-1, -2));
  EXPECT_THAT(ValuesOf((*unfed)[1]), ElementsAre(1, 2));
  const auto fed = session->Run({{x, Floats({3, 4, 5})}}, {y}, {after_x});
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_THAT(ValuesOf((*fed)[0]), ElementsAre(-3, -4, -5));
  EXPECT_THAT(session->Run({{x, Tensor::Scalar<float>(3)}}, {y}).status(), IsError(kInvalid, "x"));
}

// Adds the gradient of the gathered rows to the variable.
TEST_P(SessionTest, GatherFromVariableSeesWritesOrderedBeforeIt) {
  const Variable v = NewVariable("v", initializers::Constant(1), {3, 1});
  const Output rows = ops::Placeholder(root_.WithName("rows"), DT_INT32, {-1});
  const Output before = ops::ResourceGather(root_.WithName("before"), v.handle, rows);
  const auto gradients = Gradients(root_, {ops::Sum(root_, before, {0, 1})}, {v.handle});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const Operation write = ops::AssignAddVariableOp(root_, v.handle, (*gradients)[0]);
  const Output after =
      ops::ResourceGather(root_.WithName("after").WithControlDependencies({write}), v.handle, rows);
  auto session = NewSession();
  const Tensor fed = Tensor::Vector<int32_t>({0, 2, 0, 0});
  for (const float counts : {0.0f, 1.0f, 2.0f}) {
    const auto got = session->Run({{rows, fed}}, {before, after});
    ASSERT_TRUE(got.ok()) << got.status();
    const float zero = 1 + 3 * counts, two = 1 + counts;
    EXPECT_THAT(ValuesOf((*got)[0]), ElementsAre(zero, two, zero, zero));
    EXPECT_THAT(ValuesOf((*got)[1]), ElementsAre(zero + 3, two + 1, zero + 3, zero + 3));
  }
  EXPECT_THAT(session->Run({{rows, Tensor::Vector<int32_t>({3})}}, {before}).status(),
              IsError(kInvalid, "indices[0]"));
}

// Row i of the indices selects from row i of the variable, no matter how the rows are sharded.
TEST_P(SessionTest, BatchedGatherSelectsWithinMatchingRows) {
  const Variable v = NewVariable("v", initializers::Constant(1), {3, 2});
  const Output columns = ops::Placeholder(root_.WithName("columns"), DT_INT32, {-1, 1});
  const Output got = ops::ResourceGather(root_, v.handle, columns, {.batch_dims = 1});
  const auto gradients = Gradients(root_, {ops::Sum(root_, got, {0, 1})}, {v.handle});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const Operation write = ops::AssignAddVariableOp(root_, v.handle, (*gradients)[0]);
  auto session = NewSession();
  const auto run = [&](std::vector<int32_t> chosen) {
    const Tensor fed = Tensor::Of<int32_t>({3, 1}, chosen);
    const auto fetched = session->Run({{columns, fed}}, {got}, {write});
    EXPECT_TRUE(fetched.ok()) << fetched.status();
    return fetched.ok() ? ValuesOf((*fetched)[0]) : std::vector<float>();
  };
  EXPECT_THAT(run({0, 1, 1}), ElementsAre(1, 1, 1));
  EXPECT_THAT(run({0, 0, 1}), ElementsAre(2, 1, 2));
  EXPECT_THAT(run({1, 1, 0}), ElementsAre(1, 2, 1));
}

// Gradients are computed in half precision and summed over the replicas in float, so any sharding
// gives the same results.
TEST_P(SessionTest, HalfPrecisionVariableTrains) {
  const Variable v = CreateVariable(root_, "v", {2}, initializers::Constant(1), DT_HALF);
  const Output x = ops::Placeholder(root_.WithName("x"), DT_HALF, {-1, 2});
  const Output loss = ops::Sum(root_, ops::Mul(root_, x, v.value), {0, 1});
  const auto gradients = Gradients(root_, {loss}, {v.handle});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const Operation update = ops::ResourceApplyGradientDescent(
      root_, v.handle, ops::ScalarConst(root_, DT_HALF, 0.5), (*gradients)[0]);
  const Output values = ops::Cast(root_, v.value, DT_FLOAT);
  auto session = NewSession();
  Tensor rows = *Tensor::Allocate(DT_HALF, {3, 2});
  const float numbers[] = {1, 2, 0.5f, 4, -2, 8};
  for (int i = 0; i < 6; ++i) {
    reinterpret_cast<uint16_t*>(rows.raw())[i] = HalfFormat::FromFloat(numbers[i]);
  }
  const auto trained = session->Run({{x, rows}}, {loss}, {update});
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_EQ(HalfFormat::ToFloat(*reinterpret_cast<const uint16_t*>((*trained)[0].raw())), 13.5f);
  const auto got = session->Run({}, {values});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(ValuesOf((*got)[0]), ElementsAre(1.25f, -6.0f));
}

TEST_P(SessionTest, PrepareRejectsDuplicateFeedsAndMissingOutputs) {
  const Output x = ops::Placeholder(root_.WithName("x"), DT_FLOAT, {-1});
  const Output y = ops::Neg(root_.WithName("y"), x);
  auto session = NewSession();
  EXPECT_THAT(session->Prepare({x, x}, {y}).status(), IsError(kInvalid, "the feed", "given twice"));
  for (const int index : {-1, 1, 1000}) {
    const std::string name = absl::StrCat("x:", index);
    EXPECT_THAT(session->Prepare({{x.node, index}}, {y}).status(),
                IsError(kInvalid, "feed 0 '" + name));
    EXPECT_THAT(session->Prepare({x}, {{x.node, index}}).status(),
                IsError(kInvalid, "fetch 0 '" + name));
  }
  const auto twice = session->Prepare({x}, {y, y, x});
  ASSERT_TRUE(twice.ok()) << twice.status();
  const auto out = Step(*twice).Run({Floats({1, 2})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT(ValuesOf((*out)[1]), ElementsAre(-1, -2));
}

TEST_P(SessionTest, RunChecksArgumentsLikePrepare) {
  const Output x = ops::Placeholder(root_.WithName("x"), DT_FLOAT, {-1});
  const Output y = ops::Neg(root_.WithName("y"), x);
  auto session = NewSession();
  const Tensor value = Floats({1, 2});
  ASSERT_TRUE(session->Run({{x, value}}, {y}).ok());
  Graph other;
  const Output same_id = ops::Placeholder(Scope(&other).WithName("z"), DT_FLOAT, {2});
  ASSERT_EQ(same_id.node->id(), x.node->id());
  EXPECT_THAT(session->Run({{same_id, value}}, {y}).status(),
              IsError(kInvalid, "feed 0 'z':", "session's snapshot"));
  EXPECT_THAT(session->Run({{x, value}}, {same_id}).status(),
              IsError(kInvalid, "fetch 0 'z':", "session's snapshot"));
  EXPECT_THAT(session->Run({{x, value}}, {Output()}).status(), IsError(kInvalid, "0: invalid"));
  EXPECT_THAT(session->Run({{Output(), value}}, {y}).status(), IsError(kInvalid, "0: invalid"));
  ASSERT_TRUE(session->Run({{x, value}}, {y}, {Operation{y.node}}).ok());
  EXPECT_THAT(session->Run({{x, value}}, {y}, {Operation()}).status(), IsError(kInvalid, "target"));
}

TEST_P(SessionTest, PerReplicaFetchOfFeedOutlivesFedTensor) {
  const Output rows = ops::Placeholder(root_, DT_FLOAT, {-1, 2});
  const Output whole = ops::Placeholder(root_, DT_FLOAT, {3});
  const Output view = ops::ExpandDims(root_, rows, ops::ScalarConst(root_, DT_INT32, 1));
  auto session = NewSession();
  Step step = session->Prepare({rows, whole}, {rows, view, whole}).value();
  {
    const Tensor fed = Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
    const Tensor fed_whole = Floats({7, 8, 9});
    ASSERT_TRUE(step.Run({fed, fed_whole}).ok());
    for (float& x : fed.flat<float>()) x = -1;
    for (float& x : fed_whole.flat<float>()) x = -1;
  }
  for (const int fetch : {0, 1}) {
    const auto parts = step.PerReplica(fetch);
    ASSERT_TRUE(parts.ok()) << parts.status();
    ASSERT_EQ(parts->size(), static_cast<size_t>(GetParam().replicas));
    std::vector<float> joined;
    for (const Tensor& part : *parts) {
      EXPECT_EQ(part.shape().rank(), fetch == 0 ? 2 : 3);
      for (const float x : part.flat<float>()) joined.push_back(x);
    }
    EXPECT_THAT(joined, ElementsAre(1, 2, 3, 4, 5, 6));
  }
  const auto wholes = step.PerReplica(2);
  ASSERT_TRUE(wholes.ok()) << wholes.status();
  for (const Tensor& part : *wholes) EXPECT_THAT(ValuesOf(part), ElementsAre(7, 8, 9));
}

TEST_P(SessionTest, PerReplicaServesOnlyLastStep) {
  const Output x = ops::Placeholder(root_, DT_FLOAT, {});
  const Variable v = NewVariable("v", initializers::Constant(4));
  const Output a = ops::Neg(root_, x);
  const Output b = ops::Exp(root_, x);
  auto session = NewSession();
  Step step_a = session->Prepare({x}, {a, v.value}).value();
  Step step_b = session->Prepare({x}, {b}).value();
  EXPECT_THAT(step_a.PerReplica(0).status(), IsError(kPrecondition, "not run"));
  ASSERT_TRUE(step_a.Run({Tensor::Scalar<float>(1)}).ok());
  EXPECT_EQ(step_a.PerReplica(0).value()[0].scalar<float>(), -1);
  ASSERT_TRUE(step_b.Run({Tensor::Scalar<float>(0)}).ok());
  EXPECT_THAT(step_a.PerReplica(0).status(),
              IsError(kPrecondition, "another step", "was assigned"));
  EXPECT_EQ(step_b.PerReplica(0).value()[0].scalar<float>(), 1);
  // Rejected before anything runs.
  EXPECT_THAT(step_b.Run({Tensor::Scalar<double>(0)}).status(),
              IsError(kInvalid, "feed", "double"));
  EXPECT_EQ(step_b.PerReplica(0).value()[0].scalar<float>(), 1);
  ASSERT_TRUE(step_a.Run({Tensor::Scalar<float>(2)}).ok());
  ASSERT_TRUE(session->AssignVariable("v", Tensor::Scalar<float>(9)).ok());
  const auto after = step_a.PerReplica(1);
  if (after.ok()) {
    EXPECT_EQ((*after)[0].scalar<float>(), 4);
  }
}

TEST_P(SessionTest, WritesToFetchedVariableOrConstantDoNotReachSession) {
  const Variable v = NewVariable("v", initializers::Constant(4), {2});
  const Output c = ops::Const(root_, Floats({1, 2}));
  auto session = NewSession();
  Step step = session->Prepare({}, {v.value, c}).value();
  for (int run = 0; run < 2; ++run) {
    const auto out = step.Run({});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_THAT(ValuesOf((*out)[0]), ElementsAre(4, 4));
    EXPECT_THAT(ValuesOf((*out)[1]), ElementsAre(1, 2));
    for (const Tensor& t : *out) t.flat<float>()[0] = -1;
  }
  EXPECT_THAT(ValuesOf(*session->ReadVariable("v")), ElementsAre(4, 4));
}

TEST_P(SessionTest, FetchesStayValidWhileLargerStepIsCompiled) {
  const Output x = ops::Placeholder(root_, DT_FLOAT, {-1});
  const Output y = ops::Sum(root_, ops::Exp(root_, x), {0});
  auto session = NewSession();
  Step step = session->Prepare({x}, {y}).value();
  for (const int64_t rows : {3, 3000, 300000, 3}) {
    const Tensor zeros = *Tensor::Allocate(DT_FLOAT, {rows});
    const auto out = step.Run({zeros});
    ASSERT_TRUE(out.ok()) << out.status();
    ASSERT_TRUE(CompileStep(step, {Shape({rows * 100})}).ok());
    EXPECT_EQ((*out)[0].scalar<float>(), static_cast<float>(rows));
    EXPECT_EQ(step.PerReplica(0).value().back().scalar<float>(), static_cast<float>(rows));
  }
}

// A device that tracks how much of its memory is in use.
class CountingDevice final : public ForwardingDevice {
 public:
  CountingDevice(std::unique_ptr<Device> device, std::atomic<int64_t>* bytes)
      : ForwardingDevice(std::move(device)), bytes_(bytes) {}

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) override {
    MF_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, ForwardingDevice::Allocate(bytes));
    const auto size = static_cast<int64_t>(bytes);
    *bytes_ += size;
    std::byte* address = memory.get();
    return std::shared_ptr<std::byte>(address, [memory = std::move(memory), count = bytes_,
                                                size](std::byte*) { *count -= size; });
  }

 private:
  std::atomic<int64_t>* const bytes_;
};

TEST(SessionUnknownOpTest, UnknownOpFailsOnlyStepsThatNeedIt) {
  const absl::StatusOr<Graph> graph = ParseGraph(R"(
x = Placeholder() {dtype=float, shape=<?>}
y = Square(x) {T=float}
v = Mystery(x)
rate = Const() {dtype=float, value=float<>{0.5}}
update = ResourceApplyGradientDescent(v, rate, x) {T=float}
)",
                                                 AllOps());
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (int replicas : {1, 2}) {
    auto session = CreateTestSession(*graph, {.replicas = replicas});
    ASSERT_TRUE(session.ok()) << session.status();
    const Output x = graph->FindNode("x")->output(0), y = graph->FindNode("y")->output(0);
    const Tensor value = Tensor::Vector<float>({1, 2, 3});
    const auto squares = (*session)->Run({{x, value}}, {y});
    ASSERT_TRUE(squares.ok()) << squares.status();
    const auto update = (*session)->Run({{x, value}}, {y}, {{graph->FindNode("update")}});
    EXPECT_THAT(update.status(),
                IsError(absl::StatusCode::kInvalidArgument, "Mystery(v):", "'Mystery'"));
  }
}

TEST(SessionBackendTest, BackendWithoutDeviceIsRejected) {
  EXPECT_THAT(Session::Create(Graph(), SessionBackend(), {}).status(),
              IsError(kInvalid, "topology", "got none"));
  SessionBackend backend;
  backend.topology = Topology::OneWorker({"CPU:0"}, /*one_domain=*/true);
  EXPECT_THAT(Session::Create(Graph(), std::move(backend), {}).status(),
              IsError(kInvalid, "devices"));
}

TEST(SessionMemoryTest, GrowingBatchesShareMemoryOfLargest) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {-1});
  const Output y = ops::Sum(root, ops::Exp(root, x), {0});
  constexpr int64_t kLargest = 1 << 20;
  auto used = [&](int64_t smallest) {
    std::atomic<int64_t> bytes = 0;
    TestSessionOptions options{.replicas = 2};
    options.wrap_device = [&](std::unique_ptr<Device> device) -> std::unique_ptr<Device> {
      return std::make_unique<CountingDevice>(std::move(device), &bytes);
    };
    auto session = CreateTestSession(graph, options).value();
    Step step = session->Prepare({x}, {y}).value();
    for (int64_t rows = smallest; rows <= kLargest; rows += kLargest / 8) {
      EXPECT_TRUE(step.Run({*Tensor::Allocate(DT_FLOAT, {rows})}).ok());
    }
    return bytes.load();
  };
  const int64_t one_size = used(kLargest);
  EXPECT_GE(one_size, kLargest);
  EXPECT_LE(used(kLargest / 8), one_size + (64 << 10));
}

TEST_P(SessionTest, DifferentSplitOfSameShapesReusesProgramAndPlans) {
  if (GetParam().replicas != 2) return;
  const Output x = ops::Placeholder(root_, DT_FLOAT, {-1});
  const Output y = ops::Neg(root_, x);
  auto session = NewSession();
  Step step = session->Prepare({x}, {y}).value();
  const auto even = CompileStep(step, {Shape({4})});
  const std::vector<int64_t> rows = {3, 1};
  const auto uneven = CompileStep(step, {Shape({4})}, {.replica_rows = rows});
  ASSERT_TRUE(even.ok() && uneven.ok()) << uneven.status();
  EXPECT_EQ(even->program, uneven->program);
  EXPECT_NE(even->plans[0], uneven->plans[0]);
  const std::vector<int64_t> mirrored = {1, 3};
  const auto third = CompileStep(step, {Shape({4})}, {.replica_rows = mirrored});
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(third->plans[0], uneven->plans[1]);
  EXPECT_EQ(third->plans[1], uneven->plans[0]);
  const Tensor fed = Floats({1, 2, 3, 4});
  for (const std::vector<int64_t>& shares : {mirrored, rows, mirrored, {}}) {
    const auto out = step.Run({fed}, {.replica_rows = shares});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_THAT(ValuesOf((*out)[0]), ElementsAre(-1, -2, -3, -4));
  }
}

// Two steps that fail on a bad index: `fails_early_` before it writes, `fails_late_` after it has
// written `early_`.
class FailingStepTest : public SessionTest {
 protected:
  void Build() {
    index_ = ops::Placeholder(root_.WithName("index"), DT_INT32, {});
    const Output table = ops::Const(root_, Floats({1, 2, 3}));
    auto look_up = [&](const Scope& scope) {
      return ops::GatherV2(scope.WithName("look_up"), table, index_,
                           ops::ScalarConst(scope, DT_INT32, 0));
    };
    early_ = NewVariable("early", initializers::Constant(10));
    late_ = NewVariable("late", initializers::Constant(20));
    other_ = NewVariable("other", initializers::Constant(30));
    const Operation first = ops::AssignAddVariableOp(root_, early_.handle, Scalar(1));
    const Output looked_up = look_up(root_.WithControlDependencies({first}));
    fails_late_ = ops::AssignAddVariableOp(root_, late_.handle, looked_up);
    fails_early_ = ops::AssignAddVariableOp(root_, other_.handle, look_up(root_));
  }
  const std::vector<Tensor> bad_ = {Tensor::Scalar<int32_t>(7)};
  const std::vector<Tensor> good_ = {Tensor::Scalar<int32_t>(0)};
  Output index_;
  Variable early_, late_, other_;
  Operation fails_late_, fails_early_;
};

INSTANTIATE_TEST_SUITE_P(Replicas, FailingStepTest,
                         testing::Values(Setting{1, false}, Setting{2, false}, Setting{2, true}),
                         [](const auto& info) {
                           return absl::StrCat(info.param.replicas,
                                               info.param.queued ? "Queued" : "Inline");
                         });

TEST_P(FailingStepTest, WrittenVariablesAreIndeterminateUntilAssigned) {
  Build();
  auto session = NewSession();
  Step step = session->Prepare({index_}, {}, {fails_late_}).value();
  Step untouched = session->Prepare({}, {other_.value}).value();
  EXPECT_THAT(step.Run(bad_).status(), IsError(kInvalid, "look_up"));
  for (const char* name : {"early", "late"}) {
    EXPECT_THAT(session->ReadVariable(name).status(),
                IsError(kPrecondition, absl::StrCat("variable '", name, "'"), "indeterminate"));
    EXPECT_FALSE(session->IsInitialized(name));
  }
  EXPECT_THAT(step.Run(good_).status(),
              IsError(kPrecondition, "variable 'early'", "indeterminate"));
  EXPECT_EQ(session->ReadVariable("other")->scalar<float>(), 30);
  const auto out = untouched.Run({});
  ASSERT_TRUE(out.ok()) << "the step reads no indeterminate variable: " << out.status();
  ASSERT_TRUE(session->AssignVariable("early", Tensor::Scalar<float>(1)).ok());
  EXPECT_EQ(session->ReadVariable("early")->scalar<float>(), 1);
  EXPECT_THAT(step.Run(good_).status(), IsError(kPrecondition, "variable 'late'", "indeterminate"));
  ASSERT_TRUE(session->AssignVariable("late", Tensor::Scalar<float>(2)).ok());
  const absl::Status status = step.Run(good_).status();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(session->ReadVariable("early")->scalar<float>(), 2);
  EXPECT_EQ(session->ReadVariable("late")->scalar<float>(), 3);
}

TEST_P(FailingStepTest, OverwritingStepRestoresIndeterminateVariable) {
  Build();
  const Operation reset = ops::AssignVariableOp(root_, early_.handle, Scalar(5));
  auto session = NewSession();
  Step step = session->Prepare({index_}, {}, {fails_late_}).value();
  Step resetting = session->Prepare({}, {}, {reset}).value();
  EXPECT_THAT(step.Run(bad_).status(), IsError(kInvalid, "look_up"));
  const absl::Status status = resetting.Run({}).status();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(session->ReadVariable("early")->scalar<float>(), 5);
}

TEST_P(FailingStepTest, TracedStepTracksItsWrites) {
  Build();
  auto session = NewSession();
  Step early = session->Prepare({index_}, {}, {fails_early_}).value();
  Step late = session->Prepare({index_}, {}, {fails_late_}).value();
  TraceWriter trace;
  ASSERT_EQ(session->TraceTo(&trace), absl::OkStatus());
  EXPECT_THAT(early.Run(bad_).status(), IsError(kInvalid, "look_up"));
  EXPECT_EQ(session->ReadVariable("other")->scalar<float>(), 30);
  const absl::Status status = early.Run(good_).status();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(late.Run(bad_).status(), IsError(kInvalid, "look_up"));
  EXPECT_THAT(session->ReadVariable("early").status(), IsError(kPrecondition, "'early'"));
}

TEST_P(FailingStepTest, PerReplicaFailsAfterFailedStep) {
  Build();
  auto session = NewSession();
  Step step = session->Prepare({index_}, {other_.value}, {fails_early_}).value();
  ASSERT_TRUE(step.Run(good_).ok());
  ASSERT_TRUE(step.PerReplica(0).ok());
  EXPECT_THAT(step.Run(bad_).status(), IsError(kInvalid, "look_up"));
  EXPECT_THAT(step.PerReplica(0).status(), IsError(kPrecondition, "another step", "was assigned"));
}

TEST_P(SessionTest, StepBeyondTimeoutFailsOnAllReplicasWithoutWriting) {
  const Output x = ops::Placeholder(root_, DT_FLOAT, {-1});
  const Variable v = NewVariable("v", initializers::Constant(1));
  const Operation add = ops::AssignAddVariableOp(root_.WithName("add"), v.handle,
                                                 ops::Sum(root_.WithName("sum"), x, {0}));
  if (GetParam().queued) return;  // a queued device has its own waits
  auto session = NewSession({.step_timeout = absl::ZeroDuration()});
  Step step = session->Prepare({x}, {}, {add}).value();
  TraceWriter trace;
  for (const bool traced : {false, true}) {
    ASSERT_EQ(session->TraceTo(traced ? &trace : nullptr), absl::OkStatus());
    const absl::Status status = step.Run({Floats({1, 2, 4})}).status();
    EXPECT_THAT(status, IsError(absl::StatusCode::kDeadlineExceeded, "on CPU:", "deadline"));
    for (int r = 0; r < GetParam().replicas; ++r) {
      EXPECT_EQ(session->ReadVariable("v", r)->scalar<float>(), 1);
    }
  }
}

TEST_P(SessionTest, LongStepWithoutWritesOrCollectivesObservesTimeout) {
  const Output x = ops::Placeholder(root_, DT_FLOAT, {});
  Output y = x;
  for (int i = 0; i < 400; ++i) y = ops::Sin(root_, y);
  if (GetParam().queued) return;
  auto session = NewSession(
      {.step_timeout = absl::ZeroDuration(), .compile = {.disabled_passes = {"fuse_elementwise"}}});
  const absl::Status status =
      session->Prepare({x}, {y}).value().Run({Tensor::Scalar<float>(1)}).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kDeadlineExceeded, "Sin("));
}

Initializer TwiceThe(const Output& value) {
  return [value](const Scope& scope, const Shape&, DataType dtype) {
    return ops::Mul(scope, value, ops::ScalarConst(scope, dtype, 2));
  };
}

TEST_P(SessionTest, InitializerReadsVariablesInitialisedBefore) {
  const Variable a = NewVariable("a", initializers::Constant(3));
  const Variable b = NewVariable("b", TwiceThe(a.value));
  NewVariable("c", TwiceThe(b.value));
  auto session = NewSession();
  ASSERT_NE(session, nullptr);
  for (int r = 0; r < GetParam().replicas; ++r) {
    EXPECT_EQ(session->ReadVariable("b", r)->scalar<float>(), 6);
    EXPECT_EQ(session->ReadVariable("c", r)->scalar<float>(), 12);
  }
}

TEST_P(SessionTest, InitializersThatReadUninitialisedVariablesAreRejected) {
  const TestSessionOptions options{.replicas = GetParam().replicas, .queued = GetParam().queued};
  {
    const Output handle = ops::VarHandleOp(root_.WithName("empty"), DT_FLOAT, Shape({}));
    NewVariable("reader", TwiceThe(ops::ReadVariableOp(root_, handle)));
    EXPECT_THAT(CreateTestSession(graph_, options).status(),
                IsError(kInvalid, "initializer of", "variable 'empty'"));
  }
  Graph graph;
  const Scope root(&graph);
  const Variable a = CreateVariable(root, "a", {}, initializers::Zeros());
  const Variable b = CreateVariable(root, "b", {}, TwiceThe(a.value));
  graph.SetAttr(a.handle.node, "_initializer", b.value.ToString());
  EXPECT_THAT(CreateTestSession(graph, options).status(),
              IsError(kInvalid, "initializer of", "variable 'b'"));
}

// Records the step number of each collective of a rank. Messages between hosts carry this number.
class StepRecorder final : public Communicator {
 public:
  StepRecorder(std::unique_ptr<Communicator> inner, std::vector<uint64_t>* steps)
      : inner_(std::move(inner)), steps_(steps) {}
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  void BeginStep(uint64_t step) override { step_ = step; }
  absl::Status Start(const Collective& collective, Lane* lane) override {
    steps_->push_back(step_);
    return inner_->Start(collective, lane);
  }
  absl::Status Finish(const Collective& collective, Lane* lane) override {
    return inner_->Finish(collective, lane);
  }
  absl::Status status() const override { return inner_->status(); }
  void Abort(absl::Status why) override { inner_->Abort(std::move(why)); }

 private:
  const std::unique_ptr<Communicator> inner_;
  std::vector<uint64_t>* const steps_;
  uint64_t step_ = 0;
};

TEST(CollectivesOfSessionTest, CarryNumberOfTheirStep) {
  Graph graph;
  Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {-1});
  const Output sum = ops::Sum(root, x, {0});
  std::vector<uint64_t> steps[2];
  const auto session = CreateTestSession(
      graph, {.replicas = 2,
              .queued = true,
              .wrap_communicator = [&](std::unique_ptr<Communicator> communicator) {
                const int rank = communicator->rank();
                return std::make_unique<StepRecorder>(std::move(communicator), &steps[rank]);
              }});
  ASSERT_TRUE(session.ok()) << session.status();
  Step step = (*session)->Prepare({x}, {sum}).value();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(step.Run({Floats({1, 2, 3, 4})}).ok());
  for (const std::vector<uint64_t>& of_rank : steps) {
    EXPECT_THAT(of_rank, ElementsAre(steps[0][0], steps[0][0] + 1, steps[0][0] + 2));
  }
}

}  // namespace
}  // namespace mirrorflow
