// SPDX-License-Identifier: Apache-2.0
#include "train/optimizer.h"

#include <cmath>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/ops.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/layers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 5;
constexpr Tolerance kRounding{.relative = 2e-5, .absolute = 2e-6};

struct OptimizerCase {
  const char* name;
  std::shared_ptr<const Optimizer> optimizer;
  double clip_norm;
  std::vector<float> after[kSteps];  // w [3,2], then b [2]
};

void PrintTo(const OptimizerCase& c, std::ostream* out) { *out << c.name; }

// Computed by Keras 3 on TensorFlow 2.21; tests/references/make_optimizer_steps.py prints these
// rows.
std::vector<OptimizerCase> Cases() {
  return {
      {"sgd",
       std::make_shared<GradientDescent>(GradientDescent::Options{0.05}),
       0,
       {{0.4414583f, -0.4073958f, 0.8540625f, 0.2922656f, -0.9345834f, 0.7358333f, 0.07833333f,
         -0.1540625f},
        {0.3899668f, -0.3271024f, 0.7237292f, 0.3282195f, -0.873025f, 0.719478f, 0.06161653f,
         -0.112547f},
        {0.3445337f, -0.2573611f, 0.6072978f, 0.3586597f, -0.8151611f, 0.7014396f, 0.0491396f,
         -0.07488031f},
        {0.3043143f, -0.1966695f, 0.5032551f, 0.3842839f, -0.7608207f, 0.6821395f, 0.04028448f,
         -0.04056764f},
        {0.2685892f, -0.1437433f, 0.410255f, 0.4057029f, -0.7098294f, 0.6619271f, 0.03451343f,
         -0.00918198f}}},
      {"momentum",
       std::make_shared<Momentum>(Momentum::Options{0.05, 0.8}),
       0,
       {{0.4414583f, -0.4073958f, 0.8540625f, 0.2922656f, -0.9345834f, 0.7358333f, 0.07833333f,
         -0.1540625f},
        {0.3431335f, -0.253019f, 0.6069792f, 0.362032f, -0.8206916f, 0.7081446f, 0.0442832f,
         -0.07579702f},
        {0.2246805f, -0.06962495f, 0.3053646f, 0.4432359f, -0.674801f, 0.6662043f, 0.008526057f,
         0.02094444f},
        {0.1039042f, 0.1130195f, -0.007740051f, 0.5209616f, -0.5121286f, 0.6092584f, -0.01898308f,
         0.1236622f},
        {-0.005199097f, 0.2716578f, -0.296797f, 0.5832247f, -0.3460553f, 0.5375099f, -0.03056213f,
         0.2223487f}}},
      {"nesterov",
       std::make_shared<Momentum>(Momentum::Options{0.05, 0.8, true}),
       0,
       {{0.394625f, -0.3333125f, 0.7373125f, 0.3260781f, -0.88225f, 0.7245f, 0.061f, -0.1173125f},
        {0.2746257f, -0.147245f, 0.4317827f, 0.4087563f, -0.7351342f, 0.6828418f, 0.0241709f,
         -0.01955239f},
        {0.1579551f, 0.02824064f, 0.1281149f, 0.4827358f, -0.5749602f, 0.6247458f, -0.0004502051f,
         0.08055535f},
        {0.05608194f, 0.1744372f, -0.142128f, 0.5380371f, -0.4150688f, 0.5519392f, -0.007085853f,
         0.1744296f},
        {-0.02539396f, 0.2828888f, -0.3601267f, 0.5697556f, -0.2656967f, 0.4678593f, 0.006003728f,
         0.2573022f}}},
      {"adam",
       std::make_shared<Adam>(Adam::Options{0.1, 0.8, 0.95, 1e-3}),
       0,
       {{0.4003805f, -0.4002408f, 0.900153f, 0.3494737f, -0.9003406f, 0.6515539f, 0.001021475f,
         -0.1004844f},
        {0.3022198f, -0.3012245f, 0.8008446f, 0.4452805f, -0.8008111f, 0.5543284f, -0.09409159f,
         -0.002052858f},
        {0.2071899f, -0.2036933f, 0.7025666f, 0.5317851f, -0.7016343f, 0.4601274f, -0.1790763f,
         0.09407239f},
        {0.1174926f, -0.1085208f, 0.6058493f, 0.6000248f, -0.6030334f, 0.3709544f, -0.2441008f,
         0.1864205f},
        {0.03583482f, -0.01673751f, 0.5112445f, 0.6402358f, -0.5052897f, 0.2887024f, -0.2792175f,
         0.2733321f}}},
      {"adamw",
       std::make_shared<AdamW>(AdamW::Options{0.1, 0.3, 0.8, 0.95, 1e-3}),
       0,
       {{0.3853805f, -0.3852409f, 0.870153f, 0.3419738f, -0.8703406f, 0.6290539f, -0.001978524f,
         -0.09448439f},
        {0.275928f, -0.2747794f, 0.7449308f, 0.4275425f, -0.7448637f, 0.5136065f, -0.09623053f,
         0.006780952f},
        {0.173404f, -0.1692989f, 0.6248342f, 0.5016939f, -0.6237836f, 0.4060287f, -0.1755171f,
         0.1027815f},
        {0.08005503f, -0.06958301f, 0.5103953f, 0.5570056f, -0.5073236f, 0.3090129f, -0.2292793f,
         0.1923866f},
        {-0.001546137f, 0.02346668f, 0.4021441f, 0.5858314f, -0.3957849f, 0.2249135f, -0.249269f,
         0.2744278f}}},
      {"rmsprop",
       std::make_shared<RMSProp>(RMSProp::Options{0.05, 0.7, 0, 1e-2}),
       0,
       {{0.4098029f, -0.4091532f, 0.908891f, 0.3392296f, -0.909589f, 0.6732644f, 0.01587479f,
         -0.1104637f},
        {0.346404f, -0.3431823f, 0.8417299f, 0.3966492f, -0.841235f, 0.6150752f, -0.03837105f,
         -0.04643959f},
        {0.2938565f, -0.2870547f, 0.7839611f, 0.4393774f, -0.7817249f, 0.5654041f, -0.0782168f,
         0.007353749f},
        {0.2475535f, -0.236331f, 0.7312012f, 0.4716077f, -0.7269822f, 0.5206426f, -0.1075608f,
         0.0554386f},
        {0.2055349f, -0.189071f, 0.6814978f, 0.4944143f, -0.6752015f, 0.479023f, -0.1275235f,
         0.09982333f}}},
      {"rmspropmomentum",
       std::make_shared<RMSProp>(RMSProp::Options{0.05, 0.7, 0.6, 1e-2}),
       0,
       {{0.4098029f, -0.4091532f, 0.908891f, 0.3392296f, -0.909589f, 0.6732644f, 0.01587479f,
         -0.1104637f},
        {0.2922858f, -0.2886742f, 0.7870644f, 0.450187f, -0.7869884f, 0.5690339f, -0.08884618f,
         0.007282212f},
        {0.1750317f, -0.1635584f, 0.6584567f, 0.5459222f, -0.6548637f, 0.4603806f, -0.1779632f,
         0.1270513f},
        {0.07211085f, -0.04519498f, 0.5333402f, 0.599233f, -0.5231312f, 0.3581016f, -0.2257194f,
         0.2364228f},
        {-0.009038836f, 0.06112999f, 0.4157273f, 0.596842f, -0.3964264f, 0.2655506f, -0.2214355f,
         0.3300602f}}},
      {"adagrad",
       std::make_shared<Adagrad>(Adagrad::Options{0.2, 0.3, 1e-7}),
       0,
       {{0.3188425f, -0.308211f, 0.8034312f, 0.4178455f, -0.8155142f, 0.6581081f, -0.02409121f,
         -0.02821112f},
        {0.2173349f, -0.1937464f, 0.6777967f, 0.4877959f, -0.687611f, 0.5720026f, -0.08006492f,
         0.07341754f},
        {0.1486564f, -0.110737f, 0.5821931f, 0.5141747f, -0.587248f, 0.4981637f, -0.1035911f,
         0.1461017f},
        {0.09835722f, -0.04577664f, 0.5040443f, 0.5171652f, -0.5042518f, 0.4342321f, -0.1087172f,
         0.2029478f},
        {0.05971586f, 0.007188778f, 0.4375903f, 0.50754f, -0.4336449f, 0.3779784f, -0.1031244f,
         0.2499893f}}},
      // The norm is above the limit in the first two steps, and below it in the others.
      {"clipped",
       std::make_shared<GradientDescent>(GradientDescent::Options{0.05}),
       3.7,
       {{0.447246f, -0.416551f, 0.8684903f, 0.2880871f, -0.9410506f, 0.7372339f, 0.08047537f,
         -0.158604f},
        {0.3950764f, -0.3350701f, 0.7366623f, 0.3246517f, -0.8791333f, 0.7211007f, 0.06327547f,
         -0.1166666f},
        {0.349042f, -0.2642817f, 0.6188515f, 0.355639f, -0.8209029f, 0.7032294f, 0.05037781f,
         -0.07861801f},
        {0.3083053f, -0.2026921f, 0.5135794f, 0.3817411f, -0.7662129f, 0.6840545f, 0.04116328f,
         -0.04397252f},
        {0.2721342f, -0.1489953f, 0.4194835f, 0.4035774f, -0.7148892f, 0.6639327f, 0.03508619f,
         -0.01229641f}}},
  };
}

