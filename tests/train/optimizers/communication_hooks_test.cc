// SPDX-License-Identifier: Apache-2.0
//
// Tests that training with communication hooks matches the formulas and PyTorch's hooks on any
// number of replicas, and that hooks preserve an optimizer's guarantees.
#include "train/optimizers/communication_hooks.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/graph_def.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow_debug.h"
#include "ops/all/ops.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/checkpoint/variables_file.h"
#include "train/formats/npz.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using Rows = std::vector<int64_t>;
using Arrays = std::map<std::string, Tensor>;

constexpr int kSteps = 5;
constexpr Tolerance kRounding{.relative = 2e-5, .absolute = 2e-6};

// Returns arrays that tests/references/make_communication_hooks.py wrote.
const Arrays& Reference(const std::string& source) {
  static auto* const files = new std::map<std::string, Arrays>();
  Arrays& arrays = (*files)[source];
  if (arrays.empty()) {
    arrays = ReadNpz(absl::StrCat("tests/references/hooks/", source, ".npz")).value();
  }
  return arrays;
}

// Returns slice `i` along the first dimension.
Tensor At(const Tensor& tensor, int64_t i) {
  const Tensor row = SliceAlong(tensor, 0, i, i + 1);
  const absl::Span<const int64_t> dims = row.shape().dims();
  Tensor result = Tensor::Allocate(row.dtype(), Shape(dims.subspan(1))).value();
  std::memcpy(result.raw(), row.raw(), row.bytes());
  return result;
}

// The linear regression that the references train.
struct Regression {
  Graph graph;
  Scope root{&graph};
  Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 12});
  Output y = ops::Placeholder(root.WithName("y"), DT_FLOAT, {-1, 10});
  Variable w = CreateVariable(root, "w", {12, 10}, initializers::Zeros());
  Variable b = CreateVariable(root, "b", {10}, initializers::Zeros());
  Output loss;
  Operation train;

  explicit Regression(const GradientReducer& reduce, double clip_norm = 0) {
    loss = Loss();
    train = GradientDescent({.learning_rate = 0.5})
                .Minimize(root, loss, {.global_clipnorm = clip_norm, .reduce = reduce});
  }
  Output Loss() const {
    const Output z = ops::AddV2(root, ops::MatMul(root, x, w.value), b.value);
    return ops::Mean(root, ops::Square(root, ops::Sub(root, z, y)), {0, 1});
  }
};

// A session for a Regression, with the references' initial values.
struct Training {
  std::unique_ptr<Session> session;
  Step step;
  Rows rows;

  static absl::StatusOr<Training> Create(const Regression& r, const Rows& rows,
                                         const std::string& source = "numpy", int rank = 0,
                                         bool queued = false) {
    Training t;
    t.rows = rows;
    MF_ASSIGN_OR_RETURN(
        t.session,
        CreateTestSession(r.graph, {.replicas = static_cast<int>(rows.size()), .queued = queued}));
    const Arrays& arrays = Reference(source);
    MF_RETURN_IF_ERROR(t.session->AssignVariable("w", arrays.at("w")));
    MF_RETURN_IF_ERROR(t.session->AssignVariable("b", arrays.at("b")));
    if (rank > 0) {
      const Tensor& q = arrays.at(absl::StrCat("q", rank));
      MF_RETURN_IF_ERROR(t.session->AssignVariable("reduce/w/q", q));
    }
    MF_ASSIGN_OR_RETURN(t.step, t.session->Prepare({r.x, r.y}, {r.loss}, {r.train}));
    return t;
  }
  absl::Status Run(const Tensor& x, const Tensor& y) {
    return step.Run({x, y}, {.replica_rows = rows}).status();
  }
  absl::Status Run() {
    const Arrays& arrays = Reference("numpy");  // NumPy and PyTorch use the same batch
    return Run(arrays.at("x"), arrays.at("y"));
  }
  Tensor Read(const std::string& name) const { return session->ReadVariable(name).value(); }
};

