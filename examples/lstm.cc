// SPDX-License-Identifier: Apache-2.0
//
// Classifies sequences with an LSTM: reads the images of Fashion-MNIST row by row, from top to
// bottom, as sequences of 28 vectors of 28 numbers. Shows recurrent layers, and the gradient
// clipping that they need.
//
//   bazel run --config=opt //examples:lstm -- [EPOCHS [REPLICAS [ROWS]]]
//
// By default, it trains for 5 epochs on all 60,000 images, with one replica per device.
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "mirrorflow.h"

namespace mf = mirrorflow;

namespace {

struct Options {
  int64_t epochs = 5;
  std::optional<int> replicas = std::nullopt;  // on CPUs; by default, one per device
  int64_t rows = 60'000;
};

mf::Model BuildModel(const mf::Scope& root) {
  auto images = mf::ops::Placeholder(root.WithName("images"), mf::DT_FLOAT, {-1, 784});
  auto labels = mf::ops::Placeholder(root.WithName("labels"), mf::DT_INT32, {-1});
  mf::Output x = mf::layers::Reshape(root, images, {28, 28});
  x = mf::layers::LSTM(root, x, 64, {.return_sequences = true, .name = "lower"});
  x = mf::layers::LSTM(root, x, 64, {.name = "upper"});  // the output after the last row
  auto logits = mf::layers::Dense(root, x, 10);
  auto loss = mf::losses::SparseSoftmaxCrossEntropy(root, logits, labels);
  return {.inputs = {images, labels},
          .loss = loss,
          .train = mf::Adam({.learning_rate = 0.002}).Minimize(root, loss, {.global_clipnorm = 1}),
          .metrics = {{"accuracy", mf::metrics::SparseCategoricalAccuracy(root, logits, labels)}}};
}

absl::Status Train(const Options& options) {
  MF_ASSIGN_OR_RETURN(auto images, mf::FashionMnist::Open({.split = mf::Split::kTrain}));
  MF_ASSIGN_OR_RETURN(auto test, mf::FashionMnist::Open({.split = mf::Split::kTest}));
  MF_ASSIGN_OR_RETURN(auto strategy,
                      mf::MirroredStrategy::Create({.num_cpu_replicas = options.replicas}));
  mf::Graph graph;
  mf::Scope root(&graph);
  auto mirrored = strategy->scope();
  MF_ASSIGN_OR_RETURN(auto trainer, mf::Trainer::Create(*strategy, graph, BuildModel(root)));
  mf::ProgressBar progress;
  const mf::Dataset batches = images.Take(options.rows).Shuffle(/*seed=*/1).Batch(64);
  const mf::FitOptions fit = {.epochs = options.epochs, .callbacks = {&progress}};
  MF_RETURN_IF_ERROR(trainer->Fit(batches, fit).status());
  MF_ASSIGN_OR_RETURN(mf::Logs logs, trainer->Evaluate(test.Batch(500)));
  std::printf("test_accuracy=%.4f\n", logs["accuracy"]);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc > 1) options.epochs = std::atoll(argv[1]);
  if (argc > 2) options.replicas = std::atoi(argv[2]);
  if (argc > 3) options.rows = std::atoll(argv[3]);
  const absl::Status status = Train(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