std::vector<Tensor> Batch() {
  return {Tensor::Of<float>({6, 3},
                            {1, 2, -1, 0.5, -1, 2, -2, 1, 0, 3, 0.25, 1, -1, -1, -1, 0, 2, 0.5}),
          Tensor::Of<float>({6, 2}, {1, 0, 2, -1, 0.5, 0.5, -1, 3, 0, 1, -2, 2})};
}

// A variable with the initial value `value`.
Variable VariableOf(const Scope& scope, absl::string_view name, const Tensor& value,
                    const VariableOptions& options = {}) {
  auto initial = [value](const Scope& s, const Shape&, DataType) { return ops::Const(s, value); };
  return CreateVariable(scope, name, value.shape(), initial, value.dtype(), options);
}

// A linear regression, as in make_optimizer_steps.py.
struct Regression {
  std::unique_ptr<Session> session;
  Step step;
  int replicas = 1;

  // Runs a step and returns w followed by b.
  std::vector<float> Run(const std::vector<Tensor>& batch) {
    EXPECT_TRUE(step.Run(batch).ok());
    std::vector<float> values;
    for (const char* name : {"w", "b"}) {
      const Tensor value = *session->ReadVariable(name);
      values.insert(values.end(), value.flat<float>().begin(), value.flat<float>().end());
    }
    return values;
  }
  std::vector<Tensor> AllVariables() const {
    std::vector<Tensor> values;
    for (const VariableInfo& v : session->state().layout().variables()) {
      for (int r = 0; r < replicas; ++r) values.push_back(*session->ReadVariable(v.name, r));
    }
    return values;
  }
};