// Trains and returns the first difference from the reference, or "" if there is none.
absl::StatusOr<std::string> DifferenceFrom(const std::string& source, const std::string& name,
                                           const GradientReducer& reduce, const Rows& rows,
                                           int rank = 0, bool queued = false) {
  const Regression regression(reduce);
  MF_ASSIGN_OR_RETURN(Training t, Training::Create(regression, rows, source, rank, queued));
  const Arrays& arrays = Reference(source);
  for (int step = 0; step < kSteps; ++step) {
    MF_RETURN_IF_ERROR(t.Run());
    for (const char* variable : {"w", "b"}) {
      const Tensor want = At(arrays.at(absl::StrCat(name, "_", variable)), step);
      for (int r = 0; r < static_cast<int>(rows.size()); ++r) {
        MF_ASSIGN_OR_RETURN(const Tensor got, t.session->ReadVariable(variable, r));
        const std::string difference = Difference(want, got, kRounding);
        if (!difference.empty()) {
          return absl::StrCat("step ", step, ", ", variable, " of replica ", r, ": ", difference);
        }
      }
    }
  }
  return std::string();
}

struct HookCase {
  const char* source;
  const char* name;
  GradientReducer reduce;
  Rows rows;
  int rank = 0;
};

void PrintTo(const HookCase& c, std::ostream* out) { *out << c.source << " " << c.name; }

hooks::PowerSGDOptions FromStart(int rank) {
  return {.matrix_approximation_rank = rank, .start_powersgd_iter = 0};
}

std::vector<HookCase> HookCases() {
  const Rows uneven = {3, 0, 5};
  hooks::PowerSGDOptions forgetful = FromStart(2);
  forgetful.use_error_feedback = false;
  return {
      {"numpy", "bf16_1", hooks::Bf16Compress(), {8}},
      {"numpy", "bf16_3", hooks::Bf16Compress(), uneven},
      {"numpy", "fp16_3", hooks::Fp16Compress(), uneven},
      {"numpy", "powersgd1_1", hooks::PowerSGD(FromStart(1)), {8}, 1},
      {"numpy", "powersgd1_3", hooks::PowerSGD(FromStart(1)), uneven, 1},
      {"numpy", "powersgd2_3", hooks::PowerSGD(FromStart(2)), uneven, 2},
      {"numpy", "powersgdnofeedback_2", hooks::PowerSGD(forgetful), {4, 4}, 2},
      {"numpy", "adasum_1", hooks::Adasum(), {8}},
      {"numpy", "adasum_2", hooks::Adasum(), {4, 4}},
      {"numpy", "adasum_3", hooks::Adasum(), uneven},
      {"numpy", "adasum_4", hooks::Adasum(), {2, 2, 2, 2}},
      {"numpy", "adasum_5", hooks::Adasum(), {1, 2, 1, 2, 2}},
      {"pytorch", "none_2", nullptr, {4, 4}},
      {"pytorch", "none_2", hooks::AllReduce(), {4, 4}},
      {"pytorch", "none_2", hooks::AllReduce(), {1, 7}},
      {"pytorch", "bf16_2", hooks::Bf16Compress({.use_error_feedback = false}), {4, 4}},
      {"pytorch", "fp16_2", hooks::Fp16Compress({.use_error_feedback = false}), {4, 4}},
      {"pytorch",
       "powersgd1_2",
       hooks::PowerSGD({.matrix_approximation_rank = 1, .start_powersgd_iter = 2}),
       {4, 4},
       1},
      {"pytorch",
       "powersgd2_2",
       hooks::PowerSGD({.matrix_approximation_rank = 2, .start_powersgd_iter = 2}),
       {4, 4},
       2},
      // The result depends only on the sum over the replicas, so it is the same for this division
      // of the rows.
      {"pytorch",
       "powersgd2_2",
       hooks::PowerSGD({.matrix_approximation_rank = 2, .start_powersgd_iter = 2}),
       {8, 0, 0},
       2},
  };
}

class Hooks : public testing::TestWithParam<HookCase> {};

INSTANTIATE_TEST_SUITE_P(Cases, Hooks, testing::ValuesIn(HookCases()), [](const auto& info) {
  std::string name = absl::StrCat(info.index, "_", info.param.source, "_", info.param.name);
  return name;
});

