// SPDX-License-Identifier: Apache-2.0
//
// Files from outside never end the process: training graphs of TensorFlow, changed at random as
// bytes and as messages, are refused with an error or run. MIRRORFLOW_MUTATIONS and
// MIRRORFLOW_FIRST_SEED in the environment choose others.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/graph_def.h"
#include "gtest/gtest.h"
#include "ops/registry.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

constexpr int64_t kMaxBytes = 64 << 20;  // of variables, and of a step

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::vector<std::string> RealGraphs() {
  std::vector<std::string> graphs;
  for (const char* name : {"linear_gradient_descent", "mlp_momentum", "cnn_adam", "lstm_adagrad",
                           "batch_norm_rmsprop", "keras_mlp_sgd", "keras_cnn_adam"}) {
    std::ifstream in(absl::StrCat("tests/references/training/", name, ".pb"), std::ios::binary);
    graphs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return graphs;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  size_t Below(size_t n) { return n == 0 ? 0 : random_() % n; }

  std::string Bytes(std::string bytes) {
    for (size_t i = 0; i <= Below(4); ++i) {
      const size_t at = Below(bytes.size()), length = Below(40);
      switch (Below(4)) {
        case 0:
          bytes[at] = static_cast<char>(random_());
          break;
        case 1:
          bytes.erase(at, length);
          break;
        case 2:
          bytes.insert(at, bytes.substr(Below(bytes.size()), length));
          break;
        case 3:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(8)));
          break;
      }
    }
    return bytes;
  }

  // Stays a GraphDef, and so comes further.
  void Message(proto::GraphDef& def) {
    for (size_t i = 0; i <= Below(3); ++i) {
      auto& nodes = Below(3) == 0 && def.library().function_size() > 0
                        ? *def.mutable_library()
                               ->mutable_function(Below(def.library().function_size()))
                               ->mutable_node_def()
                        : *def.mutable_node();
      if (nodes.empty()) continue;
      proto::NodeDef& node = nodes[static_cast<int>(Below(nodes.size()))];
      const proto::NodeDef& other = nodes[static_cast<int>(Below(nodes.size()))];
      switch (Below(6)) {
        case 0:
          node.set_op(other.op());
          break;
        case 1:
          *node.mutable_input() = other.input();
          break;
        case 2:
          if (node.input_size() > 0) {
            node.set_input(static_cast<int>(Below(node.input_size())), other.name());
          }
          break;
        case 3:
          for (const std::string& name : AttrNames(node)) {
            const auto from = other.attr().find(name);
            if (from != other.attr().end()) {
              const proto::AttrValue value = from->second;
              (*node.mutable_attr())[name] = value;
            }
          }
          break;
        case 4:
          for (const std::string& name : AttrNames(node)) Number((*node.mutable_attr())[name]);
          break;
        case 5:
          nodes.DeleteSubrange(static_cast<int>(Below(nodes.size())), 1);
          break;
      }
    }
  }

 private:
  // A map of a message has another order in each process.
  static std::set<std::string> AttrNames(const proto::NodeDef& node) {
    std::set<std::string> names;
    for (const auto& [name, value] : node.attr()) names.insert(name);
    return names;
  }

  void Number(proto::AttrValue& value) {
    const int64_t odd[] = {0, -1, 1, 2, 7, 1 << 20, int64_t{1} << 40, INT64_MAX, INT64_MIN};
    const int64_t number = odd[Below(std::size(odd))];
    if (value.value_case() == proto::AttrValue::kI) value.set_i(number);
    if (value.value_case() == proto::AttrValue::kB) value.set_b(!value.b());
    if (value.value_case() == proto::AttrValue::kType) {
      value.set_type(static_cast<proto::DataType>(Below(24)));
    }
    auto* shape = value.has_shape()    ? value.mutable_shape()
                  : value.has_tensor() ? value.mutable_tensor()->mutable_tensor_shape()
                                       : nullptr;
    if (shape != nullptr && shape->dim_size() > 0) {
      shape->mutable_dim(static_cast<int>(Below(shape->dim_size())))->set_size(number);
    }
    if (value.list().i_size() > 0) {
      value.mutable_list()->set_i(static_cast<int>(Below(value.list().i_size())), number);
    }
  }

  std::mt19937_64 random_;
};

