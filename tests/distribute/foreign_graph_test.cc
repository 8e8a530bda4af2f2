// SPDX-License-Identifier: Apache-2.0
//
// Training graphs written by TensorFlow (tests/references/make_training_graphs.py) give
// TensorFlow's single-device results on any number of replicas.
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/core/status.h"
#include "framework/graph/graph_file.h"
#include "framework/session/step_plans.h"
#include "gtest/gtest.h"
#include "ops/registry.h"
#include "tests/support/literals.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

constexpr Tolerance kTolerance{.relative = 1e-4, .absolute = 1e-6};

struct Numbers {
  std::string fetch, target;
  std::vector<std::pair<std::string, Tensor>> feeds;
  std::map<int, Tensor> losses;                             // by step
  std::map<std::pair<std::string, int>, Tensor> variables;  // by name and step
};

absl::StatusOr<Numbers> ReadNumbers(const std::string& path) {
  Numbers numbers;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "fetch") {
      numbers.fetch = words[1];
    } else if (words[0] == "target") {
      numbers.target = words[1];
    } else if (words[0] == "feed") {
      const std::string literal = line.substr(absl::StrCat("feed ", words[1], " ").size());
      MF_ASSIGN_OR_RETURN(Tensor value, ParseTensorLiteral(literal));
      numbers.feeds.emplace_back(words[1], std::move(value));
    } else if (words[0] == "loss") {
      const std::string literal = line.substr(absl::StrCat("loss ", words[1], " ").size());
      MF_ASSIGN_OR_RETURN(numbers.losses[std::stoi(words[1])], ParseTensorLiteral(literal));
    } else if (words[0] == "variable") {
      const std::string head = absl::StrCat("variable ", words[1], " step ", words[3], " ");
      MF_ASSIGN_OR_RETURN((numbers.variables[{words[1], std::stoi(words[3])}]),
                          ParseTensorLiteral(line.substr(head.size())));
    }
  }
  return numbers;
}

struct Case {
  const char* name;
  int replicas;
};

class ForeignGraphTest : public testing::TestWithParam<Case> {};

TEST_P(ForeignGraphTest, TrainingMatchesTensorFlow) {
  const std::string path = absl::StrCat("tests/references/training/", GetParam().name);
  const absl::StatusOr<Numbers> numbers = ReadNumbers(path + ".txt");
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  ASSERT_EQ(numbers->losses.size(), 5u);
  ASSERT_GE(numbers->variables.size(), 4u);
  const absl::StatusOr<Graph> graph = ReadGraphFile(path + ".pb", AllOps());
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto session = CreateTestSession(*graph, {.replicas = GetParam().replicas});
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<Output> feeds;
  std::vector<Tensor> values;
  for (const auto& [name, value] : numbers->feeds) {
    feeds.push_back(graph->FindNode(name)->output(0));
    values.push_back(value);
  }
  auto step = (*session)->Prepare(feeds, {graph->FindNode(numbers->fetch)->output(0)},
                                  {{graph->FindNode(numbers->target)}});
  ASSERT_TRUE(step.ok()) << step.status();
  // Replicas exchange only sums.
  std::vector<Shape> shapes;
  for (const Tensor& value : values) shapes.push_back(value.shape());
  const auto plans = CompileStep(*step, shapes);
  ASSERT_TRUE(plans.ok()) << plans.status();
  for (const PlannedCollective& c : plans->plans[0]->collectives) {
    EXPECT_TRUE(c.is<PlannedAllReduce>() || c.update() != nullptr) << c.name;
  }
  for (int s = 1; s <= 5; ++s) {
    const auto out = step->Run(values);
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(Difference(numbers->losses.at(s), (*out)[0], kTolerance), "") << "loss " << s;
    for (const auto& [key, want] : numbers->variables) {
      if (key.second != s) continue;
      const auto got = (*session)->ReadVariable(key.first);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(Difference(want, *got, kTolerance), "") << key.first << " after step " << s;
    }
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* name : {"linear_gradient_descent", "mlp_momentum",       "cnn_adam",
                           "batch_norm_rmsprop",      "lstm_adagrad",       "keras_mlp_sgd",
                           "keras_mlp_adam",          "keras_mlp_adagrad",  "keras_mlp_rmsprop",
                           "keras_mlp_nesterov",      "keras_mlp_adamw",    "keras_mlp_nadam",
                           "keras_mlp_adamax",        "keras_mlp_adadelta", "keras_cnn_adam",
                           "keras_mlp_accumulating",  "keras_mlp_looping",  "keras_mlp_dropout",
                           "keras_mlp_noise",         "keras_lstm_sgd",     "keras_gru_adam",
                           "keras_simple_rnn_rmsprop"}) {
    for (int replicas : {1, 2, 4}) cases.push_back({name, replicas});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Graphs, ForeignGraphTest, testing::ValuesIn(Cases()),
                         [](const auto& info) {
                           return absl::StrCat(info.param.name, "_on_", info.param.replicas);
                         });

}  // namespace
}  // namespace mirrorflow