TEST_P(Hooks, TrainingMatchesReference) {
  const HookCase& c = GetParam();
  for (const bool queued : {false, true}) {
    const auto difference = DifferenceFrom(c.source, c.name, c.reduce, c.rows, c.rank, queued);
    ASSERT_TRUE(difference.ok()) << difference.status();
    EXPECT_EQ(*difference, "") << (queued ? "queued" : "");
  }
}

// ---- Planted bugs ----------------------------------------------------------------------------

// Expects the comparison with the reference to detect a hook with a planted bug.
void ExpectCaught(const char* source, const char* name, const GradientReducer& reduce,
                  const Rows& rows, int rank = 0) {
  const auto difference = DifferenceFrom(source, name, reduce, rows, rank);
  ASSERT_TRUE(difference.ok()) << difference.status();
  EXPECT_NE(*difference, "") << "not detected: " << source << " " << name;
}

TEST(PlantedBugs, ForgottenErrorFeedbackIsCaught) {
  ExpectCaught("numpy", "bf16_3", hooks::Bf16Compress({.use_error_feedback = false}), {3, 0, 5});
  ExpectCaught("numpy", "fp16_3", hooks::Fp16Compress({.use_error_feedback = false}), {3, 0, 5});
  hooks::PowerSGDOptions forgetful = FromStart(1);
  forgetful.use_error_feedback = false;
  ExpectCaught("numpy", "powersgd1_3", hooks::PowerSGD(forgetful), {3, 0, 5}, 1);
}

TEST(PlantedBugs, WrongReductionIsCaught) {
  const auto with = [](Reduction reduction) {
    return [reduction](GradientReduction& r) {
      const Output part = ops::LocalPart(r.scope(), r.gradient());
      return ops::AllReduce(r.scope(), part, {.reduction = reduction});
    };
  };
  ExpectCaught("pytorch", "none_2", with(Reduction::kMean), {4, 4});
  ExpectCaught("pytorch", "none_2", with(Reduction::kMax), {4, 4});
  const auto difference = DifferenceFrom("pytorch", "none_2", with(Reduction::kSum), {4, 4});
  EXPECT_EQ(*difference, "");
}

TEST(PlantedBugs, ForgottenReplicaIsCaught) {
  const auto forget = [](int32_t replica) {
    return [replica](GradientReduction& r) {
      const Scope& s = r.scope();
      const Output forgotten =
          ops::Equal(s, ops::ReplicaIndex(s), ops::Const(s, Tensor::Scalar<int32_t>(replica)));
      const Output part = ops::LocalPart(s, r.gradient());
      return ops::AllReduce(s, ops::SelectV2(s, forgotten, ops::ZerosLike(s, part), part));
    };
  };
  ExpectCaught("pytorch", "none_2", forget(1), {4, 4});
  EXPECT_EQ(*DifferenceFrom("pytorch", "none_2", forget(2), {4, 4}), "");
}

// ---- Errors ----------------------------------------------------------------------------------

absl::Status PrepareWith(const GradientReducer& reduce, int replicas = 2) {
  const Regression regression(reduce);
  MF_ASSIGN_OR_RETURN(Training t, Training::Create(regression, Rows(replicas, 8 / replicas)));
  return t.Run();
}

TEST(HookErrors, PerReplicaResultNamesVariableAndPath) {
  const absl::Status status = PrepareWith([](GradientReduction& r) {
    const Output part = ops::LocalPart(r.scope().WithName("mine"), r.gradient());
    return ops::Neg(r.scope().WithName("result"), part);
  });
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "gradient of variable '",
                              "is per-replica", "/mine) -> Neg("));
}

TEST(HookErrors, UnreducedResultIsReported) {
  const absl::Status status = PrepareWith([](GradientReduction& r) { return r.gradient(); });
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "gradient of variable '",
                              "is partial(sum)"));
  // One replica's gradient is already complete.
  EXPECT_TRUE(PrepareWith([](GradientReduction& r) { return r.gradient(); }, 1).ok());
}

TEST(HookErrors, ScatteredResultIsReported) {
  const absl::Status status =
      PrepareWith([](GradientReduction& r) { return ops::ReduceScatter(r.scope(), r.gradient()); });
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "is sharded("));
}