absl::StatusOr<Regression> MakeRegression(const OptimizerCase& c, int replicas) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 3});
  const Output y = ops::Placeholder(root.WithName("y"), DT_FLOAT, {-1, 2});
  const Variable w =
      VariableOf(root, "w", Tensor::Of<float>({3, 2}, {0.5, -0.5, 1, 0.25, -1, 0.75}));
  const Variable b = VariableOf(root, "b", Tensor::Of<float>({2}, {0.1, -0.2}));
  const Output prediction = ops::BiasAdd(root, ops::MatMul(root, x, w.value), b.value);
  const Output loss = losses::MeanSquaredError(root, prediction, y);
  const Operation train = c.optimizer->Minimize(root, loss, {.clip_norm = c.clip_norm});
  Regression regression;
  regression.replicas = replicas;
  MF_ASSIGN_OR_RETURN(regression.session, CreateTestSession(graph, {.replicas = replicas}));
  MF_ASSIGN_OR_RETURN(regression.step, regression.session->Prepare({x, y}, {loss}, {train}));
  return regression;
}

class OptimizerTest : public ::testing::TestWithParam<std::tuple<OptimizerCase, int>> {
 protected:
  const OptimizerCase& Case() const { return std::get<0>(GetParam()); }
  int Replicas() const { return std::get<1>(GetParam()); }

