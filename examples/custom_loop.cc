// SPDX-License-Identifier: Apache-2.0
//
// A training loop without Trainer, for programs that need control over every step. It writes its
// loss with ops, prepares and runs steps, sets the learning rate, and evaluates with a metric.
// Classifies Fashion-MNIST.
//
//   bazel run --config=opt //examples:custom_loop -- [EPOCHS [REPLICAS [ROWS]]]
//
// By default it trains for 8 epochs on all 60,000 images, with one replica per device.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>

#include "mirrorflow.h"

namespace mf = mirrorflow;
namespace ops = mirrorflow::ops;

namespace {

struct Options {
  int64_t epochs = 8;
  std::optional<int> replicas = std::nullopt;  // on CPUs; by default, one per device
  int64_t rows = 60'000;
};

// The focal loss (Lin et al., 2017): cross entropy that gives an example less weight the more
// certain the model is of it. A loss is written for the global batch; the strategy distributes it.
mf::Output FocalLoss(const mf::Scope& root, const mf::Output& logits, const mf::Output& labels) {
  const auto number = [&](double value) { return ops::ScalarConst(root, mf::DT_FLOAT, value); };
  const mf::Output one_hot =
      ops::OneHot(root, labels, ops::ScalarConst(root, mf::DT_INT32, 10), number(1), number(0));
  const mf::Output log_p = ops::Sum(root, one_hot * ops::LogSoftmax(root, logits), {1});
  const mf::Output doubt = 1 - ops::Exp(root, log_p);
  return ops::Mean(root, -(doubt * doubt * log_p));
}

absl::Status Train(const Options& options) {
  MF_ASSIGN_OR_RETURN(auto images, mf::FashionMnist::Open({.split = mf::Split::kTrain}));
  MF_ASSIGN_OR_RETURN(auto test, mf::FashionMnist::Open({.split = mf::Split::kTest}));
  MF_ASSIGN_OR_RETURN(auto strategy,
                      mf::MirroredStrategy::Create({.num_cpu_replicas = options.replicas}));
  mf::Graph graph;
  mf::Scope root(&graph);
  auto mirrored = strategy->scope();
  auto x = ops::Placeholder(root.WithName("images"), mf::DT_FLOAT, {-1, 784});
  auto labels = ops::Placeholder(root.WithName("labels"), mf::DT_INT32, {-1});
  auto hidden = mf::layers::Dense(root, x, 256, ops::Relu);
  auto logits = mf::layers::Dense(root, mf::layers::Dropout(root, hidden, 0.2), 10);
  auto loss = FocalLoss(root, logits, labels);
  // The learning rate is a variable that the program sets between steps.
  float rate = 0.02F;
  const mf::Momentum optimizer({.learning_rate = mf::schedules::Adjustable(rate, "rate")});
  const mf::Operation train = optimizer.Minimize(root, loss);
  // Evaluation uses the inference form, which has no dropout.
  const auto accuracy =
      mf::metrics::SparseCategoricalAccuracy(root, mf::ForInference(root, logits), labels);

  // A session has the variables, and a copy of the graph in its current form.
  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(mf::Step train_step, session->Prepare({x, labels}, {loss}, {train}));
  MF_ASSIGN_OR_RETURN(mf::Step count, session->Prepare({x, labels}, {}, {accuracy.update}));
  MF_ASSIGN_OR_RETURN(mf::Step result, session->Prepare({}, {accuracy.result}));
  MF_ASSIGN_OR_RETURN(mf::Step reset, session->Prepare({}, {}, {accuracy.reset}));

  const mf::Dataset batches = images.Take(options.rows).Shuffle(/*seed=*/1).Batch(64);
  double last = std::numeric_limits<double>::infinity();
  float now = 0;
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    double sum = 0;
    int64_t rows = 0;
    auto input = strategy->Distribute(batches, epoch);  // each replica gets its rows of a batch
    for (mf::DistributedBatch batch; input.Next(&batch);) {
      MF_ASSIGN_OR_RETURN(auto outputs, train_step.Run(batch));
      const float value = outputs[0].scalar<float>();
      if (!std::isfinite(value)) return absl::OutOfRangeError("the loss is not finite");
      sum += value * static_cast<double>(batch.num_rows());
      rows += batch.num_rows();
    }
    MF_RETURN_IF_ERROR(input.status());  // OK at the end of the input
    const double mean = sum / static_cast<double>(rows);

    MF_RETURN_IF_ERROR(reset.Run({}).status());
    auto test_input = strategy->Distribute(test.Batch(1000));
    for (mf::DistributedBatch batch; test_input.Next(&batch);) {
      MF_RETURN_IF_ERROR(count.Run(batch).status());
    }
    MF_RETURN_IF_ERROR(test_input.status());
    MF_ASSIGN_OR_RETURN(auto counted, result.Run({}));  // over the rows of all replicas
    now = counted[0].scalar<float>();
    std::printf("epoch=%d rate=%.4f loss=%.4f test_accuracy=%.4f\n", static_cast<int>(epoch + 1),
                rate, mean, now);
    // Reduce the rate when the loss hardly improves.
    if (mean > 0.93 * last) rate *= 0.3F;
    MF_RETURN_IF_ERROR(session->AssignVariable("rate", mf::Tensor::Scalar(rate)));
    last = mean;
  }
  std::printf("test_accuracy=%.4f\n", now);
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
