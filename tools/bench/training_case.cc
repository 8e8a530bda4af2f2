// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/training_case.h"

#include <algorithm>
#include <iterator>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/runtime/variable_layout.h"
#include "tools/models/classifiers.h"
#include "tools/models/transformer.h"

namespace mirrorflow {
namespace {

constexpr int kLstmSteps = 60;
constexpr int kLstmWidth = 32;
constexpr int kChainLength = 1000;

void Train(const Classifier& model, TrainingGraph* t) {
  t->inputs = model.images;
  t->labels = model.labels;
  t->loss = model.loss;
  t->logits = model.logits;
}

void BuildExample(const Scope& root, absl::string_view model, TrainingGraph* t) {
  const absl::StatusOr<Classifier> classifier = BuildClassifier(root, model);
  if (!classifier.ok()) return root.Fail(classifier.status());
  Train(*classifier, t);
}

void BuildLargeResNet(const Scope& root, absl::string_view name, TrainingGraph* t) {
  ResNet50Config config;
  if (name == "resnet50_64") config.pixels = 64;
  t->classes = config.classes;
  Train(BuildResNet50(root, config), t);
}

// Must match peer.py and gpu_peer.py. A vocabulary that is a multiple of 128 suits tensor cores.
constexpr TransformerConfig kTransformer = {
    .vocabulary = 8192, .context = 256, .width = 256, .heads = 4, .blocks = 4};
constexpr TransformerConfig kGpt2 = {
    .vocabulary = 50304, .context = 1024, .width = 768, .heads = 12, .blocks = 12};

void BuildLanguageModel(const Scope& root, absl::string_view name, TrainingGraph* t) {
  const TransformerConfig& config = name == "gpt2" ? kGpt2 : kTransformer;
  const LanguageModel model = BuildTransformer(root, config);
  t->classes = config.vocabulary;
  t->inputs = model.tokens;
  t->labels = model.next;
  t->loss = model.loss;
  t->logits = model.logits;
}

void BuildBig(const Scope& root, absl::string_view /*model*/, TrainingGraph* t) {
  t->inputs = ops::Placeholder(root.WithName("inputs"), DT_FLOAT, {-1, 1024});
  t->labels = ops::Placeholder(root.WithName("labels"), DT_INT32, {-1});
  Output x = layers::Dense(root, t->inputs, 2048, ops::Relu);
  x = layers::Dense(root, x, 2048, ops::Relu);
  t->logits = layers::Dense(root, x, t->classes);
  t->loss = losses::SparseSoftmaxCrossEntropy(root, t->logits, t->labels);
}

// Builds an LSTM (Hochreiter and Schmidhuber, "Long short-term memory", 1997; forget gates: Gers et
// al., 2000) from elementary ops, unrolled in time, followed by a classifier of its last output.
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
  t->logits = layers::Dense(root, output, t->classes);
  t->loss = losses::SparseSoftmaxCrossEntropy(root, t->logits, t->labels);
}

// Builds nested sines of one number, which measure only dispatch. The model has nothing to learn.
void BuildChain(const Scope& root, absl::string_view /*model*/, TrainingGraph* t) {
  t->inputs = ops::Placeholder(root.WithName("inputs"), DT_FLOAT, {});
  t->labels = ops::Placeholder(root.WithName("labels"), DT_INT32, {-1});
  t->loss = t->inputs;
  for (int i = 0; i < kChainLength; ++i) t->loss = ops::Sin(root, t->loss);
}

constexpr double kAdamLearningRate = 1e-4;

constexpr struct {
  absl::string_view name;
  void (*build)(const Scope&, absl::string_view, TrainingGraph*);
  absl::string_view optimizer;                // by default; empty if the model is not trained
  double learning_rate = kBenchLearningRate;  // of this optimizer; others use kBenchLearningRate
} kModels[] = {{"mlp", BuildExample, "sgd"},
               {"cnn", BuildExample, "sgd"},
               {"big", BuildBig, "sgd"},
               {"resnet", BuildExample, "sgd"},
               {"transformer", BuildLanguageModel, "adam", kAdamLearningRate},
               {"gpt2", BuildLanguageModel, "adam", kAdamLearningRate},
               {"resnet50", BuildLargeResNet, "momentum"},
               {"resnet50_64", BuildLargeResNet, "momentum"},
               {"lstm", BuildLstm, "sgd"},
               {"chain", BuildChain, ""}};

template <typename T>
std::unique_ptr<Optimizer> MakeOptimizer(double learning_rate) {
  return std::make_unique<T>(typename T::Options{.learning_rate = learning_rate});
}
constexpr struct {
  absl::string_view name;
  std::unique_ptr<Optimizer> (*make)(double learning_rate);
} kOptimizers[] = {{"sgd", MakeOptimizer<SGD>},
                   {"momentum", MakeOptimizer<Momentum>},
                   {"adam", MakeOptimizer<Adam>}};

GradientReducer PowerSGD() {
  return hooks::PowerSGD({.matrix_approximation_rank = 4, .start_powersgd_iter = 0});
}
constexpr struct {
  absl::string_view name;
  GradientReducer (*make)();
} kHooks[] = {{"none", [] { return GradientReducer(); }},
              {"bf16", [] { return hooks::Bf16Compress(); }},
              {"fp16", [] { return hooks::Fp16Compress(); }},
              {"powersgd", PowerSGD},
              {"adasum", hooks::Adasum}};

// Returns the row with this name, or an error that lists all names. `what` names the kind of
// row.
template <typename Table>
auto FindRow(const Table& table, absl::string_view what, absl::string_view name)
    -> absl::StatusOr<decltype(std::begin(table))> {
  const auto row = absl::c_find_if(table, [&](const auto& r) { return r.name == name; });
  if (row != std::end(table)) return row;
  std::vector<absl::string_view> names;
  for (const auto& r : table) names.push_back(r.name);
  return absl::InvalidArgumentError(absl::StrCat("unknown ", what, "; expected one of ",
                                                 absl::StrJoin(names, ", "), ", got '", name, "'"));
}

}  // namespace

