// SPDX-License-Identifier: Apache-2.0
//
// Transfer learning: takes the lower layers of a model trained with Keras, freezes them, and trains
// a new head for other classes on a few images. Shows how to load another program's weights by
// name, and how to train only some of the variables.
//
//   bazel run --config=opt //examples:transfer_learning --
//       WEIGHTS.safetensors [IMAGES [EPOCHS [REPLICAS [OUT.safetensors]]]]
//
// tests/references/make_keras_weights.py creates the weights: with TensorFlow, it trains the same
// layers on classes 0 to 4 of Fashion-MNIST, and exports them. For any SavedModel or Keras model,
// Python writes such a file with
//
//   variables = tf.saved_model.load(folder).variables
//   safetensors.numpy.save_file({v.name.removesuffix(":0"): v.numpy() for v in variables}, path)
//
// By default, the head learns classes 5 to 9 from 500 images in 30 epochs. With `none` instead of
// the weights, the lower layers keep their random values. All variables are saved to OUT at the
// end.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "mirrorflow.h"

namespace mf = mirrorflow;

namespace {

struct Options {
  std::string weights, out;
  int64_t images = 500;
  int64_t epochs = 30;
  std::optional<int> replicas = std::nullopt;  // on CPUs; by default, one per device
};

// Builds the lower layers, with their Keras names: base/conv1/kernel, base/norm1/gamma, …
mf::Output Base(const mf::Scope& root, mf::Output x) {
  const mf::Scope scope = root.SubScope("base");
  for (const int i : {1, 2, 3}) {
    const std::string number = std::to_string(i);
    x = mf::layers::Conv2D(scope, x, 4 << i, 3, nullptr,
                           {.padding = "SAME", .use_bias = false, .name = "conv" + number});
    x = mf::layers::BatchNorm(scope, x, mf::ops::Relu, {.name = "norm" + number});
    x = mf::layers::MaxPooling2D(scope, x);
  }
  return mf::layers::Flatten(scope, x);
}

// Returns the images of classes 5 to 9, relabelled 0 to 4.
absl::StatusOr<mf::Dataset> OpenImages(mf::Split split) {
  MF_ASSIGN_OR_RETURN(auto all, mf::FashionMnist::Open({.split = split, .shape_images = true}));
  return all.Filter([](const mf::Row& row) { return row[1].scalar<int32_t>() >= 5; })
      .Map([](mf::Row* row) {
        (*row)[1] = mf::Tensor::Scalar<int32_t>((*row)[1].scalar<int32_t>() - 5);
        return absl::OkStatus();
      });
}

absl::Status Train(const Options& options) {
  MF_ASSIGN_OR_RETURN(auto images, OpenImages(mf::Split::kTrain));
  MF_ASSIGN_OR_RETURN(auto test, OpenImages(mf::Split::kTest));
  MF_ASSIGN_OR_RETURN(auto strategy,
                      mf::MirroredStrategy::Create({.num_cpu_replicas = options.replicas}));
  mf::Graph graph;
  mf::Scope root(&graph);
  auto mirrored = strategy->scope();
  auto x = mf::ops::Placeholder(root.WithName("images"), mf::DT_FLOAT, {-1, 28, 28, 1});
  auto labels = mf::ops::Placeholder(root.WithName("labels"), mf::DT_INT32, {-1});
  // Use the inference form, so batch normalisation uses the averages from the original training and
  // does not change them.
  auto features = mf::ForInference(root, Base(root, x));
  auto logits = mf::layers::Dense(root, features, 5, nullptr, {.name = "head"});
  std::vector<mf::Output> of_head;
  for (const mf::Output& variable : mf::TrainableVariables(graph)) {
    if (variable.node->name().starts_with("head/")) of_head.push_back(variable);
  }
  auto loss = mf::losses::SparseSoftmaxCrossEntropy(root, logits, labels);
  const mf::Model model = {
      .inputs = {x, labels},
      .loss = loss,
      .train = mf::Adam({.learning_rate = 0.003}).Minimize(root, loss, {.variables = of_head}),
      .metrics = {{"accuracy", mf::metrics::SparseCategoricalAccuracy(root, logits, labels)}}};
  MF_ASSIGN_OR_RETURN(auto trainer, mf::Trainer::Create(*strategy, graph, model));
  size_t loaded = 0;
  if (options.weights != "none") {
    // Do not use `strict`: the file has a head for other classes, and does not have the model's
    // head.
    MF_ASSIGN_OR_RETURN(const mf::LoadReport report,
                        mf::LoadVariables(options.weights, trainer->session(), {.strict = false}));
    loaded = report.loaded.size();
  }
  // Cache the images, because the filter reads all rows to find them.
  const mf::Dataset few = images.Take(options.images).Cache();
  const mf::Dataset batches = few.Shuffle(/*seed=*/1, {.buffer_size = options.images}).Batch(32);
  mf::ProgressBar progress;
  const mf::FitOptions fit = {.epochs = options.epochs, .callbacks = {&progress}};
  MF_RETURN_IF_ERROR(trainer->Fit(batches, fit).status());
  MF_ASSIGN_OR_RETURN(mf::Logs logs, trainer->Evaluate(test.Batch(500)));
  if (!options.out.empty()) {
    MF_RETURN_IF_ERROR(mf::SaveVariables(trainer->session(), options.out));
  }
  std::printf("loaded=%d test_accuracy=%.4f\n", static_cast<int>(loaded), logs["accuracy"]);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s WEIGHTS [IMAGES [EPOCHS [REPLICAS [OUT]]]]\n", argv[0]);
    return 2;
  }
  Options options{.weights = argv[1]};
  if (argc > 2) options.images = std::atoll(argv[2]);
  if (argc > 3) options.epochs = std::atoll(argv[3]);
  if (argc > 4) options.replicas = std::atoi(argv[4]);
  if (argc > 5) options.out = argv[5];
  const absl::Status status = Train(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
