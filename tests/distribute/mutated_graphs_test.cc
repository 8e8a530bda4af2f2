// SPDX-License-Identifier: Apache-2.0
//
// Untrusted files never crash the process: TensorFlow training graphs that are randomly mutated, as
// bytes or as protobuf messages, either run or are rejected with an error. The environment
// variables MIRRORFLOW_MUTATIONS and MIRRORFLOW_FIRST_SEED set how many mutations are tested and
// the seed of the first.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/graph/graph_def.h"
#include "gtest/gtest.h"
#include "ops/registry.h"
#include "tests/support/mutate_graph.h"
#include "tests/support/run_all.h"

namespace mirrorflow {
namespace {

constexpr int64_t kMaxBytes = 64 << 20;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::vector<std::string> RealGraphs() {
  std::vector<std::string> graphs;
  for (const char* name : {"linear_gradient_descent", "mlp_momentum", "cnn_adam", "lstm_adagrad",
                           "batch_norm_rmsprop", "keras_mlp_sgd", "keras_cnn_adam",
                           "keras_mlp_looping", "keras_mlp_accumulating", "keras_lstm_sgd"}) {
    std::ifstream in(absl::StrCat("tests/references/training/", name, ".pb"), std::ios::binary);
    graphs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return graphs;
}

TEST(MutatedGraphsTest, EachMutantIsRejectedOrRuns) {
  const std::vector<std::string> graphs = RealGraphs();
  const uint64_t first = FromEnvironment("MIRRORFLOW_FIRST_SEED", 1);
  const uint64_t count = FromEnvironment("MIRRORFLOW_MUTATIONS", 400);
  int loaded = 0, ran = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    GraphMutator mutate(seed);
    const std::string& bytes = graphs[mutate.Below(graphs.size())];
    proto::GraphDef def;
    if (seed % 3 == 0) {
      if (!def.ParseFromString(mutate.Bytes(bytes))) continue;
    } else {
      ASSERT_TRUE(def.ParseFromString(bytes));
      mutate.Message(def);
    }
    const absl::StatusOr<Graph> graph = FromGraphDef(def, AllOps(), {.max_bytes = kMaxBytes});
    if (!graph.ok()) {
      EXPECT_FALSE(graph.status().message().empty());
      continue;
    }
    ++loaded;
    const absl::Status status =
        RunAll(*graph, {.replicas = 1 + static_cast<int>(mutate.Below(2)), .max_bytes = kMaxBytes});
    EXPECT_NE(status.code(), absl::StatusCode::kInternal) << status;
    ran += status.ok();
  }
  std::printf("%d of %d loaded, %d ran\n", loaded, static_cast<int>(count), ran);
  EXPECT_GT(loaded, static_cast<int>(count) / 20);
  EXPECT_GT(ran, 0);
}

}  // namespace
}  // namespace mirrorflow
