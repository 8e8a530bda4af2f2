// SPDX-License-Identifier: Apache-2.0
//
// Trains a generative adversarial network (Goodfellow et al., 2014) on Fashion-MNIST. Shows two
// losses and two optimizers, each with its own variables, in one step: the discriminator learns to
// tell real images from generated ones, and the generator learns to deceive it.
//
//   bazel run --config=opt //examples:gan -- [EPOCHS [REPLICAS [ROWS]]]
//
// By default, it trains for 10 epochs on all 60,000 images, with one replica per device. It prints
// both losses, and the distance of the generated images from those of the test set before and after
// training: the Fréchet distance (Dowson and Landau, 1982), computed as if all pixels were
// normally distributed and independent.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "mirrorflow.h"

namespace mf = mirrorflow;
namespace ops = mirrorflow::ops;

namespace {

struct Options {
  int64_t epochs = 10;
  std::optional<int> replicas = std::nullopt;  // on CPUs; by default, one per device
  int64_t rows = 60'000;
};
constexpr int64_t kNoise = 64, kPixels = 784;

// Generates one image per row of `like`.
mf::Output Generate(const mf::Scope& scope, const mf::Output& like) {
  const mf::Output rows = ops::ElementOf(scope, ops::Shape(scope, like), 0);
  const mf::Output shape = ops::Pack(scope, {rows, ops::ScalarConst(scope, mf::DT_INT32, kNoise)});
  mf::Output x = ops::RandomStandardNormal(scope, shape, mf::DT_FLOAT);
  x = mf::layers::Dense(scope, x, 128, ops::Relu);
  x = mf::layers::Dense(scope, x, 256, ops::Relu);
  return mf::layers::Dense(scope, x, kPixels, ops::Sigmoid);
}

// Returns one logit per image; its sigmoid is the probability that the image is real.
mf::Output Discriminate(const mf::Scope& scope, mf::Output x) {
  for (const int64_t units : {256, 128}) {
    x = mf::layers::LeakyReLU(scope, mf::layers::Dense(scope, x, units), 0.2);
    x = mf::layers::Dropout(scope, x, 0.3);
  }
  return mf::layers::Dense(scope, x, 1);
}

std::vector<mf::Output> VariablesBelow(const mf::Graph& graph, const std::string& prefix) {
  std::vector<mf::Output> found;
  for (const mf::Output& variable : mf::TrainableVariables(graph)) {
    if (variable.node->name().starts_with(prefix)) found.push_back(variable);
  }
  return found;
}

// Returns the mean over the pixels of (difference of means)² + (difference of deviations)².
mf::Output Distance(const mf::Scope& scope, const mf::Output& a, const mf::Output& b) {
  const auto mean = [&](const mf::Output& x) { return ops::Mean(scope, x, {0}); };
  const auto deviation = [&](const mf::Output& x) {
    return ops::Sqrt(scope, mean(ops::SquaredDifference(scope, x, mean(x))));
  };
  return ops::Mean(scope, ops::SquaredDifference(scope, mean(a), mean(b)) +
                              ops::SquaredDifference(scope, deviation(a), deviation(b)));
}

// Returns the images without their labels.
absl::StatusOr<mf::Dataset> OpenImages(mf::Split split) {
  MF_ASSIGN_OR_RETURN(auto labelled, mf::FashionMnist::Open({.split = split}));
  return labelled.Map([](mf::Row* row) {
    row->pop_back();
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
  auto real = ops::Placeholder(root.WithName("images"), mf::DT_FLOAT, {-1, kPixels});
  auto made = Generate(root.SubScope("generator"), real);
  mf::layers::Shared discriminator("discriminator", Discriminate);
  auto of_real = discriminator(root, real), of_made = discriminator(root, made);
  const auto cross_entropy = [&](const mf::Output& x, const mf::Output& truth) {
    return mf::losses::BinaryCrossentropy(root, x, truth, {.from_logits = true});
  };
  const mf::Output one = ops::OnesLike(root, of_real), zero = ops::ZerosLike(root, of_real);
  auto discriminator_loss = 0.5 * (cross_entropy(of_real, one) + cross_entropy(of_made, zero));
  auto generator_loss = cross_entropy(of_made, one);
  const mf::Adam for_discriminator({.learning_rate = 0.001, .beta1 = 0.5});
  const mf::Adam for_generator({.learning_rate = 0.002, .beta1 = 0.5});
  // Both read the variables from before the step, so their order does not matter.
  const mf::Operation train[] = {
      for_discriminator.Minimize(root, discriminator_loss,
                                 {.variables = VariablesBelow(graph, "discriminator/")}),
      for_generator.Minimize(root, generator_loss,
                             {.variables = VariablesBelow(graph, "generator/")})};
  auto distance = Distance(root, real, made);

  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(mf::Step step,
                      session->Prepare({real}, {discriminator_loss, generator_loss}, train));
  MF_ASSIGN_OR_RETURN(mf::Step compare, session->Prepare({real}, {distance}));
  const auto distance_to_test = [&]() -> absl::StatusOr<float> {
    mf::DistributedBatch batch;
    auto input = strategy->Distribute(test.Batch(10'000));
    if (!input.Next(&batch)) return input.status();
    MF_ASSIGN_OR_RETURN(auto outputs, compare.Run(batch));
    return outputs[0].scalar<float>();
  };

  MF_ASSIGN_OR_RETURN(const float untrained, distance_to_test());
  double losses[2] = {0, 0};
  const mf::Dataset batches = images.Take(options.rows).Shuffle(/*seed=*/1).Batch(64);
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    losses[0] = losses[1] = 0;
    auto input = strategy->Distribute(batches, epoch);
    for (mf::DistributedBatch batch; input.Next(&batch);) {
      MF_ASSIGN_OR_RETURN(auto outputs, step.Run(batch));
      for (int i : {0, 1}) losses[i] += outputs[i].scalar<float>() / *batches.size();
    }
    MF_RETURN_IF_ERROR(input.status());
    std::fprintf(stderr, "epoch %d: discriminator %.3f, generator %.3f\n",
                 static_cast<int>(epoch + 1), losses[0], losses[1]);
  }
  MF_ASSIGN_OR_RETURN(const float trained, distance_to_test());
  std::printf("discriminator_loss=%.3f generator_loss=%.3f untrained_distance=%.4f distance=%.4f\n",
              losses[0], losses[1], untrained, trained);
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
