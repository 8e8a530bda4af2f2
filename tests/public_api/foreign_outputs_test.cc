// SPDX-License-Identifier: Apache-2.0
//
// Tests that every public call that takes an Output, an Operation or a Variable rejects one from
// another graph, although both graphs have nodes with the same names and ids. It must also reject
// an output index that the node lacks.
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow.h"
#include "tests/support/is_error.h"

namespace mf = mirrorflow;

namespace {

using mf::IsError;

// A graph that has one value for each kind of argument.
struct Values {
  mf::Graph graph;
  mf::Scope s{&graph};
  mf::Output Feed(const char* name, const mf::Shape& shape, mf::DataType dtype = mf::DT_FLOAT) {
    return mf::ops::Placeholder(s.WithName(name), dtype, shape);
  }
  mf::Output rows = Feed("rows", {-1, 4});
  mf::Output numbers = Feed("numbers", {-1});
  mf::Output images = Feed("images", {-1, 8, 8, 4});
  mf::Output volumes = Feed("volumes", {-1, 8, 8, 8, 4});
  mf::Output sequences = Feed("sequences", {-1, 6, 4});
  mf::Output ids = Feed("ids", {-1, 6}, mf::DT_INT32);
  mf::Output classes = Feed("classes", {-1}, mf::DT_INT32);
  mf::Output mask = Feed("mask", {-1, 6}, mf::DT_BOOL);
  mf::Output is_on = Feed("is_on", {}, mf::DT_BOOL);
  mf::Variable kernel = mf::CreateVariable(s, "kernel", {4, 4}, mf::initializers::Ones());
  mf::Output loss = mf::ops::Mean(s, mf::ops::Square(s, mf::ops::MatMul(s, rows, kernel.value)));
  const mf::Operation update = mf::ops::AssignVariableOp(s, kernel.handle, kernel.value);