TEST(HookErrors, ResultWithWrongDtypeOrShapeIsReported) {
  const auto building = [](const GradientReducer& reduce) {
    return Regression(reduce).graph.status();
  };
  EXPECT_THAT(building([](GradientReduction& r) {
                return ops::AllReduce(r.scope(), ops::Cast(r.scope(), r.gradient(), DT_HALF));
              }),
              IsError(absl::StatusCode::kInvalidArgument, "float[12,10]", "got half[12,10]"));
  EXPECT_THAT(building([](GradientReduction& r) {
                return ops::Sum(r.scope(), ops::AllReduce(r.scope(), r.gradient()), {0});
              }),
              IsError(absl::StatusCode::kInvalidArgument, "gradient of 'w':", "got float[10]"));
  EXPECT_THAT(building([](GradientReduction&) { return Output(); }),
              IsError(absl::StatusCode::kInvalidArgument, "gradient of 'w':", "reducer"));
}

TEST(HookErrors, OptionsOutOfRangeAreReported) {
  const auto building = [](const hooks::PowerSGDOptions& options) {
    return Regression(hooks::PowerSGD(options)).graph.status();
  };
  EXPECT_THAT(building({.matrix_approximation_rank = 0}),
              IsError(absl::StatusCode::kInvalidArgument, "matrix_approximation_rank:", "got 0"));
  EXPECT_THAT(building({.start_powersgd_iter = -1}),
              IsError(absl::StatusCode::kInvalidArgument, "got -1"));
}

// ---- An optimizer's guarantees --------------------------------------------------------------

std::map<std::string, GradientReducer> AllHooks() {
  return {{"allreduce", hooks::AllReduce()},
          {"bf16", hooks::Bf16Compress()},
          {"fp16", hooks::Fp16Compress()},
          {"powersgd", hooks::PowerSGD(FromStart(2))},
          {"powersgd later", hooks::PowerSGD({.start_powersgd_iter = 1})},
          {"powersgd cold", hooks::PowerSGD({.start_powersgd_iter = 0, .warm_start = false})},
          {"adasum", hooks::Adasum()}};
}

// Returns the values of all variables.
Arrays Variables(const Session& session, int replica) {
  Arrays values;
  for (const VariableInfo& v : session.layout().variables()) {
    values[v.name] = session.ReadVariable(v.name, replica).value();
  }
  return values;
}

TEST(HookedStep, NonFiniteLossChangesNothing) {
  for (const auto& [name, reduce] : AllHooks()) {
    const Regression regression(reduce);
    auto t = Training::Create(regression, {5, 3});
    ASSERT_TRUE(t.ok()) << name << ": " << t.status();
    ASSERT_TRUE(t->Run().ok()) << name;
    const Arrays before[] = {Variables(*t->session, 0), Variables(*t->session, 1)};
    Tensor bad = Reference("numpy").at("x").Clone().value();
    bad.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    ASSERT_TRUE(t->Run(bad, Reference("numpy").at("y")).ok()) << name;
    for (int r = 0; r < 2; ++r) {
      for (const auto& [variable, value] : Variables(*t->session, r)) {
        EXPECT_EQ(Difference(before[r].at(variable), value, {}), "") << name << ": " << variable;
      }
    }
    ASSERT_TRUE(t->Run().ok()) << name;
    EXPECT_NE(Difference(before[0].at("w"), t->Read("w"), {}), "") << name;
  }
}

TEST(HookedStep, NormOfReducedGradientIsClipped) {
  for (const Rows& rows : {Rows{8}, Rows{3, 5}}) {
    Tensor results[2];
    for (const bool hooked : {false, true}) {
      const Regression regression(hooked ? hooks::AllReduce() : nullptr, /*clip_norm=*/0.25);
      auto t = Training::Create(regression, rows);
      ASSERT_TRUE(t.ok()) << t.status();
      ASSERT_TRUE(t->Run().ok());
      results[hooked] = t->Read("w");
    }
    EXPECT_EQ(Difference(results[0], results[1], kRounding), "");
    EXPECT_NE(Difference(results[0], Reference("numpy").at("w"), kRounding), "");
  }
}

