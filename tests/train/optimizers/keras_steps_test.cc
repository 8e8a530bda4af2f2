// SPDX-License-Identifier: Apache-2.0
//
// Compares every optimizer's steps with those that tests/references/make_optimizer_steps.py stored
// from Keras.
#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/runtime/variable_layout.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/sizes.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/formats/npz.h"
#include "train/losses/losses.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

constexpr int kSteps = 6;
constexpr Tolerance kRounding{.relative = 2e-5, .absolute = 4e-6};
constexpr const char* kVariables[] = {"b", "w", "u", "f"};  // [2], [3,2], [3,4], [3,1,2,2]

struct KerasCase {
  const char* name;
  std::shared_ptr<const Optimizer> optimizer;
  MinimizeOptions options = {};
};

void PrintTo(const KerasCase& c, std::ostream* out) { *out << c.name; }

template <typename Rule>
std::shared_ptr<const Optimizer> Make(const typename Rule::Options& options) {
  return std::make_shared<Rule>(options);
}

std::vector<KerasCase> RuleCases() {
  return {
      {"sgd", Make<SGD>({0.05})},
      {"momentum", Make<Momentum>({0.05, 0.8})},
      {"nesterov", Make<Momentum>({0.05, 0.8, true})},
      {"adam", Make<Adam>({0.1, 0.8, 0.95, 1e-3})},
      {"amsgrad", Make<Adam>({0.1, 0.7, 0.5, 1e-3, true})},
      {"adamw", Make<AdamW>({0.1, 0.3, 0.8, 0.95, 1e-3})},
      {"adamw_amsgrad", Make<AdamW>({0.1, 0.3, 0.7, 0.5, 1e-3, true})},
      {"rmsprop", Make<RMSProp>({0.05, 0.7, 0, 1e-2})},
      {"rmsprop_momentum", Make<RMSProp>({0.05, 0.7, 0.6, 1e-2})},
      {"rmsprop_centered", Make<RMSProp>({0.05, 0.7, 0, 1e-2, true})},
      {"rmsprop_centered_momentum", Make<RMSProp>({0.05, 0.7, 0.6, 1e-2, true})},
      {"adagrad", Make<Adagrad>({0.2, 0.3, 1e-7})},
      {"adadelta", Make<Adadelta>({2, 0.8, 1e-3})},
      {"adadelta_default", Make<Adadelta>({100})},
      {"adamax", Make<Adamax>({0.1, 0.8, 0.7, 1e-2})},
      {"adamax_default", Make<Adamax>({0.1})},
      {"nadam", Make<Nadam>({0.1, 0.8, 0.95, 1e-2})},
      {"nadam_default", Make<Nadam>({0.1})},
      {"ftrl", Make<Ftrl>({0.2, -0.7, 0.3, 0.3, 0.2, 0.1, 0.4})},
      {"ftrl_default", Make<Ftrl>({0.1})},
      {"lion", Make<Lion>({0.05, 0.6, 0.7})},
      {"lion_default", Make<Lion>({0.05})},
      {"lamb", Make<Lamb>({0.1, 0.8, 0.95, 1e-2})},
      {"lamb_default", Make<Lamb>({0.1})},
      {"adafactor", Make<Adafactor>({0.6, -0.5, 1e-2, 0.5, 0.7})},
      {"adafactor_default", Make<Adafactor>({0.3})},
      {"muon", Make<Muon>({.learning_rate = 0.1,
                           .adam_beta1 = 0.8,
                           .adam_beta2 = 0.95,
                           .adam_weight_decay = 0.1,
                           .epsilon = 1e-3,
                           .weight_decay = 0.2,
                           .muon_a = 3,
                           .muon_b = -4,
                           .muon_c = 1.5,
                           .adam_lr_ratio = 0.5,
                           .momentum = 0.8,
                           .ns_steps = 3,
                           .nesterov = false,
                           .rms_rate = std::nullopt})},
      {"muon_default", Make<Muon>({0.1})},
      {"muon_exclude",
       Make<Muon>(
           {.learning_rate = 0.1, .exclude_layers = [](absl::string_view n) { return n == "w"; }})},
  };
}