  // Replaces every output with output 7 of the same node in `own`, which does not exist.
  void PointBeyond(const Values& own) {
    const auto beyond = [](const mf::Output& output) { return mf::Output{output.node, 7}; };
    rows = beyond(own.rows);
    numbers = beyond(own.numbers);
    images = beyond(own.images);
    volumes = beyond(own.volumes);
    sequences = beyond(own.sequences);
    ids = beyond(own.ids);
    classes = beyond(own.classes);
    mask = beyond(own.mask);
    is_on = beyond(own.is_on);
    kernel = {beyond(own.kernel.handle), beyond(own.kernel.value)};
    loss = beyond(own.loss);
  }
};

// A call to a builder. `f` has the foreign graph's values, and `o` those of the call's own graph.
struct Call {
  const char* text;
  std::function<void(Values& f, Values& o)> make;
};
#define CALL(...)                                                                       \
  {                                                                                     \
#__VA_ARGS__, [](Values & f, Values & o) { (void)f, (void)o, (void)(__VA_ARGS__); } \
  }
// Calls to a function that takes predictions, labels and, in its options, sample weights.
#define CALLS(function, predictions, labels)                                                  \
  CALL(function(o.s, f.predictions, o.labels)), CALL(function(o.s, o.predictions, f.labels)), \
      CALL(function(o.s, o.predictions, o.labels, {.sample_weight = f.numbers}))

std::vector<Call> Layers() {
  namespace layers = mf::layers;
  return {
      CALL(layers::Activation()(o.s, f.rows)),
      CALL(layers::ReLU(o.s, f.rows)),
      CALL(layers::LeakyReLU(o.s, f.rows)),
      CALL(layers::ELU(o.s, f.rows)),
      CALL(layers::PReLU(o.s, f.rows)),
      CALL(layers::Softmax(o.s, f.rows)),
      CALL(layers::MaskedSoftmax(o.s, f.sequences, 1)),
      CALL(layers::MaskedSoftmax(o.s, o.sequences, 1, {.mask = f.mask})),
      CALL(layers::SelfAttention(o.s, f.sequences, 2)),
      CALL(layers::Bidirectional(o.s, f.sequences, 3, layers::LSTM)),
      CALL(layers::Conv1D(o.s, f.sequences, 3, 2)),
      CALL(layers::Conv2D(o.s, f.images, 3, 2)),
      CALL(layers::Conv3D(o.s, f.volumes, 3, 2)),
      CALL(layers::Dense(o.s, f.rows, 3)),
      CALL(layers::DepthwiseConv2D(o.s, f.images, 2)),
      CALL(layers::SeparableConv2D(o.s, f.images, 3, 2)),
      CALL(layers::Dropout(o.s, f.rows, 0)),
      CALL(layers::Dropout(o.s, f.rows, 0.5)),
      CALL(layers::SpatialDropout1D(o.s, f.sequences, 0)),
      CALL(layers::SpatialDropout2D(o.s, f.images, 0)),
      CALL(layers::SpatialDropout3D(o.s, f.volumes, 0)),
      CALL(layers::GaussianNoise(o.s, f.rows, 0)),
      CALL(layers::GaussianDropout(o.s, f.rows, 0)),
      CALL(layers::Embedding(o.s, f.ids, 10, 4)),
      CALL(layers::Embedding(o.s, o.ids, f.kernel)),
      CALL(layers::GroupNormalization(o.s, f.images, {.groups = 2})),
      CALL(layers::RMSNormalization(o.s, f.rows)),
      CALL(layers::UnitNormalization(o.s, f.rows)),
      CALL(layers::Masking(o.s, f.sequences)),
      CALL(layers::PaddingMask(o.s, f.ids)),
      CALL(layers::MultiHeadAttention(o.s, f.sequences, o.sequences, 2, 2)),
      CALL(layers::MultiHeadAttention(o.s, o.sequences, f.sequences, 2, 2)),
      CALL(layers::GroupQueryAttention(o.s, f.sequences, o.sequences, 2, 2, 1)),
      CALL(layers::GroupQueryAttention(o.s, o.sequences, o.sequences, 2, 2, 1,
                                       {.key = f.sequences})),
      CALL(layers::BatchNorm(o.s, f.rows)),
      CALL(layers::BatchNormalization(o.s, f.rows)),
      CALL(layers::LayerNormalization(o.s, f.rows)),
      CALL(layers::ZeroPadding1D(o.s, f.sequences)),
      CALL(layers::ZeroPadding2D(o.s, f.images)),
      CALL(layers::Cropping1D(o.s, f.sequences)),
      CALL(layers::Cropping2D(o.s, f.images)),
      CALL(layers::MaxPooling1D(o.s, f.sequences)),
      CALL(layers::MaxPooling2D(o.s, f.images)),
      CALL(layers::MaxPooling3D(o.s, f.volumes)),
      CALL(layers::AveragePooling1D(o.s, f.sequences)),
      CALL(layers::AveragePooling2D(o.s, f.images)),
      CALL(layers::AveragePooling3D(o.s, f.volumes)),
      CALL(layers::GlobalMaxPooling1D(o.s, f.sequences)),
      CALL(layers::GlobalMaxPooling2D(o.s, f.images)),
      CALL(layers::GlobalMaxPooling3D(o.s, f.volumes)),
      CALL(layers::GlobalAveragePooling1D(o.s, f.sequences)),
      CALL(layers::GlobalAveragePooling2D(o.s, f.images)),
      CALL(layers::GlobalAveragePooling3D(o.s, f.volumes)),
      CALL(layers::SimpleRNN(o.s, f.sequences, 3)),
      CALL(layers::SimpleRNN(o.s, o.sequences, 3, {.mask = f.mask})),
      CALL(layers::SimpleRNNWithState(o.s, f.sequences, 3)),
      CALL(layers::LSTM(o.s, f.sequences, 3)),
      CALL(layers::LSTM(o.s, o.sequences, 4, {.initial_state = {f.rows, f.rows}})),
      CALL(layers::LSTMWithState(o.s, f.sequences, 3)),
      CALL(layers::GRU(o.s, f.sequences, 3)),
      CALL(layers::GRUWithState(o.s, f.sequences, 3)),
      CALL(layers::Flatten(o.s, f.images)),
      CALL(layers::Reshape(o.s, f.rows, {2, 2})),
      CALL(layers::Permute(o.s, f.sequences, {2, 1})),
      CALL(layers::RepeatVector(o.s, f.rows, 3)),
      CALL(layers::RotaryEmbedding(o.s, f.sequences)),
      CALL(layers::Conv1DTranspose(o.s, f.sequences, 3, 2)),
      CALL(layers::Conv2DTranspose(o.s, f.images, 3, 2)),
      CALL(layers::UpSampling1D(o.s, f.sequences)),
      CALL(layers::UpSampling2D(o.s, f.images)),
  };
}

std::vector<Call> Losses() {
  namespace losses = mf::losses;
  return {
      CALLS(losses::SparseSoftmaxCrossEntropy, rows, classes),
      CALLS(losses::CategoricalCrossentropy, rows, rows),
      CALLS(losses::BinaryCrossentropy, rows, rows),
      CALLS(losses::BinaryFocalCrossentropy, rows, rows),
      CALLS(losses::CategoricalFocalCrossentropy, rows, rows),
      CALLS(losses::KLDivergence, rows, rows),
      CALLS(losses::CTC, sequences, ids),
      CALLS(losses::Hinge, rows, rows),
      CALLS(losses::SquaredHinge, rows, rows),
      CALLS(losses::CategoricalHinge, rows, rows),
      CALLS(losses::MeanSquaredError, rows, rows),
      CALLS(losses::MeanAbsoluteError, rows, rows),
      CALLS(losses::MeanAbsolutePercentageError, rows, rows),
      CALLS(losses::MeanSquaredLogarithmicError, rows, rows),
      CALLS(losses::LogCosh, rows, rows),
      CALLS(losses::Poisson, rows, rows),
      CALLS(losses::Huber, rows, rows),
      CALLS(losses::CosineSimilarity, rows, rows),
  };
}

std::vector<Call> Metrics() {
  namespace metrics = mf::metrics;
  return {
      CALLS(metrics::SparseCategoricalAccuracy, rows, classes),
      CALLS(metrics::CategoricalAccuracy, rows, rows),
      CALLS(metrics::BinaryAccuracy, rows, rows),
      CALLS(metrics::SparseTopKCategoricalAccuracy, rows, classes),
      CALLS(metrics::TopKCategoricalAccuracy, rows, rows),
      CALLS(metrics::AUC, rows, rows),
      CALL(metrics::Accuracy(o.s, f.rows, o.classes)),
      CALL(metrics::Accuracy(o.s, o.rows, f.classes)),
      CALL(metrics::ConfusionMatrix(o.s, f.classes, o.classes, 3)),
      CALL(metrics::ConfusionMatrix(o.s, o.classes, f.classes, 3)),
      CALL(metrics::ConfusionMatrix(o.s, o.classes, o.classes, 3, {.sample_weight = f.numbers})),
      CALL(metrics::MeanIoU(o.s, f.classes, o.classes, 3)),
      CALL(metrics::MeanIoU(o.s, o.classes, f.classes, 3)),
      CALLS(metrics::FBetaScore, rows, rows),
      CALLS(metrics::F1Score, rows, rows),
      CALL(metrics::Mean(o.s, f.numbers)),
      CALL(metrics::Mean(o.s, o.numbers, {.sample_weight = f.numbers})),
      CALL(metrics::Sum(o.s, f.numbers)),
      CALL(metrics::Sum(o.s, o.numbers, {.sample_weight = f.numbers})),
      CALLS(metrics::Perplexity, rows, classes),
      CALLS(metrics::Precision, rows, rows),
      CALLS(metrics::Recall, rows, rows),
      CALLS(metrics::MeanSquaredError, rows, rows),
      CALLS(metrics::RootMeanSquaredError, rows, rows),
      CALLS(metrics::MeanAbsoluteError, rows, rows),
      CALLS(metrics::MeanAbsolutePercentageError, rows, rows),
      CALLS(metrics::MeanSquaredLogarithmicError, rows, rows),
      CALLS(metrics::CosineSimilarity, rows, rows),
  };
}

std::vector<mf::GradientAndVariable> Pair(mf::Output gradient, mf::Output variable) {
  return {{gradient, variable}};
}

mf::Initializer Returning(mf::Output value) {
  return [value](const mf::Scope&, const mf::Shape&, mf::DataType) { return value; };
}

std::vector<Call> Training() {
  return {
      CALL(mf::CreateVariable(o.s, "v", {4, 4}, Returning(f.kernel.value))),
      CALL(mf::RegularizationLoss(o.s, mf::regularizers::L2(1), {.variables = {f.kernel.handle}})),
      CALL(mf::RegularizationLoss(o.s, [&](const mf::Scope&, mf::Output) { return f.loss; })),
      CALL(mf::ForInference(o.s, f.loss)),
      CALL(mf::ForInference(o.s, f.update)),
      CALL(mf::WithMovingAverages(o.s, f.loss)),
      CALL(mf::WithMovingAverages(o.s, f.update)),
      CALL(mf::ClipByValue(o.s, Pair(f.kernel.value, o.kernel.handle), 1)),
      CALL(mf::ClipByNorm(o.s, Pair(f.kernel.value, o.kernel.handle), 1)),
      CALL(mf::ClipByGlobalNorm(o.s, Pair(f.kernel.value, o.kernel.handle), 1)),
      CALL(mf::SGD().Minimize(o.s, f.loss)),
      CALL(mf::SGD().Minimize(o.s, f.loss, {.loss_scale = mf::LossScaleOptions()})),
      CALL(mf::SGD().Minimize(o.s, o.loss, {.variables = {f.kernel.handle}})),
      CALL(mf::SGD().Minimize(o.s, o.loss, {.exclude_from_weight_decay = {f.kernel.handle}})),
      CALL(
          mf::SGD().Minimize(o.s, o.loss, {.learning_rate_multipliers = {{{f.kernel.handle}, 2}}})),
      CALL(mf::SGD().Minimize(o.s, o.loss, {.accumulate_weight = f.loss})),
      CALL(mf::SGD().Minimize(o.s, o.loss,
                              {.reduce = [&](mf::GradientReduction&) { return f.kernel.value; }})),
      CALL(mf::Muon({.exclude_layers = {f.kernel.handle}}).Minimize(o.s, o.loss)),
      CALL(mf::SGD({.learning_rate = mf::LearningRateSchedule(
                        [&](const mf::Scope&, mf::Output) { return f.loss; })})
               .Minimize(o.s, o.loss)),
      CALL(mf::SGD().ComputeGradients(o.s, f.loss, {o.kernel.handle})),
      CALL(mf::SGD().ComputeGradients(o.s, o.loss, {f.kernel.handle})),
      CALL(mf::SGD().ApplyGradients(o.s, Pair(f.kernel.value, o.kernel.handle))),
      CALL(mf::SGD().ApplyGradients(o.s, Pair(o.kernel.value, f.kernel.handle))),
      CALL(mf::SGD().ApplyGradients(o.s, Pair(o.kernel.value, o.kernel.handle), f.is_on)),
      CALL(mf::SGD().ApplyGradients(o.s, {}, f.is_on)),
      CALL(mf::SGD().ReduceGradients(o.s, Pair(f.kernel.value, o.kernel.handle),
                                     mf::hooks::AllReduce())),
      CALL(mf::SGD().ReduceGradients(o.s, Pair(o.kernel.value, o.kernel.handle),
                                     mf::hooks::AllReduce(), f.is_on)),
  };
}

std::vector<mf::Output> Same(const mf::Scope&, absl::Span<const mf::Output> in) {
  return {in.begin(), in.end()};
}

std::vector<Call> Graphs() {
  return {
      CALL(o.s.shape(f.rows)),
      CALL(mf::ops::AddV2(o.s, f.rows, o.rows)),
      CALL(mf::ops::AddV2(o.s, o.rows, f.rows)),
      CALL(mf::ops::ConcatV2(o.s, {o.rows, f.rows}, 0)),
      CALL(mf::ops::Cast(o.s, f.rows, mf::DT_FLOAT)),
      CALL(mf::ops::Dropout(o.s, f.rows, 0)),
      CALL(mf::ops::ReadVariableOp(o.s, f.kernel.handle)),
      CALL(mf::ops::AssignVariableOp(o.s, f.kernel.handle, o.kernel.value)),
      CALL(mf::ops::AssignVariableOp(o.s, o.kernel.handle, f.kernel.value)),
      CALL(mf::ops::LocalPart(o.s, f.loss)),
      CALL(mf::ops::AllReduce(o.s, f.loss)),
      CALL(mf::ops::EnsureReplicated(o.s, f.loss, "loss")),
      CALL(mf::ops::Group(o.s, {f.update})),
      CALL(mf::ops::NoOp(o.s.WithControlDependencies({f.update}))),
      CALL(mf::ops::If(o.s, f.is_on, {o.rows}, Same, Same)),
      CALL(mf::ops::If(o.s, o.is_on, {f.rows}, Same, Same)),
      CALL(o.rows + f.rows),
      CALL(o.rows * f.rows),
      CALL(o.graph.ReplaceUses(f.rows, o.rows)),
      CALL(o.graph.ReplaceUses(o.rows, f.rows)),
      CALL(o.graph.ReplaceControlUses(f.update.node, o.update.node)),
      CALL(o.graph.ReplaceControlUses(o.update.node, f.update.node)),
      CALL(o.graph.SetInput(f.loss.node, 0, o.rows)),
      CALL(o.graph.SetInput(o.loss.node, 0, f.rows)),
      CALL(o.graph.AddControlEdge(f.update.node, o.loss.node)),
      CALL(o.graph.AddControlEdge(o.update.node, f.loss.node)),
      CALL(o.graph.RemoveControlEdge(f.update.node, o.loss.node)),
      CALL(o.graph.SetAttr(f.update.node, "_mark", true)),
      CALL(o.graph.RemoveNode(f.update.node)),
      CALL(o.graph.RemoveUnneeded({f.update.node})),
  };
}

void ExpectRejected(const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    Values foreign, own;
    call.make(foreign, own);
    EXPECT_THAT(own.graph.status(), IsError(absl::StatusCode::kInvalidArgument, "another graph"))
        << call.text;
    EXPECT_TRUE(foreign.graph.status().ok()) << call.text << ": " << foreign.graph.status();
    if (absl::StrContains(call.text, "f.loss.node"))
      continue;  // takes a node rather than an output, and the node exists
    Values lacking, other;
    lacking.PointBeyond(other);
    call.make(lacking, other);
    EXPECT_EQ(other.graph.status().code(), absl::StatusCode::kInvalidArgument) << call.text;
  }
}

