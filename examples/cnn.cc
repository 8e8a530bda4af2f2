// SPDX-License-Identifier: Apache-2.0
//
// Trains a CNN on Fashion-MNIST under MirroredStrategy with a progress bar, tests it after each
// epoch, and resumes from a checkpoint.
//
//   bazel run --config=opt //examples:cnn -- [EPOCHS [CHECKPOINT.safetensors]]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "mirrorflow.h"

namespace mf = mirrorflow;

namespace {

mf::Model BuildModel(const mf::Scope& root) {
  auto images = mf::ops::Placeholder(root.WithName("images"), mf::DT_FLOAT, {-1, 28, 28, 1});
  auto labels = mf::ops::Placeholder(root.WithName("labels"), mf::DT_INT32, {-1});
  mf::Output x = mf::layers::Conv2D(root, images, 32, 3, mf::ops::Relu, {.name = "conv1"});
  x = mf::layers::MaxPooling2D(root, x);
  x = mf::layers::Conv2D(root, x, 64, 3, mf::ops::Relu, {.name = "conv2"});
  x = mf::layers::Flatten(root, mf::layers::MaxPooling2D(root, x));
  x = mf::layers::Dense(root, x, 128, mf::ops::Relu, {.name = "hidden"});
  x = mf::layers::Dense(root, mf::layers::Dropout(root, x, 0.3), 10, nullptr, {.name = "logits"});
  auto loss = mf::losses::SparseSoftmaxCrossEntropy(root, x, labels);
  return {.inputs = {images, labels},
          .loss = loss,
          .train = mf::Adam({.learning_rate = 0.001}).Minimize(root, loss),
          .metrics = {{"accuracy", mf::metrics::SparseCategoricalAccuracy(root, x, labels)}}};
}

absl::Status Train(int64_t epochs, const std::string& checkpoint) {
  MF_ASSIGN_OR_RETURN(auto images,
                      mf::FashionMnist::Open({.split = mf::Split::kTrain, .shape_images = true}));
  MF_ASSIGN_OR_RETURN(auto test,
                      mf::FashionMnist::Open({.split = mf::Split::kTest, .shape_images = true}));
  MF_ASSIGN_OR_RETURN(auto strategy, mf::MirroredStrategy::Create());
  mf::Graph graph;
  mf::Scope root(&graph);
  auto mirrored = strategy->scope();
  MF_ASSIGN_OR_RETURN(auto trainer, mf::Trainer::Create(*strategy, graph, BuildModel(root)));
  if (!checkpoint.empty()) {
    const absl::Status loaded = mf::LoadVariables(checkpoint, trainer->session()).status();
    if (!loaded.ok() && !absl::IsNotFound(loaded)) return loaded;
  }
  mf::ProgressBar progress;
  // The checkpoint contains the step, so resumed training gets the batches in the same order.
  const mf::Dataset batches = images.Shuffle(/*seed=*/trainer->session().step()).Batch(128);
  MF_ASSIGN_OR_RETURN(auto result, trainer->Fit(batches, {.epochs = epochs,
                                                          .validation = test.Batch(1000),
                                                          .callbacks = {&progress}}));
  for (const mf::Logs& logs : result.history) {
    std::printf("loss=%.4f test_accuracy=%.4f\n", logs.at("loss"), logs.at("val_accuracy"));
  }
  if (!checkpoint.empty()) MF_RETURN_IF_ERROR(mf::SaveVariables(trainer->session(), checkpoint));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Train(argc > 1 ? std::atoll(argv[1]) : 1, argc > 2 ? argv[2] : "");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