// A PowerSGD factor that became all zeros would stay zero.
TEST(HookedStep, PowerSgdRecoversFromZeroGradient) {
  for (const int64_t start : {0, 1}) {
    const Regression r(hooks::PowerSGD({.start_powersgd_iter = start}));
    auto t = Training::Create(r, {4, 4});
    ASSERT_TRUE(t.ok()) << t.status();
    const Arrays& arrays = Reference("numpy");
    Tensor zeros = arrays.at("x").Clone().value();
    std::fill_n(zeros.data<float>(), zeros.num_elements(), 0.0f);
    for (int k = 0; k < 2; ++k) ASSERT_TRUE(t->Run(zeros, arrays.at("y")).ok());
    EXPECT_EQ(Difference(arrays.at("w"), t->Read("w"), {}), "");
    ASSERT_TRUE(t->Run().ok());
    EXPECT_NE(Difference(arrays.at("w"), t->Read("w"), {}), "");
    EXPECT_TRUE(AllFinite(t->Read("w")));
  }
}

// A strategy differs from a test session: its replicas share the variables that only the optimizer
// writes.
TEST(HookedStep, StrategyTrainsLikeTestSession) {
  const Arrays& arrays = Reference("numpy");
  for (const auto& [name, reduce] : AllHooks()) {
    const auto strategy = MirroredStrategy::Create({.num_cpu_replicas = 2}).value();
    std::unique_ptr<Regression> r;
    {
      auto mirrored = strategy->scope();
      r = std::make_unique<Regression>(reduce);
    }
    auto expected = Training::Create(*r, {4, 4});
    ASSERT_TRUE(expected.ok()) << name << ": " << expected.status();
    const auto session = strategy->NewSession(r->graph);
    ASSERT_TRUE(session.ok()) << name << ": " << session.status();
    for (const auto& [variable, value] : Variables(*expected->session, 0)) {
      ASSERT_TRUE((*session)->AssignVariable(variable, value).ok()) << variable;
    }
    auto step = (*session)->Prepare({r->x, r->y}, {r->loss}, {r->train});
    ASSERT_TRUE(step.ok()) << name << ": " << step.status();
    float first = 0, last = 0;
    for (int k = 0; k < kSteps; ++k) {
      ASSERT_TRUE(expected->Run().ok()) << name;
      const auto out = step->Run({arrays.at("x"), arrays.at("y")});
      ASSERT_TRUE(out.ok()) << name << ": " << out.status();
      last = (*out)[0].scalar<float>();
      if (k == 0) first = last;
    }
    EXPECT_LT(last, first) << name;
    EXPECT_EQ(Difference(expected->Read("w"), *(*session)->ReadVariable("w"), kRounding), "")
        << name;
  }
}

TEST(HookedStep, MixedPrecisionTrains) {
  const Arrays& arrays = Reference("numpy");
  for (const auto& [name, reduce] : AllHooks()) {
    const Regression r(reduce);
    TestSessionOptions options = {.replicas = 2};
    options.session.compile.compute_dtype = DT_BFLOAT16;
    const auto session = CreateTestSession(r.graph, options);
    ASSERT_TRUE(session.ok()) << name << ": " << session.status();
    auto step = (*session)->Prepare({r.x, r.y}, {r.loss}, {r.train});
    ASSERT_TRUE(step.ok()) << name << ": " << step.status();
    float first = 0, last = 0;
    for (int k = 0; k < 3 * kSteps; ++k) {
      const auto out = step->Run({arrays.at("x"), arrays.at("y")});
      ASSERT_TRUE(out.ok()) << name << ": " << out.status();
      last = (*out)[0].scalar<float>();
      if (k == 0) first = last;
    }
    EXPECT_LT(last, first) << name;
  }
}

// Both replicas send a gradient that bfloat16 cannot represent. Later steps deliver what rounding
// removed.
TEST(HookedStep, ErrorFeedbackDeliversRoundingErrorsLater) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {-1});
  const Variable v = CreateVariable(root, "v", {}, initializers::Zeros());
  const Output loss = ops::Sum(root, ops::Mul(root, x, v.value), {0});
  const Operation train =
      GradientDescent({.learning_rate = 1}).Minimize(root, loss, {.reduce = hooks::Bf16Compress()});
  const auto session = CreateTestSession(graph, {.replicas = 2}).value();
  Step step = session->Prepare({x}, {}, {train}).value();
  const float gradient = 1 + 1 / 512.0f;  // bfloat16 has 8 significant bits
  for (int k = 0; k < 64; ++k) {
    ASSERT_TRUE(step.Run({Tensor::Vector<float>({gradient, gradient})}).ok());
    const float sent = -session->ReadVariable("v")->scalar<float>();
    const float owed = session->ReadVariable("reduce/v/error")->scalar<float>();
    EXPECT_FLOAT_EQ(sent + owed, 2 * gradient * static_cast<float>(k + 1));
    EXPECT_LE(std::abs(owed), 2 / 256.0f);
  }
}