TEST(ForeignOutputs, LayersRejectForeignOutputs) { ExpectRejected(Layers()); }
TEST(ForeignOutputs, LossesRejectForeignOutputs) { ExpectRejected(Losses()); }
TEST(ForeignOutputs, MetricsRejectForeignOutputs) { ExpectRejected(Metrics()); }
TEST(ForeignOutputs, OptimizersRejectForeignOutputs) { ExpectRejected(Training()); }
TEST(ForeignOutputs, GraphsAndOpsRejectForeignOutputs) { ExpectRejected(Graphs()); }

// If this fails, add a row for the new layer, loss or metric above.
TEST(ForeignOutputs, TablesHaveEveryFunctionInTheHeaders) {
  const std::set<std::string> helpers = {
      "AddBias",   "AsType",     "BatchShape", "Recur",         "MergeDirections", "UnlessEmpty",
      "EndsKnown", "GroupDepth", "InputDepth", "CheckExamples", "CheckRank"};
  const std::regex function(R"(\n[\w:<> ]+ (\w+)\(const Scope& \w+,\s*Output)");
  const std::pair<const char*, std::vector<Call>> tables[] = {
      {"layers", Layers()}, {"losses", Losses()}, {"metrics", Metrics()}};
  for (const auto& [folder, calls] : tables) {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(std::string("train/") + folder)) {
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      const std::string header = text.str();
      for (std::sregex_iterator it(header.begin(), header.end(), function), end; it != end; ++it) {
        if (helpers.count((*it)[1]) == 0) found.insert((*it)[1]);
      }
    }
    EXPECT_GT(found.size(), 15u) << folder;
    for (const std::string& name : found) {
      const bool has_row = std::any_of(calls.begin(), calls.end(), [&](const Call& call) {
        return std::string(call.text).find("::" + name + "(") != std::string::npos;
      });
      EXPECT_TRUE(has_row) << "no row calls " << folder << "::" << name;
    }
  }
}

