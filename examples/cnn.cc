// SPDX-License-Identifier: Apache-2.0
//
// Trains a CNN on Fashion-MNIST under MirroredStrategy, shows progress, tests it after each epoch,
// and continues from a checkpoint.
//
//   bazel run --config=opt //examples:cnn -- [EPOCHS [CHECKPOINT.safetensors]]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "mirrorflow.h"

namespace mf = mirrorflow;

namespace {

struct Model {
  mf::Output images, labels;    // placeholders
  mf::Output loss;              // of training
  mf::Output logits, accuracy;  // of inference: no dropout
};

Model BuildModel(const mf::Scope& root) {
  Model m;
  m.images = mf::ops::Placeholder(root.WithName("images"), mf::DT_FLOAT, {-1, 28, 28, 1});
  m.labels = mf::ops::Placeholder(root.WithName("labels"), mf::DT_INT32, {-1});
  mf::Output x = mf::layers::Conv2D(root, m.images, 32, 3, mf::ops::Relu, {.name = "conv1"});
  x = mf::layers::MaxPooling2D(root, x);
  x = mf::layers::Conv2D(root, x, 64, 3, mf::ops::Relu, {.name = "conv2"});
  x = mf::layers::Flatten(root, mf::layers::MaxPooling2D(root, x));
  x = mf::layers::Dense(root, x, 128, mf::ops::Relu, {.name = "hidden"});
  x = mf::layers::Dense(root, mf::layers::Dropout(root, x, 0.3), 10, nullptr, {.name = "logits"});
  m.loss = mf::losses::SparseSoftmaxCrossEntropy(root, x, m.labels);
  m.logits = mf::ForInference(root, x);
  m.accuracy = mf::metrics::Accuracy(root, m.logits, m.labels);
  return m;
}

absl::StatusOr<double> TestAccuracy(const mf::Strategy& strategy, mf::Step step,
                                    const mf::Dataset& test) {
  auto input = strategy.Distribute(test.Batch(1000));
  double hits = 0;
  int64_t rows = 0;
  for (mf::DistributedBatch batch; input.Next(&batch);) {
    MF_ASSIGN_OR_RETURN(auto out, step.Run(batch));
    hits += static_cast<double>(out[0].scalar<float>()) * static_cast<double>(batch.num_rows());
    rows += batch.num_rows();
  }
  MF_RETURN_IF_ERROR(input.status());
  return hits / static_cast<double>(rows);
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
  const Model model = BuildModel(root);
  const mf::Operation train = mf::Adam({.learning_rate = 0.001}).Minimize(root, model.loss);
  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(auto train_step,
                      session->Prepare({model.images, model.labels}, {model.loss}, {train}));
  MF_ASSIGN_OR_RETURN(auto test_step,
                      session->Prepare({model.images, model.labels}, {model.accuracy}));
  if (!checkpoint.empty()) {
    const absl::Status loaded = mf::LoadVariables(checkpoint, *session).status();
    if (!loaded.ok() && !absl::IsNotFound(loaded)) return loaded;
  }
  const auto host = mf::StderrHost();
  mf::Progress progress(*host, {.epochs = epochs});
  progress.Start({.strategy = "MirroredStrategy", .replicas = strategy->num_replicas_in_sync()});
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    // The step is in the checkpoint, so training that continues sees the order that it would have.
    const mf::Dataset batches = images.Shuffle(/*seed=*/session->step()).Batch(128);
    MF_ASSIGN_OR_RETURN(auto result, mf::TrainLoop(*strategy, train_step, batches, progress, {}));
    MF_ASSIGN_OR_RETURN(const double accuracy, TestAccuracy(*strategy, test_step, test));
    std::printf("loss=%.4f test_accuracy=%.4f\n", result.loss, accuracy);
    if (!checkpoint.empty()) MF_RETURN_IF_ERROR(mf::SaveVariables(*session, checkpoint));
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Train(argc > 1 ? std::atoll(argv[1]) : 1, argc > 2 ? argv[2] : "");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