  void ExpectAfterStep(int step, const std::vector<float>& got) const {
    EXPECT_EQ(Difference(Tensor::Vector<float>(Case().after[step]), Tensor::Vector<float>(got),
                         kRounding),
              "")
        << "step " << step + 1;
  }
};

// With 7 replicas, one has no rows.
INSTANTIATE_TEST_SUITE_P(Replicas, OptimizerTest,
                         ::testing::Combine(::testing::ValuesIn(Cases()),
                                            ::testing::Values(1, 2, 3, 7)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param).name,
                                               std::get<1>(info.param));
                         });

TEST_P(OptimizerTest, StepsMatchKeras) {
  absl::StatusOr<Regression> regression = MakeRegression(Case(), Replicas());
  ASSERT_TRUE(regression.ok()) << regression.status();
  for (int i = 0; i < kSteps; ++i) ExpectAfterStep(i, regression->Run(Batch()));
}

TEST_P(OptimizerTest, StepWithNonFiniteLossChangesNothingAndDoesNotCount) {
  absl::StatusOr<Regression> regression = MakeRegression(Case(), Replicas());
  ASSERT_TRUE(regression.ok()) << regression.status();
  for (int i = 0; i < kSteps; ++i) {
    const std::vector<Tensor> before = regression->AllVariables();
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e30f}) {
      std::vector<Tensor> batch = Batch();
      batch[1].data<float>()[2 * i] = bad;  // on one replica; the square of 1e30 overflows
      regression->Run(batch);
      const std::vector<Tensor> after = regression->AllVariables();
      for (size_t v = 0; v < before.size(); ++v) {
        EXPECT_TRUE(Tensor::Identical(before[v], after[v])) << "variable " << v << ", " << bad;
      }
    }
    ExpectAfterStep(i, regression->Run(Batch()));
  }
}

std::vector<std::string> VariableNames(const Optimizer& optimizer) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 3});
  const Output y = layers::Dense(root, x, 2);
  optimizer.Minimize(root, losses::MeanSquaredError(root, y, y));
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  std::vector<std::string> names;
  for (const Node* node : graph.Nodes()) {
    if (node->op().role == OpRole::kVariable) names.push_back(node->name());
  }
  return names;
}

// Checkpoints hold these names.
TEST(OptimizerSlotsTest, SlotsAreNamedAfterTheirVariable) {
  using ::testing::ElementsAre;
  using ::testing::UnorderedElementsAre;
  EXPECT_THAT(VariableNames(SGD({})), ElementsAre("dense/kernel", "dense/bias"));
  EXPECT_THAT(VariableNames(Momentum({})),
              UnorderedElementsAre("dense/kernel", "dense/bias", "train/dense/kernel/momentum",
                                   "train/dense/bias/momentum"));
  EXPECT_THAT(VariableNames(Adam({})),
              UnorderedElementsAre("dense/kernel", "dense/bias", "train/dense/kernel/m",
                                   "train/dense/kernel/v", "train/dense/bias/m",
                                   "train/dense/bias/v", "train/beta1_power", "train/beta2_power"));
}