// Passes foreign outputs to session calls, which return the error in their Status.
class ForeignOutputsOfSessionTest : public testing::Test {
 protected:
  void SetUp() override {
    session_ = strategy_->NewSession(own_.graph).value();
    // The foreign values have the same names and ids as values of the session's graph.
    ASSERT_EQ(own_.loss.node->id(), foreign_.loss.node->id());
    ASSERT_EQ(own_.loss.node->name(), foreign_.loss.node->name());
  }

  void ExpectForeign(const absl::Status& status, const std::string& where) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, where, "another graph"));
  }

  const std::unique_ptr<mf::Strategy> strategy_ = mf::OneDeviceStrategy::Create().value();
  Values own_, foreign_;
  std::unique_ptr<mf::Session> session_;
  const mf::Tensor batch_ = mf::Tensor::Of<float>({1, 4}, {1, 2, 3, 4});
};

TEST_F(ForeignOutputsOfSessionTest, PrepareRejectsForeignOutputs) {
  ExpectForeign(session_->Prepare({foreign_.rows}, {own_.loss}).status(), "feed 0 'rows'");
  ExpectForeign(session_->Prepare({own_.rows}, {own_.loss, foreign_.loss}).status(), "fetch 1 '");
  ExpectForeign(session_->Prepare({own_.rows}, {}, {foreign_.update}).status(), "target 0 '");
  const std::vector<mf::Output> local = {foreign_.loss};
  ExpectForeign(session_->Prepare({own_.rows}, {own_.loss}, {}, {.local_fetches = local}).status(),
                "fetch 0 '");
}