// Runs everything that the graph offers on ones. Any error will do.
absl::Status RunAll(const Graph& graph, int replicas) {
  int64_t bytes = 0;
  StepSignature step;
  std::vector<Tensor> values;
  for (Node* node : graph.Nodes()) {
    const OpRole role = node->op().role;
    if (role == OpRole::kVariable) {
      const Shape& shape = node->attr<Shape>("shape");
      if (!shape.IsFullyDefined()) continue;
      bytes += std::min(shape.num_elements(), kMaxBytes) * 8;
    } else if (role == OpRole::kPlaceholder && node->num_inputs() == 0) {
      Shape shape = node->attr<Shape>("shape");
      if (shape.unknown_rank()) continue;
      for (int d = 0; d < shape.rank(); ++d) {
        if (shape.dim(d) == kUnknownDim) shape.set_dim(d, d == 0 ? 12 : 1);
      }
      if (!shape.Validate(node->output_dtype(0)).ok() || shape.num_elements() > kMaxBytes / 8) {
        continue;
      }
      MF_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(node->output_dtype(0), shape));
      if (value.dtype() == DT_FLOAT) std::fill_n(value.data<float>(), value.num_elements(), 1.0f);
      step.feeds.push_back(node->output(0));
      values.push_back(std::move(value));
    } else if (node->uses().empty() && role != OpRole::kUnknown) {
      if (node->num_outputs() == 0) step.targets.push_back(node);
      if (node->num_outputs() > 0 && node->output_dtype(0) != DT_RESOURCE) {
        step.fetches.push_back(node->output(0));
      }
    }
  }
  if (bytes > kMaxBytes) return absl::ResourceExhaustedError("variables");
  MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(graph, {.replicas = replicas}));
  std::vector<Operation> targets;
  for (Node* node : step.targets) targets.push_back({node});
  MF_ASSIGN_OR_RETURN(Step prepared, session->Prepare(step.feeds, step.fetches, targets));
  std::vector<Shape> shapes;
  for (const Tensor& value : values) shapes.push_back(value.shape());
  MF_ASSIGN_OR_RETURN(const StepPlans plans, prepared.Compile(shapes));
  if (plans.plans[0]->arena_bytes > kMaxBytes) return absl::ResourceExhaustedError("arena");
  return prepared.Run(values).status();
}

TEST(MutatedGraphsTest, AreRefusedOrRun) {
  const std::vector<std::string> graphs = RealGraphs();
  const uint64_t first = FromEnvironment("MIRRORFLOW_FIRST_SEED", 1);
  const uint64_t count = FromEnvironment("MIRRORFLOW_MUTATIONS", 400);
  int loaded = 0, ran = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Mutator mutate(seed);
    const std::string& bytes = graphs[mutate.Below(graphs.size())];
    proto::GraphDef def;
    if (seed % 3 == 0) {
      if (!def.ParseFromString(mutate.Bytes(bytes))) continue;
    } else {
      ASSERT_TRUE(def.ParseFromString(bytes));
      mutate.Message(def);
    }
    const absl::StatusOr<Graph> graph = FromGraphDef(def, AllOps());
    if (!graph.ok()) {
      EXPECT_FALSE(graph.status().message().empty());
      continue;
    }
    ++loaded;
    const absl::Status status = RunAll(*graph, 1 + static_cast<int>(mutate.Below(2)));
    EXPECT_NE(status.code(), absl::StatusCode::kInternal) << status;
    ran += status.ok();
  }
  std::printf("%d of %d loaded, %d ran\n", loaded, static_cast<int>(count), ran);
  EXPECT_GT(loaded, static_cast<int>(count) / 20);
  EXPECT_GT(ran, 0);
}

}  // namespace
}  // namespace mirrorflow
