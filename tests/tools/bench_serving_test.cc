// SPDX-License-Identifier: Apache-2.0
//
// Tests that concurrent requests of several clients get the same answers as sequential requests.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/variable_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/is_error.h"
#include "tests/support/test_session.h"
#include "tools/bench/statistics.h"
#include "tools/bench/training_case.h"

namespace mirrorflow {
namespace {

// Returns a different example for each client, to detect answers that reach the wrong client.
absl::StatusOr<Tensor> ExampleOf(const ReadyStep& s, int client) {
  MF_ASSIGN_OR_RETURN(Tensor example, Tensor::Allocate(DT_FLOAT, s.feeds[0].shape()));
  for (int64_t i = 0; i < example.num_elements(); ++i) {
    example.flat<float>()[i] = s.feeds[0].flat<float>()[i] / static_cast<float>(1 + client);
  }
  return example;
}

// Returns the logits of the interpreter, which runs the graph as written, node by node.
absl::StatusOr<Tensor> ReferenceLogits(const ReadyStep& s, const std::string& model,
                                       const Tensor& example) {
  MF_ASSIGN_OR_RETURN(const TrainingGraph g, BuildTraining(*s.strategy, model));
  MF_ASSIGN_OR_RETURN(Interpreter reference, Interpreter::Create(g.graph, TestKernels()));
  for (const VariableInfo& variable : s.session->layout().variables()) {
    MF_ASSIGN_OR_RETURN(reference.variables()[variable.name],
                        s.session->ReadVariable(variable.name));
  }
  MF_ASSIGN_OR_RETURN(const std::vector<Tensor> out,
                      reference.Run({{g.inputs, example}}, {g.logits}, {}));
  return out[0];
}

class Served : public testing::TestWithParam<const char*> {};

TEST_P(Served, TwoClientsGetTheirOwnLogits) {
  constexpr int kClients = 2;
  auto s = PrepareServing(GetParam());
  ASSERT_TRUE(s.ok()) << s.status();
  std::vector<Tensor> examples, logits;
  for (int client = 0; client < kClients; ++client) {
    const auto example = ExampleOf(*s, client);
    ASSERT_TRUE(example.ok()) << example.status();
    const auto want = ReferenceLogits(*s, GetParam(), *example);
    ASSERT_TRUE(want.ok()) << want.status();
    const auto got = s->step.Run({*example});
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ((*got)[0].shape(), Shape({1, 10}));
    for (int i = 0; i < 10; ++i) {
      EXPECT_NEAR((*got)[0].flat<float>()[i], want->flat<float>()[i], 1e-4) << i;
    }
    examples.push_back(*example);
    logits.push_back((*got)[0]);
  }
  const auto load = RunClosedLoop(kClients, absl::Milliseconds(200), [&](int client) {
    const auto got = s->step.Run({examples[client]});
    if (!got.ok()) return got.status();
    if (Tensor::Identical((*got)[0], logits[client])) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("client ", client, " got different logits"));
  });
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_GE(load->requests, kClients);
  EXPECT_GE(load->seconds, 0.2);
  EXPECT_GT(load->p50_ms, 0);
  EXPECT_GE(load->p99_ms, load->p50_ms);
}

INSTANTIATE_TEST_SUITE_P(Models, Served, testing::Values("mlp", "cnn", "lstm"));

TEST(PrepareServingTest, RejectsModelWithoutLogits) {
  EXPECT_THAT(PrepareServing("chain").status(),
              IsError(absl::StatusCode::kInvalidArgument, "classifier", "got 'chain'"));
}

}  // namespace
}  // namespace mirrorflow