TEST_F(ForeignOutputsOfSessionTest, RunRejectsForeignOutputs) {
  ExpectForeign(session_->Run({{foreign_.rows, batch_}}, {own_.loss}).status(), "feed 0 'rows'");
  ExpectForeign(session_->Run({{own_.rows, batch_}}, {foreign_.loss}).status(), "fetch 0 '");
  ExpectForeign(session_->Run({{own_.rows, batch_}}, {}, {foreign_.update}).status(), "target 0");
}

TEST_F(ForeignOutputsOfSessionTest, GradientsRejectForeignOutputs) {
  const mf::Output x = own_.kernel.handle, y = own_.loss;
  const mf::Output foreign_x = foreign_.kernel.handle, foreign_y = foreign_.loss;
  ExpectForeign(mf::Gradients(own_.s, {foreign_y}, {x}).status(), "Gradients");
  ExpectForeign(mf::Gradients(own_.s, {y}, {foreign_x}).status(), "Gradients");
  ExpectForeign(mf::Gradients(own_.s, {y}, {x}, {.grad_ys = {foreign_y}}).status(), "Gradients");
  ExpectForeign(mf::Gradients(own_.s, {y}, {x}, {.stop_gradients = {foreign_y}}).status(),
                "Gradients");
}

TEST_F(ForeignOutputsOfSessionTest, TrainerRejectsForeignOutputs) {
  const auto metric = [](Values& of) { return mf::metrics::Mean(of.s, of.numbers); };
  const mf::metrics::Metric own = metric(own_), foreign = metric(foreign_);
  const mf::Model model = {.inputs = {own_.rows},
                           .loss = own_.loss,
                           .train = own_.update,
                           .metrics = {{"mean", own}},
                           .predictions = own_.rows,
                           .prediction_inputs = {own_.rows}};
  const std::pair<const char*, std::function<void(mf::Model&)>> cases[] = {
      {"inputs", [&](mf::Model& m) { m.inputs = {foreign_.rows}; }},
      {"loss", [&](mf::Model& m) { m.loss = foreign_.loss; }},
      {"train", [&](mf::Model& m) { m.train = foreign_.update; }},
      {"metric 'mean'",
       [&](mf::Model& m) {
         m.metrics = {{"mean", foreign}};
       }},
      {"metric 'mean'", [&](mf::Model& m) { m.metrics[0].metric.update = foreign.update; }},
      {"metric 'mean'", [&](mf::Model& m) { m.metrics[0].metric.reset = foreign.reset; }},
      {"predictions", [&](mf::Model& m) { m.predictions = foreign_.rows; }},
      {"prediction_inputs", [&](mf::Model& m) { m.prediction_inputs = {foreign_.rows}; }},
  };
  for (const auto& [field, change] : cases) {
    mf::Model changed = model;
    change(changed);
    ExpectForeign(mf::Trainer::Create(*strategy_, own_.graph, changed).status(), field);
  }
}

