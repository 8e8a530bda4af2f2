// SPDX-License-Identifier: Apache-2.0
#include "tests/train/layers/keras_case.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/core/status.h"
#include "framework/graph/gradients.h"
#include "gtest/gtest.h"
#include "ops/binary.h"
#include "ops/control.h"
#include "ops/registry.h"
#include "tests/support/sizes.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/formats/npz.h"
#include "train/graph_walk.h"
#include "train/inference.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

// The stored values are rounded from double precision; Mirrorflow's are float sums of up to 100
// products.
constexpr Tolerance kTolerance{2e-5, 1e-5};

// Returns the 64-bit FNV-1a hash.
uint64_t SeedOf(const std::string& name) {
  uint64_t seed = 0xcbf29ce484222325;
  for (const char c : name) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return seed;
}

Tensor Operand(const std::string& name, const KerasInput& input) {
  Random random(SeedOf(name));
  return input.limit == 0 ? RandomTensor(DT_FLOAT, input.shape, &random)
                          : RandomTensor(DT_INT32, input.shape, &random, input.limit);
}

// The outputs that a case fetches, and their names in the stored file.
struct Fetches {
  std::vector<std::string> names;
  std::vector<Output> outputs;

  void Add(std::string name, Output output) {
    names.push_back(std::move(name));
    outputs.push_back(output);
  }
};

// A case's graph.
struct Model {
  Graph graph;
  std::vector<Output> x;
  Output dy;
  Fetches fetches;
};

// Returns a variable's name without the layer's name.
std::string NameInLayer(const Node& variable) {
  const std::vector<std::string> parts = absl::StrSplit(variable.name(), absl::MaxSplits('/', 1));
  return parts.back();
}

absl::Status BuildModel(const KerasCase& c, Model* m) {
  const Scope root(&m->graph);
  for (const KerasInput& input : c.inputs) {
    Shape shape = input.shape;
    shape.set_dim(0, kUnknownDim);
    m->x.push_back(ops::Placeholder(root, input.limit == 0 ? DT_FLOAT : DT_INT32, shape));
  }
  const Output y = c.build(root, m->x);
  MF_RETURN_IF_ERROR(root.status());
  m->dy = ops::Placeholder(root.WithName("dy"), DT_FLOAT, root.shape(y));
  std::vector<Output> sources = TrainableVariables(m->graph);
  std::vector<std::string> names;
  for (const Output& v : sources) names.push_back(absl::StrCat("d:", NameInLayer(*v.node)));
  for (size_t i = 0; i < m->x.size(); ++i) {
    if (c.inputs[i].limit != 0) continue;
    sources.push_back(m->x[i]);
    names.push_back(absl::StrCat("dx", i));
  }
  MF_ASSIGN_OR_RETURN(const std::vector<Output> gradients,
                      Gradients(AllOps(), root, {y}, sources, {.grad_ys = {m->dy}}));
  m->fetches.Add("y", y);
  for (size_t i = 0; i < names.size(); ++i) {
    if (!gradients[i].valid()) return absl::InternalError(absl::StrCat(names[i], ": no gradient"));
    m->fetches.Add(names[i], gradients[i]);
  }
  return root.status();
}

absl::StatusOr<std::vector<Tensor>> Run(const KerasCase& c, const Model& m, const Shape& y,
                                        int replicas) {
  MF_ASSIGN_OR_RETURN(const auto session, CreateTestSession(m.graph, {.replicas = replicas}));
  for (const Node* node : m.graph.Nodes()) {
    if (node->op().role != OpRole::kVariable) continue;
    const std::string& name = node->name();
    MF_ASSIGN_OR_RETURN(const Tensor initial, session->ReadVariable(name));
    MF_RETURN_IF_ERROR(session->AssignVariable(
        name, Operand(absl::StrCat(c.name, "/", NameInLayer(*node)), initial.shape())));
  }
  std::vector<std::pair<Output, Tensor>> feeds = {{m.dy, Operand(c.name + "/dy", y)}};
  for (size_t i = 0; i < m.x.size(); ++i) {
    feeds.emplace_back(m.x[i], Operand(absl::StrCat(c.name, "/x", i), c.inputs[i]));
  }
  return session->Run(feeds, m.fetches.outputs);
}

}  // namespace

Output WithFactors(const Scope& scope, Output y, const std::vector<Output>& factors) {
  if (!scope.ok()) return Output();
  std::vector<Node*> dropouts;
  for (Node* node : scope.graph().Nodes()) {
    if (node->has_attr(kInferenceAttr)) dropouts.push_back(node);
  }
  if (dropouts.size() != factors.size()) {
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("expected ", factors.size(), " dropouts, got ", dropouts.size())));
    return Output();
  }
  for (size_t i = 0; i < factors.size(); ++i) {
    const Output x = OutputFromAttr(*dropouts[i], kInferenceAttr);
    scope.graph().ReplaceUses(dropouts[i]->output(0), ops::Mul(scope, x, factors[i]));
  }
  return y;
}

absl::StatusOr<std::map<std::string, Tensor>> ReadKerasFamily(const std::string& family) {
  return ReadNpz(absl::StrCat("tests/references/layers/", family, ".npz"));
}

std::string DifferenceFromKeras(const KerasCase& c, const std::map<std::string, Tensor>& stored,
                                int replicas) {
  const auto y = stored.find(c.name + "/y");
  if (y == stored.end()) return "not stored";
  Model m;
  if (const absl::Status status = BuildModel(c, &m); !status.ok()) return status.ToString();
  const auto got = Run(c, m, y->second.shape(), replicas);
  if (!got.ok()) return got.status().ToString();
  std::string differences;
  std::set<std::string> compared;
  for (size_t i = 0; i < got->size(); ++i) {
    const std::string name = absl::StrCat(c.name, "/", m.fetches.names[i]);
    const auto want = stored.find(name);
    compared.insert(name);
    const std::string difference =
        want == stored.end() ? "not stored" : Difference(want->second, (*got)[i], kTolerance);
    if (!difference.empty()) absl::StrAppend(&differences, name, ": ", difference, "\n");
  }
  const std::string prefix = c.name + "/";
  for (auto it = stored.lower_bound(prefix); it != stored.end(); ++it) {
    if (it->first.compare(0, prefix.size(), prefix) != 0) break;
    if (!compared.count(it->first)) absl::StrAppend(&differences, it->first, ": not computed\n");
  }
  return differences;
}

void ExpectMatchesKeras(const std::string& family, const std::vector<KerasCase>& cases) {
  const auto stored = ReadKerasFamily(family);
  ASSERT_TRUE(stored.ok()) << stored.status();
  std::set<std::string> names;
  for (const KerasCase& c : cases) {
    names.insert(c.name);
    for (const int replicas : KerasReplicas()) {
      EXPECT_EQ(DifferenceFromKeras(c, *stored, replicas), "")
          << c.name << " on " << replicas << " replicas";
    }
  }
  for (const auto& [name, tensor] : *stored) {
    const std::string case_name = name.substr(0, name.find('/'));
    EXPECT_TRUE(names.count(case_name)) << case_name << " is stored, but no case tests it";
  }
}

}  // namespace mirrorflow
