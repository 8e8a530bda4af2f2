// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_training.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "examples/models.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr int kClasses = 10;
constexpr int kLstmSteps = 60;
constexpr int kLstmWidth = 32;
constexpr int kChainLength = 1000;

void BuildExample(const Scope& root, absl::string_view model, TrainingGraph* t) {
  const absl::StatusOr<Classifier> classifier = BuildClassifier(root, model);
  if (!classifier.ok()) return root.Fail(classifier.status());
  t->inputs = classifier->images;
  t->labels = classifier->labels;
  t->loss = classifier->loss;
}

void BuildBig(const Scope& root, absl::string_view /*model*/, TrainingGraph* t) {
  t->inputs = ops::Placeholder(root.WithName("inputs"), DT_FLOAT, {-1, 1024});
  t->labels = ops::Placeholder(root.WithName("labels"), DT_INT32, {-1});
  Output x = layers::Dense(root, t->inputs, 2048, ops::Relu);
  x = layers::Dense(root, x, 2048, ops::Relu);
  t->loss = losses::SparseSoftmaxCrossEntropy(root, layers::Dense(root, x, kClasses), t->labels);
}

// An LSTM (Hochreiter and Schmidhuber, "Long short-term memory", 1997; forget gates: Gers et al.,
// 2000) of plain ops, unrolled in time, whose last output is classified.
void BuildLstm(const Scope& root, absl::string_view /*model*/, TrainingGraph* t) {
  t->inputs = ops::Placeholder(root.WithName("inputs"), DT_FLOAT, {-1, kLstmSteps, kLstmWidth});
  t->labels = ops::Placeholder(root.WithName("labels"), DT_INT32, {-1});
  const Scope s = root.SubScope("lstm");
  const Output kernel =
      CreateVariable(s, "kernel", {2 * kLstmWidth, 4 * kLstmWidth}, initializers::GlorotUniform())
          .value;
  const Output bias = CreateVariable(s, "bias", {4 * kLstmWidth}, initializers::Zeros()).value;
  const std::vector<Output> inputs = ops::Unpack(s, t->inputs, kLstmSteps, {.axis = 1});
  if (!s.ok()) return;
  Output output = ops::ZerosLike(s, inputs[0]), state = output;
  for (const Output& input : inputs) {
    const Output x = ops::ConcatV2(s, {input, output}, 1);
    const std::vector<Output> gates =
        ops::Split(s, ops::BiasAdd(s, ops::MatMul(s, x, kernel), bias), 4, 1);
    if (!s.ok()) return;
    state = ops::AddV2(s, ops::Mul(s, ops::Sigmoid(s, gates[1]), state),
                       ops::Mul(s, ops::Sigmoid(s, gates[0]), ops::Tanh(s, gates[2])));
    output = ops::Mul(s, ops::Sigmoid(s, gates[3]), ops::Tanh(s, state));
  }
  t->loss =
      losses::SparseSoftmaxCrossEntropy(root, layers::Dense(root, output, kClasses), t->labels);
}

// Sines of sines of one number: nothing but dispatch, and nothing to learn.
void BuildChain(const Scope& root, absl::string_view /*model*/, TrainingGraph* t) {
  t->inputs = ops::Placeholder(root.WithName("inputs"), DT_FLOAT, {});
  t->labels = ops::Placeholder(root.WithName("labels"), DT_INT32, {-1});
  t->loss = t->inputs;
  for (int i = 0; i < kChainLength; ++i) t->loss = ops::Sin(root, t->loss);
}

constexpr struct {
  absl::string_view name;
  void (*build)(const Scope&, absl::string_view, TrainingGraph*);
  bool learns;
} kModels[] = {{"mlp", BuildExample, true}, {"cnn", BuildExample, true},
               {"big", BuildBig, true},     {"resnet", BuildExample, true},
               {"lstm", BuildLstm, true},   {"chain", BuildChain, false}};

template <typename T>
std::unique_ptr<Optimizer> MakeOptimizer() {
  return std::make_unique<T>(typename T::Options{.learning_rate = kBenchLearningRate});
}
constexpr struct {
  absl::string_view name;
  std::unique_ptr<Optimizer> (*make)();
} kOptimizers[] = {{"sgd", MakeOptimizer<SGD>},
                   {"momentum", MakeOptimizer<Momentum>},
                   {"adam", MakeOptimizer<Adam>}};