TEST(MinimizeTest, UpdatesOnlyRequestedTrainableVariables) {
  Graph graph;
  const Scope root(&graph);
  const Tensor one = Tensor::Scalar<float>(1);
  const Variable a = VariableOf(root, "a", one), b = VariableOf(root, "b", one);
  const Variable fixed = VariableOf(root, "fixed", one, {.trainable = false});
  VariableOf(root, "unused", one);
  const Output loss =
      ops::Mul(root, ops::Mul(root, a.value, b.value), fixed.value);  // each gradient is 1
  const Operation all = SGD({0.5}).Minimize(root, loss);
  const Operation only_b = SGD({0.5}).Minimize(root, loss, {.variables = {b.handle}});
  const auto session = CreateTestSession(graph, {});
  ASSERT_TRUE(session.ok()) << session.status();
  auto value = [&](absl::string_view name) {
    return (*session)->ReadVariable(name)->scalar<float>();
  };
  ASSERT_TRUE((*session)->Run({}, {}, {only_b}).ok());
  EXPECT_EQ(value("a"), 1);
  EXPECT_EQ(value("b"), 0.5);
  ASSERT_TRUE((*session)->Run({}, {}, {all}).ok());
  EXPECT_EQ(value("a"), 0.75);
  EXPECT_EQ(value("b"), 0);
  EXPECT_EQ(value("fixed"), 1);
  EXPECT_EQ(value("unused"), 1);
}

TEST(MinimizeTest, RejectsNonScalarLossAndLossWithoutVariables) {
  for (const bool scalar : {false, true}) {
    Graph graph;
    const Scope root(&graph);
    const Variable v = VariableOf(root, "v", Tensor::Of<float>({2}, {1, 2}));
    const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, Shape());
    const Operation train = SGD({}).Minimize(root, scalar ? ops::Square(root, x) : v.value);
    EXPECT_FALSE(train.valid());
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(graph.status().message()),
                HasSubstr(scalar ? "minimize(Square): no gradient of the loss reaches a variable"
                                 : "expected a scalar loss, got shape [2]"));
  }
}

// Clips the gradients `values`.
std::vector<Tensor> Clip(const std::vector<Tensor>& values, double clip_norm) {
  Graph graph;
  const Scope root(&graph);
  std::vector<GradientAndVariable> gradients;
  std::vector<std::pair<Output, Tensor>> feeds;
  for (const Tensor& value : values) {
    const Output g = ops::Placeholder(root, value.dtype(), value.shape());
    gradients.push_back({g, Output()});
    feeds.push_back({g, value});
  }
  std::vector<Output> clipped;
  for (const auto& gv : ClipByGlobalNorm(root, gradients, clip_norm)) {
    clipped.push_back(gv.gradient);
  }
  const auto session = CreateTestSession(graph, {});
  EXPECT_TRUE(session.ok()) << session.status();
  const auto result = (*session)->Run(feeds, clipped);
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

TEST(ClipByGlobalNormTest, KeepsGradientsBelowLimit) {
  const std::vector<Tensor> gradients = {Tensor::Of<float>({2}, {3, 0}),
                                         Tensor::Of<float>({1, 2}, {0.1f, -4})};
  for (const double limit : {5.1, 1e6}) {
    const std::vector<Tensor> clipped = Clip(gradients, limit);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(Tensor::Identical(gradients[i], clipped[i])) << limit;
  }
}

TEST(ClipByGlobalNormTest, ScalesAllGradientsByOneFactorAboveLimit) {
  const std::vector<Tensor> clipped =
      Clip({Tensor::Of<double>({2}, {3, 0}), Tensor::Of<double>({1, 2}, {0, -4})}, 0.5);
  const Tolerance rounding{.relative = 1e-14};
  EXPECT_EQ(Difference(Tensor::Of<double>({2}, {0.3, 0}), clipped[0], rounding), "");
  EXPECT_EQ(Difference(Tensor::Of<double>({1, 2}, {0, -0.4}), clipped[1], rounding), "");
}

TEST(ClipByGlobalNormTest, ZeroGradientsStayZero) {
  const std::vector<Tensor> zero = {Tensor::Of<float>({2}, {0, 0})};
  EXPECT_TRUE(Tensor::Identical(Clip(zero, 1)[0], zero[0]));
}

}  // namespace
}  // namespace mirrorflow