// Returns cases that test each option with one of the optimizers. The clipping limits are above
// some gradient norms and below others.
std::vector<KerasCase> OptionCases() {
  return {
      {"clipvalue", Make<SGD>({0.05}), {.clipvalue = 0.8}},
      {"clipnorm", Make<SGD>({0.05}), {.clipnorm = 1.5}},
      {"global_clipnorm", Make<SGD>({0.05}), {.global_clipnorm = 3}},
      {"weight_decay", Make<Momentum>({0.05, 0.8}), {.weight_decay = 0.4}},
      {"lion_weight_decay",
       Make<Lion>({0.05}),
       {.weight_decay = 0.4,
        .exclude_from_weight_decay = [](absl::string_view n) { return n == "b"; }}},
      {"lamb_weight_decay", Make<Lamb>({0.1}), {.weight_decay = 0.4}},
      {"ema", Make<SGD>({0.05}), {.use_ema = true, .ema_momentum = 0.7}},
      {"ema_overwrite",
       Make<Adam>({0.1}),
       {.use_ema = true, .ema_momentum = 0.6, .ema_overwrite_frequency = 2}},
  };
}

std::vector<KerasCase> Cases() {
  std::vector<KerasCase> cases = RuleCases();
  for (KerasCase& c : OptionCases()) cases.push_back(std::move(c));
  return cases;
}

// Returns the accumulation cases. They are separate because only some steps update variables, and a
// non-finite loss also discards the other steps of its window.
std::vector<KerasCase> AccumulationCases() {
  return {
      {"accumulation",
       Make<Momentum>({0.05, 0.8}),
       {.clipnorm = 1.5, .weight_decay = 0.4, .accumulate_steps = 2}},
      {"accumulation_rmsprop", Make<RMSProp>({0.05, 0.7, 0, 1e-2}), {.accumulate_steps = 3}},
  };
}

const std::map<std::string, Tensor>& Stored() {
  static const auto* arrays =
      new std::map<std::string, Tensor>(ReadNpz("tests/references/optimizers/keras.npz").value());
  return *arrays;
}

const Tensor& Stored(const std::string& name) { return Stored().at(name); }

// Returns row `i` of a stored array.
Tensor StoredRow(const std::string& name, int i) {
  const Tensor row = SliceAlong(Stored(name), 0, i, i + 1);
  const auto dims = Stored(name).shape().dims();
  return row.Reshaped(Shape(std::vector<int64_t>(dims.begin() + 1, dims.end())));
}

// The three regressions in make_optimizer_steps.py.
struct Regressions {
  std::unique_ptr<Session> session;
  Step step;
  int replicas = 1;

  void Run(const std::vector<Tensor>& batch) {
    const auto result = step.Run(batch);
    EXPECT_TRUE(result.ok()) << result.status();
  }
  std::vector<Tensor> AllVariables() const {
    std::vector<Tensor> values;
    for (const VariableInfo& v : session->layout().variables()) {
      for (int r = 0; r < replicas; ++r) values.push_back(*session->ReadVariable(v.name, r));
    }
    return values;
  }
};

absl::StatusOr<Regressions> MakeRegressions(const KerasCase& c, int replicas) {
  Graph graph;
  const Scope s(&graph);
  const Output x = ops::Placeholder(s.WithName("x"), DT_FLOAT, {-1, 3});
  const Output y = ops::Placeholder(s.WithName("y"), DT_FLOAT, {-1, 2});
  std::map<std::string, Output> v;
  for (const std::string name : kVariables) {
    const Tensor value = Stored("start/" + name);
    auto initial = [value](const Scope& in, const Shape&, DataType) {
      return ops::Const(in, value);
    };
    v[name] = CreateVariable(s, name, value.shape(), initial).value;
  }
  const Output z = ops::ConcatV2(s, {y, ops::Neg(s, y)}, 1);
  const Output f = ops::Reshape(s, v["f"], Shape({3, 4}));
  const Output loss = ops::AddN(
      s, {losses::MeanSquaredError(s, ops::BiasAdd(s, ops::MatMul(s, x, v["w"]), v["b"]), y),
          losses::MeanSquaredError(s, ops::MatMul(s, x, v["u"]), z),
          losses::MeanSquaredError(s, ops::MatMul(s, x, f), ops::Neg(s, z))});
  const Operation train = c.optimizer->Minimize(s, loss, c.options);
  Regressions result;
  result.replicas = replicas;
  MF_ASSIGN_OR_RETURN(result.session, CreateTestSession(graph, {.replicas = replicas}));
  MF_ASSIGN_OR_RETURN(result.step, result.session->Prepare({x, y}, {loss}, {train}));
  return result;
}