// Gradients accumulate in a kOnRead variable without communication. At the end, the hook reduces
// the sum once.
TEST(HookedStep, AccumulatedGradientIsReduced) {
  Tensor results[2];
  for (const bool accumulates : {false, true}) {
    const Regression plain(hooks::PowerSGD(FromStart(1)));
    if (!accumulates) {
      auto t = Training::Create(plain, {3, 5}, "numpy", 1);
      ASSERT_TRUE(t.ok()) << t.status();
      ASSERT_TRUE(t->Run().ok());
      results[0] = t->Read("w");
      continue;
    }
    Regression r(nullptr);
    const Scope root(&r.graph);
    const Variable sum = CreateVariable(root, "sum", {12, 10}, initializers::Zeros(), DT_FLOAT,
                                        {.synchronization = VariableSynchronization::kOnRead});
    const auto gradients = Optimizer::ComputeGradients(root, r.loss, {r.w.handle});
    const Operation add = ops::AssignAddVariableOp(
        root, sum.handle,
        ops::Mul(root, gradients[0].gradient, ops::ScalarConst(root, DT_FLOAT, 0.5)));
    const ReducedGradients reduced = Optimizer::ReduceGradients(root, {{{sum.value, r.w.handle}}},
                                                                hooks::PowerSGD(FromStart(1)));
    const Operation apply =
        GradientDescent({.learning_rate = 0.5}).ApplyGradients(root, reduced.gradients);
    auto t = Training::Create(r, {3, 5}, "numpy", 1);
    ASSERT_TRUE(t.ok()) << t.status();
    Step accumulate = t->session->Prepare({r.x, r.y}, {}, {add}).value();
    std::vector<Operation> targets = reduced.updates;
    targets.push_back(apply);
    Step update = t->session->Prepare({}, {}, targets).value();
    const Arrays& arrays = Reference("numpy");
    EXPECT_EQ(CompileStep(accumulate, {Shape({8, 12}), Shape({8, 10})})
                  ->program->state.collectives.size(),
              0);
    for (int k = 0; k < 2; ++k) {
      ASSERT_TRUE(accumulate.Run({arrays.at("x"), arrays.at("y")}, {.replica_rows = {3, 5}}).ok());
    }
    ASSERT_TRUE(update.Run({}).ok());
    results[1] = t->Read("w");
  }
  EXPECT_EQ(Difference(results[0], results[1], kRounding), "");
}

TEST(HookedStep, LoadedGraphTrainsLikeTheOriginal) {
  for (const auto& [name, reduce] : AllHooks()) {
    Regression regression(reduce);
    const auto def = ToGraphDef(regression.graph);
    ASSERT_TRUE(def.ok()) << name << ": " << def.status();
    Regression loaded(nullptr);
    const auto find = [&](const Output& o) {
      return loaded.graph.FindNode(o.node->name())->output(o.index);
    };
    auto graph = FromGraphDef(*def, AllOps());
    ASSERT_TRUE(graph.ok()) << name << ": " << graph.status();
    loaded.graph = *std::move(graph);
    loaded.x = find(regression.x);
    loaded.y = find(regression.y);
    loaded.loss = find(regression.loss);
    loaded.train = {loaded.graph.FindNode(regression.train.node->name())};
    Tensor results[2];
    for (const Regression* r : {&regression, &loaded}) {
      auto t = Training::Create(*r, {5, 3});
      ASSERT_TRUE(t.ok()) << name << ": " << t.status();
      for (int k = 0; k < 3; ++k) ASSERT_TRUE(t->Run().ok()) << name;
      results[r == &loaded] = t->Read("w");
    }
    EXPECT_EQ(Difference(results[0], results[1], {}), "") << name;
  }
}

