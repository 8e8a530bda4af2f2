// SPDX-License-Identifier: Apache-2.0
//
// Tests that the graphs in README.md are those that the compiler produces for the model named
// there.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/core/status.h"
#include "framework/session/step_plans.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/test_session.h"
#include "train/layers/layers.h"
#include "train/losses/losses.h"
#include "train/optimizers/optimizers.h"

namespace mirrorflow {
namespace {

using Lines = std::vector<std::string>;

// Returns the code block after the first line of README.md that starts with `lead`.
Lines BlockAfter(absl::string_view lead) {
  std::ifstream file("README.md");
  Lines block;
  int fences = -1;  // fences before the lead do not count
  for (std::string line; fences < 2 && std::getline(file, line);) {
    if (absl::StartsWith(line, lead)) fences = 0;
    if (fences < 0) continue;
    if (line == "```") {
      ++fences;
    } else if (fences == 1) {
      block.push_back(line);
    }
  }
  return block;
}

// Returns the program for one dense layer with mean squared error and a global batch of 8, as
// lines.
absl::StatusOr<Lines> ProgramOf(int replicas) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 4});
  const Output y = ops::Placeholder(root.WithName("y"), DT_FLOAT, {-1, 1});
  const Output predictions = layers::Dense(root, x, 1, nullptr, {.use_bias = false});
  const Output loss = losses::MeanSquaredError(root, predictions, y);
  const Operation train = GradientDescent({.learning_rate = 0.1}).Minimize(root, loss);
  MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(graph, {.replicas = replicas}));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({x, y}, {loss}, {train}));
  MF_ASSIGN_OR_RETURN(const StepPlans plans, CompileStep(step, {Shape({8, 4}), Shape({8, 1})}));
  return Lines(absl::StrSplit(plans.program->ToString(), '\n'));
}

// Returns whether `shown` is `line` without the attributes.
bool Shows(const std::string& shown, const std::string& line) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(shown, absl::MaxSplits("  # ", 1));
  return (line + " ").rfind(parts.first + " ", 0) == 0 && absl::EndsWith(line, parts.second);
}

void ExpectInOrder(const Lines& shown, const Lines& program) {
  ASSERT_FALSE(shown.empty());
  auto from = program.begin();
  for (const std::string& line : shown) {
    const auto at = std::find_if(from, program.end(),
                                 [&](const std::string& real) { return Shows(line, real); });
    ASSERT_NE(at, program.end()) << line << "\nis missing, or out of order, in\n"
                                 << absl::StrJoin(program, "\n");
    from = at + 1;
  }
}

TEST(ReadmeTest, GraphOfOneDeviceMatchesCompiler) {
  const auto program = ProgramOf(1);
  ASSERT_TRUE(program.ok()) << program.status();
  ExpectInOrder(BlockAfter("`Program::ToString()` shows"), *program);
}

TEST(ReadmeTest, GraphUnderStrategyMatchesCompilerForAnyReplicaCount) {
  for (int replicas : {2, 3}) {
    const auto program = ProgramOf(replicas);
    ASSERT_TRUE(program.ok()) << program.status();
    ExpectInOrder(BlockAfter("This is the same graph under"), *program);
  }
}

}  // namespace
}  // namespace mirrorflow
