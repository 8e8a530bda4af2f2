// SPDX-License-Identifier: Apache-2.0
//
// A training graph that TensorFlow wrote (tests/references/make_mlp_training.py) trains here, on
// any number of replicas, to TensorFlow's single-device numbers.
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
#include "framework/graph/text_parser.h"
#include "gtest/gtest.h"
#include "ops/registry.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

constexpr char kGraph[] = "tests/references/mlp_training.pb";
constexpr char kNumbers[] = "tests/references/mlp_training.txt";
constexpr Tolerance kTolerance{.relative = 1e-4, .absolute = 1e-6};

struct Numbers {
  std::map<std::string, Tensor> feeds;
  std::map<int, Tensor> losses;                             // by step
  std::map<std::pair<std::string, int>, Tensor> variables;  // by name and step
};

absl::StatusOr<Numbers> ReadNumbers() {
  Numbers numbers;
  std::ifstream file(kNumbers);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "feed") {
      const std::string literal = line.substr(absl::StrCat("feed ", words[1], " ").size());
      MF_ASSIGN_OR_RETURN(numbers.feeds[words[1]], ParseTensorLiteral(literal));
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

class ForeignGraphTest : public testing::TestWithParam<int> {};

TEST_P(ForeignGraphTest, TrainsToTensorFlowsNumbers) {
  const absl::StatusOr<Numbers> numbers = ReadNumbers();
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  ASSERT_EQ(numbers->losses.size(), 5u);
  ASSERT_EQ(numbers->variables.size(), 24u);
  const absl::StatusOr<Graph> graph = ReadGraphFile(kGraph, AllOps());
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto session = CreateTestSession(*graph, {.replicas = GetParam()});
  ASSERT_TRUE(session.ok()) << session.status();
  const std::vector<Output> feeds = {graph->FindNode("images")->output(0),
                                     graph->FindNode("labels")->output(0)};
  auto step = (*session)->Prepare(feeds, {graph->FindNode("loss")->output(0)},
                                  {{graph->FindNode("train")}});
  ASSERT_TRUE(step.ok()) << step.status();
  const std::vector<Tensor> values = {numbers->feeds.at("images"), numbers->feeds.at("labels")};
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

INSTANTIATE_TEST_SUITE_P(Replicas, ForeignGraphTest, testing::Values(1, 2, 4));

}  // namespace
}  // namespace mirrorflow