// The row of this name; the error lists all. `what` is what the rows are.
template <typename Table>
auto FindRow(const Table& table, absl::string_view what, absl::string_view name)
    -> absl::StatusOr<decltype(std::begin(table))> {
  const auto row = std::find_if(std::begin(table), std::end(table),
                                [&](const auto& r) { return r.name == name; });
  if (row != std::end(table)) return row;
  std::vector<absl::string_view> names;
  for (const auto& r : table) names.push_back(r.name);
  return absl::InvalidArgumentError(absl::StrCat("unknown ", what, "; expected one of ",
                                                 absl::StrJoin(names, ", "), ", got '", name, "'"));
}

}  // namespace

absl::StatusOr<TrainingGraph> BuildTraining(const Strategy& strategy, absl::string_view model,
                                            absl::string_view optimizer) {
  MF_ASSIGN_OR_RETURN(const auto* const known, FindRow(kModels, "model", model));
  MF_ASSIGN_OR_RETURN(const auto* const trained_by, FindRow(kOptimizers, "optimizer", optimizer));
  TrainingGraph t;
  const Scope root(&t.graph);
  auto mirrored = strategy.scope();
  known->build(root, model, &t);
  if (known->learns) {
    t.targets = {trained_by->make()->Minimize(root, t.loss)};
  }
  MF_RETURN_IF_ERROR(t.graph.status());
  return t;
}

absl::Status CheckOptimizer(absl::string_view optimizer) {
  return FindRow(kOptimizers, "optimizer", optimizer).status();
}

absl::StatusOr<Tensor> NoiseOf(DataType dtype, const Shape& shape) {
  MF_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(dtype, shape));
  if (dtype != DT_FLOAT) return value;
  // The generator of Numerical Recipes, 2nd ed., section 7.1; its low bits have short periods.
  uint32_t state = 1;
  for (float& x : value.flat<float>()) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) / (1 << 24);
  }
  return value;
}

absl::StatusOr<std::vector<Tensor>> NoiseBatch(const TrainingGraph& training, int64_t rows) {
  Shape shape = training.graph.values().shape(training.inputs);
  if (shape.rank() > 0) shape.set_dim(0, rows);
  MF_ASSIGN_OR_RETURN(Tensor inputs, NoiseOf(DT_FLOAT, shape));
  MF_ASSIGN_OR_RETURN(const Tensor noise, NoiseOf(DT_FLOAT, Shape({rows})));
  MF_ASSIGN_OR_RETURN(Tensor labels, Tensor::Allocate(DT_INT32, Shape({rows})));
  for (int64_t i = 0; i < rows; ++i) {
    labels.flat<int32_t>()[i] = static_cast<int32_t>(noise.flat<float>()[i] * kClasses);
  }
  return std::vector<Tensor>{inputs, labels};
}

absl::StatusOr<TrainingStep> PrepareTraining(const TrainingCase& training) {
  TrainingStep t;
  MirroredStrategy::Options options{.num_cpu_replicas = training.replicas};
  options.compile.disabled_passes.insert(training.without.begin(), training.without.end());
  MF_ASSIGN_OR_RETURN(t.strategy, MirroredStrategy::Create(options));
  MF_ASSIGN_OR_RETURN(TrainingGraph g,
                      BuildTraining(*t.strategy, training.model, training.optimizer));
  MF_ASSIGN_OR_RETURN(t.feeds, NoiseBatch(g, training.batch_size * training.replicas));
  MF_ASSIGN_OR_RETURN(t.session, t.strategy->NewSession(g.graph));
  MF_ASSIGN_OR_RETURN(t.step, t.session->Prepare({g.inputs, g.labels}, {g.loss}, g.targets));
  return t;
}

absl::StatusOr<std::unique_ptr<CaseFile>> CaseFile::Write(const TrainingStep& t) {
  std::map<NodeId, const VariableInfo*> in_order;
  for (const VariableInfo& variable : t.session->layout().variables()) {
    if (!variable.is_slot) in_order[variable.handle] = &variable;
  }
  std::map<std::string, Tensor> arrays = {{"inputs", t.feeds[0]}, {"labels", t.feeds[1]}};
  for (const auto& [id, variable] : in_order) {
    MF_ASSIGN_OR_RETURN(Tensor value, t.session->ReadVariable(variable->name));
    arrays[absl::StrFormat("weights/%03d", arrays.size())] = std::move(value);
  }
  std::unique_ptr<CaseFile> file(new CaseFile(absl::StrCat("/tmp/mirrorflow_", getpid(), ".npz")));
  MF_RETURN_IF_ERROR(WriteNpz(file->path_, arrays));
  return file;
}

CaseFile::~CaseFile() { unlink(path_.c_str()); }

}  // namespace mirrorflow