TEST(HookedStep, CheckpointKeepsErrorForAnyNumberOfReplicas) {
  const std::string path = absl::StrCat(testing::TempDir(), "/hooks.safetensors");
  const Regression regression(hooks::PowerSGD(FromStart(1)));
  auto trained = Training::Create(regression, {3, 0, 5}, "numpy", 1);
  ASSERT_TRUE(trained.ok()) << trained.status();
  for (int k = 0; k < 3; ++k) ASSERT_TRUE(trained->Run().ok());
  ASSERT_TRUE(SaveVariables(*trained->session, path).ok());
  ASSERT_TRUE(trained->Run().ok());
  for (const Rows& rows : {Rows{8}, Rows{4, 4}, Rows{3, 0, 5}}) {
    auto resumed = Training::Create(regression, rows);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    const auto report = LoadVariables(path, *resumed->session);
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_TRUE(resumed->Run().ok());
    for (const char* name : {"w", "b", "reduce/w/q", "reduce/w/error"}) {
      EXPECT_EQ(Difference(trained->Read(name), resumed->Read(name), kRounding), "") << name;
    }
  }
}

// The interpreter runs the graph on one device. It is a valid oracle because PowerSGD communicates
// only sums and computes only with these sums.
TEST(HookedStep, PowerSgdMatchesInterpreter) {
  const Regression r(hooks::PowerSGD({.matrix_approximation_rank = 2, .start_powersgd_iter = 1}));
  auto t = Training::Create(r, {3, 0, 5});
  ASSERT_TRUE(t.ok()) << t.status();
  Interpreter reference = Interpreter::Create(r.graph, TestKernels(), {.ops = &AllOps()}).value();
  for (const VariableInfo& v : t->session->layout().variables()) {
    reference.variables()[v.name] = t->Read(v.name);
  }
  const Arrays& arrays = Reference("numpy");
  for (int k = 0; k < kSteps; ++k) {
    ASSERT_TRUE(t->Run().ok());
    const auto ran = reference.Run({{r.x, arrays.at("x")}, {r.y, arrays.at("y")}}, {}, {r.train});
    ASSERT_TRUE(ran.ok()) << ran.status();
    for (const auto& [name, value] : reference.variables()) {
      EXPECT_EQ(Difference(value, t->Read(name), kRounding), "") << name << " after step " << k;
    }
  }
}

// ---- Communication --------------------------------------------------------------------

// Counts the elements of all collectives, by kind, dtype and reduction.
std::map<std::string, int64_t> Communicated(const GradientReducer& reduce) {
  const Regression r(reduce);
  auto t = Training::Create(r, {4, 4});
  std::map<std::string, int64_t> elements;
  const auto compiled = CompileStep(t->step, {Shape({8, 12}), Shape({8, 10})});
  const Compilation& c = compiled->program->state;
  for (const Node* node : c.collectives) {
    for (int i = 0; i < node->num_outputs(); ++i) {
      const int64_t n = c.values().shape(node->output(i)).num_elements();
      if (n == 1) continue;  // the loss
      elements[absl::StrCat(node->op().name, " ", DataTypeName(node->output_dtype(i)))] += n;
    }
  }
  return elements;
}

TEST(HookedStep, CommunicatesWhatTheHookRequires) {
  using Elements = std::map<std::string, int64_t>;
  EXPECT_EQ(Communicated(hooks::Bf16Compress()), (Elements{{"AllReduce bfloat16", 130}}));
  EXPECT_EQ(Communicated(hooks::Fp16Compress()), (Elements{{"AllReduce half", 130}}));
  // The factors of w are P [12,2] and Q [10,2]. The update of b reduces its own gradient.
  EXPECT_EQ(Communicated(hooks::PowerSGD(FromStart(2))),
            (Elements{{"AllReduce float", 2 * (12 + 10)}}));
  // Each of the two variables takes the gradients of two replicas, four dot products and the
  // result.
  EXPECT_EQ(Communicated(hooks::Adasum()), (Elements{{"ReduceScatter float", 2 * 130},
                                                     {"AllReduce float", 2 * 4},
                                                     {"AllGather float", 130}}));
}

}  // namespace
}  // namespace mirrorflow
