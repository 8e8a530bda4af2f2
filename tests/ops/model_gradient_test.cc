// SPDX-License-Identifier: Apache-2.0
//
// Compares a whole model's gradient with central differences, in double precision. Tests of single
// ops do not cover how gradients are combined.
#include <cmath>

#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/bias_add.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/gradients.h"
#include "ops/matmul.h"
#include "ops/reduction.h"
#include "ops/softmax_xent.h"
#include "ops/unary.h"
#include "ops/variable.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

constexpr double kStep = 1e-5;

// A two-layer network with shared weights and weight decay.
class Model {
 public:
  Model() {
    const Scope root(&graph_);
    const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 4});
    const Output labels = ops::Placeholder(root.WithName("labels"), DT_INT32, {-1});
    Random random(1);
    feeds_ = {{x, RandomTensor(DT_FLOAT, {5, 4}, &random)},
              {labels, RandomTensor(DT_INT32, {5}, &random, 4)}};
    handles_ = {ops::VarHandleOp(root.WithName("w"), DT_FLOAT, {4, 4}),
                ops::VarHandleOp(root.WithName("b"), DT_FLOAT, {4})};
    Output h = x;
    for (int layer = 0; layer < 2; ++layer) {
      const Output w = ops::ReadVariableOp(root, handles_[0]);
      const Output b = ops::ReadVariableOp(root, handles_[1]);
      h = ops::Tanh(root, ops::BiasAdd(root, ops::MatMul(root, h, w), b));
    }
    const Output xent = ops::SparseSoftmaxCrossEntropyWithLogits(root, h, labels).loss;
    const Output w = ops::ReadVariableOp(root, handles_[0]);
    const Output decay = ops::Mul(root, ops::ScalarConst(root, DT_FLOAT, 0.25),
                                  ops::Sum(root, ops::Square(root, w), {0, 1}));
    loss_ = ops::Add(root, ops::Mean(root, xent, {0}), decay);
    const auto gradients = Gradients(root, {loss_}, handles_);
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    if (gradients.ok()) gradients_ = *gradients;
    absl::StatusOr<Interpreter> interpreter =
        Interpreter::Create(graph_, CpuKernels(), {.in_double = true});
    EXPECT_TRUE(interpreter.ok()) << interpreter.status();
    interpreter_.emplace(*std::move(interpreter));
    interpreter_->variables() = {{"w", RandomTensor(DT_DOUBLE, {4, 4}, &random)},
                                 {"b", RandomTensor(DT_DOUBLE, {4}, &random)}};
  }

  Tensor Value(const Output& output) {
    const auto values = interpreter_->Run(feeds_, {output});
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? (*values)[0] : Tensor::Scalar(std::nan(""));
  }
  Tensor Gradient(int variable) { return Value(gradients_[variable]); }
  double LossWith(const char* variable, int64_t element, double change) {
    double& x = interpreter_->variables()[variable].flat<double>()[element];
    const double before = x;
    x += change;
    const double loss = Value(loss_).scalar<double>();
    interpreter_->variables()[variable].flat<double>()[element] = before;
    return loss;
  }

 private:
  Graph graph_;
  std::vector<std::pair<Output, Tensor>> feeds_;
  std::vector<Output> handles_;
  Output loss_;
  std::vector<Output> gradients_;
  std::optional<Interpreter> interpreter_;
};

TEST(ModelGradientTest, SharedWeightsMatchCentralDifferences) {
  Model model;
  const char* const variables[] = {"w", "b"};
  for (int v = 0; v < 2; ++v) {
    const Tensor gradient = model.Gradient(v);
    for (int64_t i = 0; i < gradient.num_elements(); ++i) {
      const double difference =
          model.LossWith(variables[v], i, kStep) - model.LossWith(variables[v], i, -kStep);
      EXPECT_NEAR(gradient.flat<double>()[i], difference / (2 * kStep), 1e-8)
          << variables[v] << "[" << i << "]";
    }
  }
}

}  // namespace
}  // namespace mirrorflow
