// SPDX-License-Identifier: Apache-2.0
//
// If every replica needs only its shard of a partial value, one collective reduces and scatters it.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "mirrorflow_debug.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

constexpr int64_t kRows = 5;  // the batch is square, so that xᵀx has as many rows as x

struct Case {
  int replicas;
  bool by_columns;  // whether replicas take shards of dimension 1 instead of 0
  bool fetched;     // whether the whole value is also fetched
};

class ReduceScatterTest : public testing::TestWithParam<Case> {};

TEST_P(ReduceScatterTest, MatchesOneDevice) {
  const Case& c = GetParam();
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, kRows});
  const Output gram = ops::MatMul(root.WithName("gram"), x, x, {.transpose_a = true});
  const Output rows = c.by_columns ? ops::Transpose(root, x, {1, 0}) : x;
  const Output y = ops::Mul(root.WithName("y"), gram, rows);
  std::vector<Output> fetches = {y};
  if (c.fetched) fetches.push_back(gram);
  std::vector<float> values;
  for (int i = 0; i < kRows * kRows; ++i) values.push_back(static_cast<float>(i % 7 - 3));
  const Tensor feed = Tensor::Of<float>({kRows, kRows}, values);

  auto one = OneDeviceStrategy::Create().value();
  auto expected_session = one->NewSession(graph).value();
  const auto expected = expected_session->Prepare({x}, fetches, {}).value().Run({feed});
  ASSERT_TRUE(expected.ok()) << expected.status();
  auto strategy = MirroredStrategy::Create({.num_cpu_replicas = c.replicas}).value();
  auto session = strategy->NewSession(graph).value();
  Step step = session->Prepare({x}, fetches, {}).value();
  const std::string program = CompileStep(step, {feed.shape()})->program->ToString();
  EXPECT_EQ(program.find("ReduceScatter(") != std::string::npos, !c.fetched) << program;
  EXPECT_EQ(program.find("AllReduce(") != std::string::npos, c.fetched) << program;
  EXPECT_EQ(program.find("AllGather("), std::string::npos) << program;
  for (const std::vector<int64_t>& shares : {std::vector<int64_t>{}, [&] {
                                               std::vector<int64_t> last_has_all(
                                                   c.replicas, 0);  // the other replicas have none
                                               last_has_all.back() = kRows;
                                               return last_has_all;
                                             }()}) {
    const auto out = step.Run({feed}, {.replica_rows = shares});
    ASSERT_TRUE(out.ok()) << out.status();
    for (size_t i = 0; i < fetches.size(); ++i) {
      EXPECT_EQ(Difference((*expected)[i], (*out)[i], {}), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ReduceScatterTest,
                         testing::Values(Case{2, false, false}, Case{3, false, false},
                                         Case{3, true, false}, Case{3, false, true},
                                         Case{3, true, true}, Case{8, true, false}));

}  // namespace
}  // namespace mirrorflow