absl::StatusOr<TrainingGraph> BuildTraining(const Strategy& strategy, absl::string_view model,
                                            absl::string_view optimizer, absl::string_view hook) {
  MF_ASSIGN_OR_RETURN(const auto* const known, FindRow(kModels, "model", model));
  if (optimizer.empty()) optimizer = known->optimizer;
  TrainingGraph t;
  const Scope root(&t.graph);
  auto mirrored = strategy.scope();
  known->build(root, model, &t);
  if (!known->optimizer.empty()) {
    MF_ASSIGN_OR_RETURN(const auto* const trained_by, FindRow(kOptimizers, "optimizer", optimizer));
    MF_ASSIGN_OR_RETURN(const auto* const reduced_by, FindRow(kHooks, "hook", hook));
    const double learning_rate =
        optimizer == known->optimizer ? known->learning_rate : kBenchLearningRate;
    t.targets = {
        trained_by->make(learning_rate)->Minimize(root, t.loss, {.reduce = reduced_by->make()})};
  }
  MF_RETURN_IF_ERROR(t.graph.status());
  return t;
}

absl::Status CheckTraining(const Strategy& strategy, absl::string_view model,
                           absl::string_view optimizer, absl::string_view hook) {
  const absl::Status known = FindRow(kOptimizers, "optimizer", optimizer).status();
  MF_RETURN_IF_ERROR(Annotate(known, "--optimizer"));
  MF_RETURN_IF_ERROR(Annotate(FindRow(kHooks, "hook", hook).status(), "--hook"));
  return Annotate(BuildTraining(strategy, model).status(), "--model");
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

namespace {

// Returns a random value for the placeholder. Integers are below `classes`.
absl::StatusOr<Tensor> NoiseFor(const TrainingGraph& training, Output placeholder, int64_t rows) {
  Shape shape = training.graph.values().shape(placeholder);
  if (shape.rank() > 0) shape.set_dim(0, rows);
  MF_ASSIGN_OR_RETURN(Tensor noise, NoiseOf(DT_FLOAT, shape));
  if (placeholder.dtype() == DT_FLOAT) return noise;
  MF_ASSIGN_OR_RETURN(Tensor classes, Tensor::Allocate(DT_INT32, shape));
  absl::c_transform(noise.flat<float>(), classes.flat<int32_t>().begin(), [&](float x) {
    return static_cast<int32_t>(x * static_cast<float>(training.classes));
  });
  return classes;
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> NoiseBatch(const TrainingGraph& training, int64_t rows) {
  MF_ASSIGN_OR_RETURN(Tensor inputs, NoiseFor(training, training.inputs, rows));
  MF_ASSIGN_OR_RETURN(Tensor labels, NoiseFor(training, training.labels, rows));
  // The label of a token is the next token, because predicting the input token would be trivial.
  if (inputs.dtype() == DT_INT32) {
    const absl::Span<int32_t> next = labels.flat<int32_t>();
    std::rotate(next.begin(), next.begin() + 1, next.end());
  }
  return std::vector<Tensor>{std::move(inputs), std::move(labels)};
}

namespace {

absl::StatusOr<ReadyStep> PrepareTraining(const TrainingCase& training,
                                          std::unique_ptr<Strategy> strategy) {
  MF_ASSIGN_OR_RETURN(ReadyStep t, PrepareTraining(training, *strategy));
  t.strategy = std::move(strategy);
  return t;
}

MirroredStrategy::Options ReplicasOf(const TrainingCase& training, int count) {
  MirroredStrategy::Options options{.num_cpu_replicas = count,
                                    .threads_per_replica = training.threads_per_replica};
  options.compile.disabled_passes.insert(training.without.begin(), training.without.end());
  return options;
}

}  // namespace

absl::StatusOr<ReadyStep> PrepareTraining(const TrainingCase& training) {
  MF_ASSIGN_OR_RETURN(auto strategy,
                      MirroredStrategy::Create(ReplicasOf(training, training.num_replicas())));
  return PrepareTraining(training, std::move(strategy));
}

absl::StatusOr<ReadyStep> PrepareTraining(const TrainingCase& training, const Cluster& cluster) {
  if (cluster.num_workers == 1) return PrepareTraining(training);
  MF_ASSIGN_OR_RETURN(auto strategy,
                      MultiWorkerMirroredStrategy::Create(
                          {.cluster = cluster,
                           .replicas = ReplicasOf(training, training.replicas),
                           .join = {.insecure = true,
                                    .collective = training.collective,
                                    .heartbeat_timeout = training.heartbeat_timeout}}));
  return PrepareTraining(training, std::move(strategy));
}

absl::StatusOr<ReadyStep> PrepareTraining(const TrainingCase& training, const Strategy& strategy) {
  ReadyStep t;
  MF_ASSIGN_OR_RETURN(TrainingGraph g,
                      BuildTraining(strategy, training.model, training.optimizer, training.hook));
  MF_ASSIGN_OR_RETURN(t.feeds, NoiseBatch(g, training.batch_size * training.num_replicas()));
  MF_ASSIGN_OR_RETURN(t.session, strategy.NewSession(g.graph));
  MF_ASSIGN_OR_RETURN(t.step, t.session->Prepare({g.inputs, g.labels}, {g.loss}, g.targets));
  return t;
}

absl::StatusOr<ReadyStep> PrepareServing(absl::string_view model) {
  MF_ASSIGN_OR_RETURN(auto strategy, OneDeviceStrategy::Create());
  ReadyStep s{.strategy = std::move(strategy)};
  MF_ASSIGN_OR_RETURN(const TrainingGraph g, BuildTraining(*s.strategy, model));
  if (!g.logits.valid()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model has no logits; expected a classifier, got '", model, "'"));
  }
  MF_ASSIGN_OR_RETURN(s.feeds, NoiseBatch(g, /*rows=*/1));
  MF_ASSIGN_OR_RETURN(s.session, s.strategy->NewSession(g.graph));
  MF_ASSIGN_OR_RETURN(s.step, s.session->Prepare({g.inputs}, {g.logits}));
  return s;
}

absl::StatusOr<std::unique_ptr<CaseFile>> CaseFile::Write(Session& session,
                                                          absl::Span<const Tensor> batch) {
  std::map<NodeId, const VariableInfo*> in_order;
  for (const VariableInfo& variable : session.layout().variables()) {
    if (!variable.is_slot) in_order[variable.handle] = &variable;
  }
  std::map<std::string, Tensor> arrays = {{"inputs", batch[0]}, {"labels", batch[1]}};
  for (const auto& [id, variable] : in_order) {
    MF_ASSIGN_OR_RETURN(Tensor value, session.ReadVariable(variable->name));
    arrays[absl::StrFormat("weights/%03d", arrays.size())] = std::move(value);
  }
  return Write(arrays);
}

absl::StatusOr<std::unique_ptr<CaseFile>> CaseFile::Write(
    const std::map<std::string, Tensor>& arrays) {
  std::unique_ptr<CaseFile> file(new CaseFile);
  MF_RETURN_IF_ERROR(WriteNpz(file->path_, arrays));
  return file;
}

}  // namespace mirrorflow
