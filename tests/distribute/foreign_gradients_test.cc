// SPDX-License-Identifier: Apache-2.0
//
// Runs gradient graphs of single ops, written by TensorFlow's tf.gradients
// (tests/references/make_gradient_graphs.py), and compares the results with TensorFlow's.
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/graph_def.h"
#include "gtest/gtest.h"
#include "ops/registry.h"
#include "tests/support/op_cases.h"
#include "tests/support/op_checks.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

constexpr char kFolder[] = "tests/references";

// Returns the GraphDef of each case, keyed by the prefix of its node names.
absl::StatusOr<std::map<std::string, proto::GraphDef>> ReadGraphs(const std::string& family) {
  std::ifstream file(absl::StrCat(kFolder, "/gradients/", family, ".pb"));
  proto::GraphDef together;
  if (!together.ParseFromIstream(&file)) return absl::InvalidArgumentError("no GraphDef");
  std::map<std::string, proto::GraphDef> graphs;
  for (proto::NodeDef& node : *together.mutable_node()) {
    const std::string prefix = node.name().substr(0, node.name().find('/') + 1);
    *graphs[prefix].add_node() = std::move(node);
  }
  return graphs;
}

// Evaluates the outputs `grad<k>` of a case at its operands, on `replicas` replicas.
absl::StatusOr<std::vector<Tensor>> RunCase(const proto::GraphDef& def, const std::string& prefix,
                                            const OpCase& op_case, int replicas) {
  MF_ASSIGN_OR_RETURN(const Graph graph, FromGraphDef(def, AllOps()));
  std::vector<std::pair<Output, Tensor>> feeds;
  bool splits = false;  // whether a feed is sharded over the replicas
  std::vector<Output> fetches;
  const auto feed = [&](absl::string_view name, const Tensor& value) {
    const Node* node = graph.FindNode(absl::StrCat(prefix, name));
    if (node == nullptr || node->op().role != OpRole::kPlaceholder) return;
    feeds.emplace_back(node->output(0), value);
    const Shape& shape = node->attr<Shape>("shape");
    splits = splits || shape.unknown_rank() || (shape.rank() > 0 && shape.dim(0) == kUnknownDim);
  };
  for (size_t k = 0; k < op_case.operands.size(); ++k) {
    feed(absl::StrCat("in", k), op_case.operands[k].value);
  }
  for (size_t k = 0; k < op_case.dy.size(); ++k) feed(absl::StrCat("dy", k), op_case.dy[k]);
  for (size_t k = 0; k < op_case.gradients.size(); ++k) {
    if (!op_case.gradients[k].has_value()) continue;
    const Node* node = graph.FindNode(absl::StrCat(prefix, "grad", k));
    if (node == nullptr) return absl::NotFoundError(absl::StrCat(prefix, "grad", k));
    fetches.push_back(node->output(0));
  }
  MF_ASSIGN_OR_RETURN(const auto session,
                      CreateTestSession(graph, {.replicas = splits ? replicas : 1}));
  return session->Run(feeds, fetches);
}

std::string Compare(const OpCase& op_case, absl::Span<const Tensor> got) {
  size_t i = 0;
  for (const Tensor& want : op_case.gradients) {
    if (!want.has_value()) continue;
    const std::string difference = Difference(want, got[i++], ToleranceOfKnownGradient(want));
    if (!difference.empty()) return difference;
  }
  return "";
}

struct Param {
  const char* family;
  int replicas;
};

class ForeignGradientsTest : public testing::TestWithParam<Param> {};

TEST_P(ForeignGradientsTest, GradientGraphsMatchTensorFlow) {
  const auto graphs = ReadGraphs(GetParam().family);
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  const std::string file = absl::StrCat(GetParam().family, ".txt");
  std::stringstream text;
  text << std::ifstream(absl::StrCat(kFolder, "/cases/", file)).rdbuf();
  const auto cases = ParseOpCases(text.str(), file);
  ASSERT_TRUE(cases.ok()) << cases.status();
  ASSERT_EQ(graphs->size(), cases->size());
  for (size_t i = 0; i < cases->size(); ++i) {
    const std::string prefix = absl::StrCat("c", i, "/");
    const auto got = RunCase(graphs->at(prefix), prefix, (*cases)[i], GetParam().replicas);
    EXPECT_TRUE(got.ok()) << (*cases)[i].ToString() << ": " << got.status();
    if (got.ok()) {
      EXPECT_EQ(Compare((*cases)[i], *got), "") << (*cases)[i].ToString();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Graphs, ForeignGradientsTest,
                         testing::Values(Param{"gradients", 1}, Param{"gradients", 3},
                                         Param{"array_gradients", 1}, Param{"array_gradients", 3},
                                         Param{"batch_norm_gradients", 1},
                                         Param{"batch_norm_gradients", 3}),
                         [](const auto& info) {
                           return absl::StrCat(info.param.family, "_on_", info.param.replicas);
                         });

}  // namespace
}  // namespace mirrorflow