TEST_F(ForeignOutputsOfSessionTest, SameGraphIsAccepted) {
  EXPECT_TRUE(session_->Prepare({own_.rows}, {own_.loss}, {own_.update}).ok());
  const mf::Output late = mf::ops::Square(own_.s.WithName("late"), own_.loss);
  EXPECT_THAT(session_->Prepare({own_.rows}, {late}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "NewSession"));
  // Moving a graph does not make it a different one.
  const mf::Graph moved = std::move(own_.graph);
  EXPECT_TRUE(session_->Prepare({own_.rows}, {own_.loss}).ok());
}

// A new graph can have the address of a destroyed one.
TEST(ForeignOutputs, GraphAtReusedAddressIsForeign) {
  const auto strategy = mf::OneDeviceStrategy::Create().value();
  std::optional<Values> values(std::in_place);
  const auto session = strategy->NewSession(values->graph).value();
  ASSERT_TRUE(session->Prepare({values->rows}, {values->loss}).ok());
  values.reset();
  values.emplace();
  EXPECT_THAT(
      session->Prepare({values->rows}, {values->loss}).status(),
      IsError(absl::StatusCode::kInvalidArgument, "feed 0 'rows'", "belongs to another graph"));
}

TEST(ForeignOutputs, OutputOfTheOriginalIsForeignToItsClone) {
  Values values;
  const mf::Graph clone = values.graph.Clone();
  const auto session = mf::OneDeviceStrategy::Create().value()->NewSession(clone).value();
  EXPECT_THAT(
      session->Prepare({values.rows}, {values.loss}).status(),
      IsError(absl::StatusCode::kInvalidArgument, "feed 0 'rows'", "belongs to another graph"));
}

}  // namespace