std::vector<Tensor> Batch(int step) { return {StoredRow("x", step), StoredRow("y", step)}; }

class KerasStepsTest : public ::testing::TestWithParam<std::tuple<KerasCase, int>> {
 protected:
  void SetUp() override {
    absl::StatusOr<Regressions> made = MakeRegressions(Case(), std::get<1>(GetParam()));
    ASSERT_TRUE(made.ok()) << made.status();
    regressions_ = *std::move(made);
  }
  const KerasCase& Case() const { return std::get<0>(GetParam()); }

  void ExpectAfterStep(int step) const {
    for (const std::string name : kVariables) {
      Expect(name, name, step);
      if (Case().options.use_ema) {
        Expect(absl::StrCat("train/", name, "/average"), name + "/average", step);
      }
    }
  }
  void Expect(const std::string& variable, const std::string& stored, int step) const {
    const Tensor want = StoredRow(absl::StrCat(Case().name, "/", stored), step);
    for (int r = 0; r < regressions_.replicas; ++r) {
      const auto got = regressions_.session->ReadVariable(variable, r);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(Difference(want, *got, kRounding), "") << variable << " after step " << step + 1;
    }
  }

  Regressions regressions_;
};

std::string CaseName(const testing::TestParamInfo<std::tuple<KerasCase, int>>& info) {
  return absl::StrCat(std::get<0>(info.param).name, "_on_", std::get<1>(info.param));
}

// Three replicas divide the 5 rows unevenly.
INSTANTIATE_TEST_SUITE_P(Replicas, KerasStepsTest,
                         ::testing::Combine(::testing::ValuesIn(Cases()),
                                            ::testing::ValuesIn(KerasReplicas())),
                         CaseName);

TEST_P(KerasStepsTest, StepsMatchKeras) {
  for (int i = 0; i < kSteps; ++i) {
    regressions_.Run(Batch(i));
    ExpectAfterStep(i);
  }
}

TEST_P(KerasStepsTest, StepWithNonFiniteLossChangesNothingAndDoesNotCount) {
  for (int i = 0; i < kSteps; ++i) {
    const std::vector<Tensor> before = regressions_.AllVariables();
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 1e30f}) {
      std::vector<Tensor> batch = Batch(i);
      batch[1].data<float>()[i] = bad;  // affects one replica; the square of 1e30 overflows
      regressions_.Run(batch);
      const std::vector<Tensor> after = regressions_.AllVariables();
      for (size_t v = 0; v < before.size(); ++v) {
        EXPECT_TRUE(Tensor::Identical(before[v], after[v])) << "variable " << v << ", " << bad;
      }
    }
    regressions_.Run(Batch(i));
    ExpectAfterStep(i);
  }
}

class KerasAccumulationTest : public KerasStepsTest {};

INSTANTIATE_TEST_SUITE_P(Replicas, KerasAccumulationTest,
                         ::testing::Combine(::testing::ValuesIn(AccumulationCases()),
                                            ::testing::ValuesIn(KerasReplicas())),
                         CaseName);

TEST_P(KerasAccumulationTest, StepsMatchKeras) {
  for (int i = 0; i < kSteps; ++i) {
    regressions_.Run(Batch(i));
    ExpectAfterStep(i);
  }
}

TEST(KerasStepsFile, EveryStoredCaseIsTested) {
  std::vector<std::string> tested;
  for (const KerasCase& c : Cases()) tested.push_back(c.name);
  for (const KerasCase& c : AccumulationCases()) tested.push_back(c.name);
  for (const auto& [key, value] : Stored()) {
    if (!absl::EndsWith(key, "/w") || absl::StartsWith(key, "start/")) continue;
    const std::string name = key.substr(0, key.find('/'));
    EXPECT_NE(std::find(tested.begin(), tested.end(), name), tested.end()) << name;
  }
}

}  // namespace
}  // namespace mirrorflow
